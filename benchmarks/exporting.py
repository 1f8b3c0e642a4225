"""How long an export of a million records takes, and how much memory, on both sides.

The archive is streamed from the tables as the API streams it, written to a file, and then checked as a client checks
it: every content, every source, and the root. Each is done by a process of its own, so that its peak memory is its own;
a tenth of the records shows whether that depends on their number. Then all records are withheld, whose hashes are put
in order first. Not counted: the network.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from anabranch.archive import ArchiveReader
from anabranch.archive.verifying import verify
from anabranch.baselines import exporting
from anabranch.store.database import Database
from benchmarks.importing import peak_mib
from benchmarks.measure import Row

if TYPE_CHECKING:
    from benchmarks import stage

NAME = "export"
LARGE, SMALL, QUICK = 1_000_000, 100_000, 5_000
MIB = 192


async def run(place: stage.Stage, *, quick: bool) -> list[Row]:
    """Export both lines."""
    sizes = (QUICK // 5, QUICK) if quick else (SMALL, LARGE)
    told = {}
    for records in sizes:
        line = await place.line(records)
        file = place.folder / f"{records}.export"
        told[records] = {step: await done(step, line, file) for step in ("make", "check", "withhold")}
        file.unlink()
    less, more = (told[records] for records in sizes)
    most = max(one.rss_mib for one in more.values())
    return [
        Row(
            name=NAME,
            work=f"export {sizes[1]:,} records, and check the archive",
            peer="-",
            bar=f"≤ {MIB} MiB, whatever their number",
            reached=most <= MIB,
            figures={
                **{f"{step}_s": told.seconds for step, told in more.items()},
                **{f"{step}_rss_mib": told.rss_mib for step, told in more.items()},
                **{f"{step}_rss_mib_of_{sizes[0]:,}": told.rss_mib for step, told in less.items()},
                "archive_mib": more["make"].bytes >> 20,
            },
        )
    ]


@dataclass(frozen=True, slots=True)
class Told:
    """What a process tells: its time, its peak memory, and the size of the archive."""

    seconds: float
    rss_mib: int
    bytes: int


async def done(step: str, line: stage.Line, file: Path) -> Told:
    """A step, in a process of its own."""
    arguments = (step, line.dsn, line.line, str(file))
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-m", __name__, *arguments, stdout=asyncio.subprocess.PIPE
    )
    out, _ = await child.communicate()
    if child.returncode:
        raise RuntimeError(f"the process that was to {step} failed; its error stands above")
    return Told(**json.loads(out))


async def make(dsn: str, line: str, file: Path, *, scopes: list[str]) -> None:
    """Stream an archive to a file."""

    async def still_allowed() -> None:
        """Nobody takes anything away here."""

    db = await Database.open(dsn, application_name="benchmark export")
    export = await exporting.prepare(db, line=line, ref="current", allowed=scopes, readable=["shared"], wanted=scopes)
    pieces = exporting.stream(db, export, offset=0, check=still_allowed, among=asyncio.Semaphore(1))
    with file.open("wb") as target:
        async for piece in pieces:
            target.write(piece)
    await db.close()


def check(file: Path) -> None:
    """Check an archive as a client does."""
    with file.open("rb") as source:
        verify(ArchiveReader(source))


def main(step: str, dsn: str, line: str, path: str) -> Told:
    """What a child does, timed."""
    file = Path(path)
    began = time.perf_counter()
    if step == "check":
        check(file)
    elif step == "make":
        asyncio.run(make(dsn, line, file, scopes=["shared"]))
    else:
        # A scope that has no record yet: all of them are withheld, the most that there can be to put in order.
        asyncio.run(make(dsn, line, file.with_suffix(".withheld"), scopes=["none"]))
    seconds = time.perf_counter() - began
    return Told(seconds, peak_mib(), file.stat().st_size)


if __name__ == "__main__":
    print(json.dumps(asdict(main(*sys.argv[1:]))))
