"""An image of Postgres for the chart's trial database, where there is no registry to pull one from.

It is the image under test with one more layer: the server's programs from the wheel that all tests use, which run on
any glibc. Nothing has to be built for it, so it costs seconds wherever the image itself came from.
"""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

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
    with layer.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    with tarfile.open(base.archive) as source, tarfile.open(archive, "w") as target:
        entry = json.loads(_read(source, "manifest.json"))[0]
        config = json.loads(_read(source, entry["Config"]))
        config["config"] = {
            "User": str(USER),
            "Env": [f"PATH=/{PLACE}/{postgres.PROGRAMS}/bin:/usr/local/bin:/usr/bin"],
        }
        config["rootfs"]["diff_ids"].append(f"sha256:{digest}")
        config.pop("history", None)
        for name in entry["Layers"]:
            target.addfile(source.getmember(name), source.extractfile(name))
        target.add(layer, "postgres.tar")
        _add(target, "config.json", json.dumps(config))
        manifest = [{"Config": "config.json", "RepoTags": [NAME], "Layers": [*entry["Layers"], "postgres.tar"]}]
        _add(target, "manifest.json", json.dumps(manifest))
    layer.unlink()


def _write_layer(path: Path) -> None:
    site = Path(str(metadata.distribution(postgres.WHEEL).locate_file("")))
    with tarfile.open(path, "w") as layer:
        for folder in (postgres.PROGRAMS, postgres.LIBRARIES):
            layer.add(site / folder, f"{PLACE}/{folder}", filter=_plain)
        for name, source in COMMANDS.items():
            _add(layer, f"usr/local/bin/{name}", f"#!/usr/bin/python3\n{source}\n", mode=0o755)
        _add(layer, "etc/passwd", PASSWD)


def _plain(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Of nobody and of no time; without what only a compiler reads."""
    entry.uid = entry.gid = entry.mtime = 0
    return None if "/include" in entry.name else entry


def _read(archive: tarfile.TarFile, name: str) -> bytes:
    file = archive.extractfile(name)
    return file.read() if file else b""


def _add(archive: tarfile.TarFile, name: str, content: str, *, mode: int = 0o644) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content.encode()), mode
    archive.addfile(entry, io.BytesIO(content.encode()))
