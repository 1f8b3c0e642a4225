"""Writes ``docs/openapi.json``: ``python -m anabranch.api.openapi [--check]``.

The file is committed, so that a change of the interface shows in review. With ``--check`` nothing is written, and a
file that lags behind the code is an error.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Final

from anabranch.api.app import create_app

TARGET: Final = Path("docs/openapi.json")


def rendered() -> str:
    """The file's text."""
    return json.dumps(create_app().openapi(), indent=2, ensure_ascii=False) + "\n"


def main() -> int:
    """Write the file, or check it; 1 if it lags behind."""
    parser = argparse.ArgumentParser(prog="python -m anabranch.api.openapi", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail if the file is not up to date")
    arguments = parser.parse_args()
    text = rendered()
    if arguments.check:
        if not TARGET.is_file() or TARGET.read_text(encoding="utf-8") != text:
            sys.stderr.write(f"{TARGET} is not up to date: run `make generate`.\n")
            return 1
        return 0
    TARGET.parent.mkdir(exist_ok=True)
    TARGET.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
