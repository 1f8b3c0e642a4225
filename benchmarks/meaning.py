"""What it costs to search by meaning too: time, memory and room, beside the search by words of the same corpus.

The corpus and the questions are those of `corpus`, whose words are invented: they mean nothing, so meaning can find
nothing that the words do not. That makes it the hard case for the order (half of each score is noise), and as good a
case as any for the cost, which does not depend on what texts mean. Told beside the times is the recall of both ways,
question by question: how much a search by both loses where only words tell.

Both go the whole way of the product below HTTP, in one process, which is also the one whose memory is told. Where
meaning helps is told by `make experiments` and docs/quality.md.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import psutil

from anabranch.search import embedding, vectorizing
from anabranch.search.asking import Search, search
from anabranch.search.meaning import Meaning
from benchmarks import corpus
from benchmarks.measure import Row, interleaved
from benchmarks.searching import HITS, ROUNDS, WARM, asked, bootstrap, build, measures, percentile

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from benchmarks.stage import Line, Stage

NAME = "search_by_meaning"
SIZES, QUICK = (100_000, 1_000_000), (5_000,)
QUESTIONS, QUICK_QUESTIONS = 150, 45
BAR_MS = 500


async def run(place: Stage, *, quick: bool) -> list[Row]:
    """Make the corpus and its vectors, and ask, in each size."""
    rows = []
    for size in QUICK if quick else SIZES:
        line = await place.empty_line(size)
        await build(line, size)
        rows.append(await compare(line, QUICK_QUESTIONS if quick else QUESTIONS))
    return rows


async def compare(line: Line, count: int) -> Row:
    """Ask both ways the same questions, in turns."""
    process = psutil.Process()
    before = process.memory_info().rss
    embedder = await asyncio.to_thread(embedding.load, embedding.PACKAGED)
    loaded = process.memory_info().rss
    began = time.perf_counter()
    while await vectorizing.turn(line.db, embedder):
        pass
    seconds = time.perf_counter() - began
    meaning = Meaning(embedder)
    questions = corpus.questions(count, of=line.records)
    found: dict[str, list[list[str]]] = {"words": [], "hybrid": []}

    async def words(text: str) -> list[str]:
        given = Search(line=line.line, ref="current", scopes=["shared"], text=text)
        return [hit.key for hit in (await search(line.db, given, offset=0, limit=HITS)).hits]

    async def hybrid(text: str) -> list[str]:
        given = Search(line=line.line, ref="current", scopes=["shared"], text=text, mode="hybrid")
        answer = await search(line.db, given, offset=0, limit=HITS, meaning=meaning)
        return [hit.key for hit in answer.hits]

    def side(name: str, ask: Callable[[str], Awaitable[list[str]]]) -> Callable[[], Awaitable[float]]:
        rounds = iter([questions[first::ROUNDS] for first in range(ROUNDS)])

        async def measured() -> float:
            times, given = await asked(next(rounds), ask)
            found[name] += given
            return percentile(times, 95)

        return measured

    for ask in (words, hybrid):
        await asked(corpus.questions(WARM, of=line.records + 1), ask)
    compared = await interleaved(side("hybrid", hybrid), side("words", words), rounds=ROUNDS)
    asked_for = [question for first in range(ROUNDS) for question in questions[first::ROUNDS]]
    quality = {name: measures(asked_for, given) for name, given in found.items()}
    low, high = bootstrap(quality["hybrid"]["recall_at_10"], quality["words"]["recall_at_10"])
    async with line.db.connection() as conn:
        room = await conn.fetchval("SELECT pg_total_relation_size('search_vectors')")
    p95 = sorted(compared.ours)[len(compared.ours) // 2]
    return Row(
        name=f"{NAME}_{line.records}",
        work=f"search by words and meaning in {line.records:,} records",
        peer="the search by words, the same corpus",
        bar=f"p95 ≤ {BAR_MS} ms",
        ratio=compared.ratio,
        spread=compared.spread,
        reached=p95 <= BAR_MS,
        figures={
            "ms_p95": round(p95, 1),
            "words_ms_p95": round(sorted(compared.peer)[len(compared.peer) // 2], 1),
            "vectors_s": round(seconds, 1),
            "bytes_a_record": round(room / line.records),
            "embedder_rss_mib": round((loaded - before) / 2**20),
            "rss_mib_after": round(process.memory_info().rss / 2**20),
            **{
                f"{name}_{measure}": round(sum(values) / len(values), 3)
                for name, each in quality.items()
                for measure, values in each.items()
            },
            "recall_at_10_differs_by": f"{low:+.3f} to {high:+.3f}",
        },
    )
