"""An image that is another one with a layer more: it costs seconds, wherever the first one came from."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from anabranch.devcluster.image import Image


def save(base: Image, layer: Path, archive: Path, *, name: str, config: Mapping[str, Any] | None = None) -> None:
    """Writes an image as a docker archive.

    Args:
        base: What it builds on.
        layer: An archive of what comes over it; it is deleted.
        archive: Where to.
        name: Its name with its tag.
        config: What of the configuration differs from the base's, such as `User`.
    """
    with layer.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    with tarfile.open(base.archive) as source, tarfile.open(archive, "w") as target:
        entry = json.loads(_read(source, "manifest.json"))[0]
        described = json.loads(_read(source, entry["Config"]))
        described["config"] |= config or {}
        described["rootfs"]["diff_ids"].append(f"sha256:{digest}")
        described.pop("history", None)
        for each in entry["Layers"]:
            target.addfile(source.getmember(each), source.extractfile(each))
        target.add(layer, "layer.tar")
        add(target, "config.json", json.dumps(described))
        manifest = [{"Config": "config.json", "RepoTags": [name], "Layers": [*entry["Layers"], "layer.tar"]}]
        add(target, "manifest.json", json.dumps(manifest))
    layer.unlink()


def files(image: Image) -> Iterator[tarfile.TarInfo]:
    """Every file of an image, layer by layer."""
    with tarfile.open(image.archive) as archive:
        for layer in json.loads(_read(archive, "manifest.json"))[0]["Layers"]:
            with tarfile.open(fileobj=archive.extractfile(layer)) as opened:
                yield from opened


def add(archive: tarfile.TarFile, name: str, content: str, *, mode: int = 0o644) -> None:
    """Adds a file with some text, of nobody and of no time."""
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content.encode()), mode
    archive.addfile(entry, io.BytesIO(content.encode()))


def plain(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    """Makes a file that is added one of nobody and of no time."""
    entry.uid = entry.gid = entry.mtime = 0
    return entry


def _read(archive: tarfile.TarFile, name: str) -> bytes:
    file = archive.extractfile(name)
    return file.read() if file else b""
