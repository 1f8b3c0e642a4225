"""How large the container image is: its layers, unpacked.

Reads the one that `make image` has saved, or that ANABRANCH_IMAGE names; builds it where there is none.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from anabranch.devcluster import image as images
from benchmarks.measure import Row

if TYPE_CHECKING:
    from benchmarks.stage import Stage

NAME = "image"
BAR_MB = 300
SAVED = images.REPOSITORY / "artifacts/anabranch-image.tar"


async def run(_: Stage, *, quick: bool) -> list[Row]:
    """Read it, or build it."""
    return await asyncio.to_thread(_rows, Path(os.environ.get("ANABRANCH_IMAGE", SAVED)), quick=quick)


def _rows(archive: Path, *, quick: bool) -> list[Row]:
    if quick and not archive.exists():
        print("there is no image, and a quick run builds none", file=sys.stderr)
        return []
    image = images.read(archive) if archive.exists() else images.build(archive)
    return [sized(image)]


def sized(image: images.Image) -> Row:
    """What an image takes."""
    size = image.size / 1e6
    return Row(
        name="size-image",
        work="the container image, unpacked",
        peer="-",
        bar=f"< {BAR_MB} MB",
        reached=size < BAR_MB,
        figures={
            "mb": round(size, 1),
            "of_commit": image.labels.get("org.opencontainers.image.revision", "unknown")[:10],
        },
    )
