"""How publishing, forking, point reads and searches take to more records: from a thousand to a million.

Each point is a line of its own in a database of its own, measured as the rows of the same names do it, without their
peers (`publishing`, `forking`, `reading`, `searching`). Searches have a line with the corpus of `corpus`, and their
points are kept apart: its import and index take as long as all else.
"""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

from anabranch.search.asking import Search, search
from anabranch.store.reader import Reader
from benchmarks import corpus, forking, points, publishing, readers, searching

if TYPE_CHECKING:
    from benchmarks.measure import Row
    from benchmarks.stage import Stage

NAME = "scaling-records"
RECORDS, QUICK = (1_000, 10_000, 100_000, 1_000_000), (1_000, 2_000)
ROUNDS = 3


async def run(place: Stage, *, quick: bool) -> list[Row]:
    """Measure at each size."""
    over = QUICK if quick else RECORDS
    rounds, seconds, reads, questions = (1, 3, 30, 15) if quick else (ROUNDS, 6, 300, 90)

    async def written(records: int) -> dict[str, float]:
        line = await place.line(records)
        script = place.folder / "fork.sql"
        script.write_text(forking.statement())
        reader = Reader(line.db)

        async def read(_: int, key: str) -> bool:
            _, record = await reader.read(line=line.line, generation=readers.OLD, key=key, scopes=["shared"])
            return record is not None

        await publishing.timed(line, publishing.QUICK_PER_ROUND)
        await place.checkpoint()
        times = publishing.QUICK_PER_ROUND if quick else publishing.PER_ROUND
        publish = [await publishing.timed(line, times) for _ in range(rounds)]
        fork = [await forking.rate(line, script, seconds) for _ in range(rounds)]
        point = [await readers.timed(read, records, reads) for _ in range(rounds)]
        return {
            "records": records,
            "publish_ms": statistics.median(publish),
            "forks_per_s": statistics.median(fork),
            "reads_per_s": statistics.median(point),
        }

    async def searched(records: int) -> dict[str, float]:
        line = await place.empty_line(records)
        await searching.build(line, records)
        asked = corpus.questions(questions + searching.WARM, of=records)

        async def ask(text: str) -> list[str]:
            given = Search(line=line.line, ref="current", scopes=["shared"], text=text)
            return [hit.key for hit in (await search(line.db, given, offset=0, limit=searching.HITS)).hits]

        await searching.asked(asked[: searching.WARM], ask)
        times, _ = await searching.asked(asked[searching.WARM :], ask)
        return {
            "records": records,
            "search_ms_p50": searching.percentile(times, 50),
            "search_ms_p95": searching.percentile(times, 95),
        }

    found = await points.measured(NAME, place.dsn, over, written, quick=quick)
    searches = await points.measured(f"{NAME}-searched", place.dsn, over, searched, quick=quick)
    changes = publishing.CHANGES
    return [
        points.row("scaling-publish", f"publish {changes} changes, by records", found, "records", "publish_ms"),
        points.row("scaling-fork", f"fork, {forking.CLIENTS} clients, by records", found, "records", "forks_per_s"),
        points.row(
            "scaling-read",
            f"point read at an old generation in the store, {readers.READERS} readers, by records",
            found,
            "records",
            "reads_per_s",
        ),
        points.row(
            "scaling-search",
            "search, frequent words included, by records",
            searches,
            "records",
            "search_ms_p50",
            "search_ms_p95",
        ),
    ]
