"""An image of Postgres for the chart's trial database, where there is no registry to pull one from.

It is the image under test with one more layer: the server's programs from the wheel that all tests use, which run on
any glibc. Nothing has to be built for it.
"""

from __future__ import annotations

import tarfile
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from tests.e2e import layered

from anabranch.devcluster import postgres

if TYPE_CHECKING:
    from anabranch.devcluster.image import Image

NAME = f"localhost/anabranch-test-postgres:{metadata.version(postgres.WHEEL)}"

USER = 999
"""Whom the chart runs Postgres as, unless told otherwise: initdb asks for an entry of /etc/passwd."""

PASSWD = f"root:x:0:0:root:/root:/usr/sbin/nologin\npostgres:x:{USER}:{USER}::/tmp:/bin/sh\n"

# What the chart's script needs of an ordinary image and ours has not.
COMMANDS = {
    "rm": "import shutil, sys; shutil.rmtree(sys.argv[2], ignore_errors=True)",
    "mv": "import os, sys; os.rename(sys.argv[1], sys.argv[2])",
}

PLACE = "opt/postgres"


def save(base: Image, archive: Path) -> None:
    """Writes the image as a docker archive.

    Args:
        base: The image that it builds on, which has a shell, Python, and Postgres' libraries.
        archive: Where to.
    """
    layer = archive.with_suffix(".layer")
    _write_layer(layer)
    config = {"User": str(USER), "Env": [f"PATH=/{PLACE}/{postgres.PROGRAMS}/bin:/usr/local/bin:/usr/bin"]}
    layered.save(base, layer, archive, name=NAME, config=config | {"Entrypoint": None, "Cmd": None})


def _write_layer(path: Path) -> None:
    site = Path(str(metadata.distribution(postgres.WHEEL).locate_file("")))
    with tarfile.open(path, "w") as layer:
        for folder in (postgres.PROGRAMS, postgres.LIBRARIES):
            layer.add(site / folder, f"{PLACE}/{folder}", filter=_for_running)
        for name, source in COMMANDS.items():
            layered.add(layer, f"usr/local/bin/{name}", f"#!/usr/bin/python3\n{source}\n", mode=0o755)
        layered.add(layer, "etc/passwd", PASSWD)


def _for_running(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Without what only a compiler reads."""
    return None if "/include" in entry.name else layered.plain(entry)
