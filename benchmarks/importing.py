"""How long an import of a million records takes, and how much memory.

The whole way of the product: an archive that was uploaded to the Baseline is read, every line of it checked, and
becomes generation 1 with its trie, in one transaction. It is done by a process of its own, as the operator is one, so
that its peak memory is its own; a tenth of the records shows whether that depends on their number. Not counted: making
the archive, and its upload. The line that the last round makes serves the rows that come after.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

from anabranch.archive import ArchiveHeader, ArchiveRecord, ArchiveWriter
from anabranch.baselines import archives, sources
from anabranch.model.canonical import hash_bytes, hash_text
from anabranch.model.crd.resource import BaselineResource
from anabranch.store import importing
from anabranch.store.database import Database
from benchmarks import stage
from benchmarks.measure import Row

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from anabranch.kube.client import KubeClient

NAME = "import"
RECORDS, FEWER, QUICK = 1_000_000, 100_000, 5_000
ROUNDS = 3
SECONDS = 60.0


async def run(place: stage.Stage, *, quick: bool) -> list[Row]:
    """Import some times; the last line is for the rows that follow."""
    large, small = (QUICK, QUICK // 5) if quick else (RECORDS, FEWER)
    _, less = await imported(place, small)
    rounds = [await imported(place, large) for _ in range(1 if quick else ROUNDS)]
    place.adopt(rounds[-1][0])
    times = [told.seconds for _, told in rounds]
    return [
        Row(
            name=NAME,
            work=f"import {large:,} records",
            peer="-",
            bar=f"≤ {SECONDS:.0f} s, memory bounded",
            reached=statistics.median(times) <= SECONDS,
            figures={
                "s": statistics.median(times),
                "s_least": min(times),
                "s_most": max(times),
                "cpu_s_without_postgres": statistics.median(told.cpu_seconds for _, told in rounds),
                "rss_mib": max(told.rss_mib for _, told in rounds),
                f"rss_mib_of_{small:,}": less.rss_mib,
            },
        )
    ]


@dataclass(frozen=True, slots=True)
class Told:
    """What the importing process tells: its time, its own part of that, and its peak memory."""

    seconds: float
    cpu_seconds: float
    rss_mib: int


async def imported(place: stage.Stage, records: int) -> tuple[stage.Line, Told]:
    """A line that was imported from an archive."""
    path = place.folder / f"{records}.archive"
    digest = await asyncio.to_thread(make_archive, path, records)
    line = await place.empty_line(records)
    await archives.upload(
        line.db, line=line.line, digest=hash_bytes(digest), uploaded_by="benchmark", chunks=chunks(path)
    )
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-m", __name__, line.dsn, line.line, digest, stdout=asyncio.subprocess.PIPE
    )
    out, _ = await child.communicate()
    if child.returncode:
        raise RuntimeError("the importing process failed; its error stands above")
    return line, Told(**json.loads(out))


def make_archive(path: Path, records: int) -> str:
    """The archive of so many records, made once; its digest."""
    told = path.with_suffix(".digest")
    if not told.exists():
        header = ArchiveHeader(kind="import", created_by="anabranch-benchmarks")
        with path.open("wb") as file, ArchiveWriter(file, header) as writer:
            for place, record in enumerate(stage.imported(records)):
                writer.write(
                    ArchiveRecord(
                        key=record.key,
                        scope=record.scope,
                        body=record.content_body,
                        content_hash=hash_text(record.content_hash),
                        source_locators=stage.sources_of(place),
                    )
                )
        told.write_text(writer.summary.digest)
    return told.read_text()


async def chunks(path: Path) -> AsyncIterator[bytes]:
    with path.open("rb") as file:
        while chunk := file.read(1 << 20):
            yield chunk


async def import_archive(dsn: str, line: str, digest: str) -> Told:
    """What the child does: the import, timed."""
    body = {
        "metadata": {"namespace": "bench", "name": "line", "uid": "u", "generation": 1},
        "spec": {"import": {"archive": {"digest": digest}}},
    }
    resource = BaselineResource.parse(body)
    no_kube = cast("KubeClient", None)  # an archive comes from the store
    db = await Database.open(dsn, application_name="benchmark import")
    began, began_cpu = time.perf_counter(), time.process_time()
    source = await sources.open_source(db, no_kube, line=line, resource=resource)
    if source is None:
        raise RuntimeError("the resource names no source")
    await importing.import_first(
        db, line=line, records=source.records(), origin=source.origin, import_digest=source.digest
    )
    seconds, cpu_seconds = time.perf_counter() - began, time.process_time() - began_cpu
    await db.close()
    return Told(seconds, cpu_seconds, peak_mib())


def peak_mib() -> int:
    """The most memory that this process has had, in MiB: of this program alone, unlike what getrusage tells."""
    for entry in Path("/proc/self/status").read_text().splitlines():
        if entry.startswith("VmHWM:"):
            return int(entry.split()[1]) >> 10
    return 0


if __name__ == "__main__":
    print(json.dumps(asdict(asyncio.run(import_archive(*sys.argv[1:])))))
