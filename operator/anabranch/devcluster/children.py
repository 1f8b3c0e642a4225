"""Child processes that are modules of this package: they run the very same code, and see nothing meant for another."""

from __future__ import annotations

import os
import sys
from pathlib import Path

SOURCE_ROOT = Path(__file__).resolve().parents[2]
"""Where this package is imported from."""


def command(module: str, *arguments: str | Path) -> list[str]:
    """The command line that runs a module."""
    return [sys.executable, "-m", module, *map(str, arguments)]


def environment(**extra: str) -> dict[str, str]:
    """The environment for it: the caller's, less what configures Anabranch, and with no proxy on the loopback."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("ANABRANCH_")}
    path = [str(SOURCE_ROOT), *filter(None, [inherited.get("PYTHONPATH")])]
    fixed = {"PYTHONPATH": os.pathsep.join(path), "PYTHONUNBUFFERED": "1", "NO_PROXY": "127.0.0.1,localhost"}
    return inherited | fixed | extra
