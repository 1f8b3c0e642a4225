"""Search in a million records next to SQLite's FTS5, on one corpus: how fast, and how often the right one is found.

The corpus and the questions are those of `corpus`: most questions have words that a tenth of all records have, every
tenth has nothing else. Both sides look for records that have any of the words, rank them by BM25 with the same
constants over the same words, and give ten keys with a snippet each. Ours goes the whole way of the product below HTTP:
the service, one snapshot of the database, the generation and the scopes checked for each record that is given. The peer
is in the process that asks, with its tables in memory as far as it likes (a cache of 1 GiB, memory-mapped), its index
optimized to one piece; it has one state, one reader, and nothing to check. What it takes when all words are demanded
is told beside it: that is its usual way, and finds none of the records that a question remembers half right.

Time is the 95th percentile; each round asks other questions. Quality is recall at 1 and at 10 and the mean reciprocal
rank of the known answers, compared question by question: the bar is reached where ours is not worse beyond what chance
does (paired bootstrap, 95 %).

The index is made after the fact, so how long that takes is told, and how long an import of the same corpus takes.
"""

from __future__ import annotations

import asyncio
import random
import sqlite3
import statistics
import time
from hashlib import sha256
from typing import TYPE_CHECKING

from anabranch.domain.facts import Fact
from anabranch.domain.words import words
from anabranch.model.canonical import canonical_bytes
from anabranch.search import indexing
from anabranch.search.asking import Search, search
from anabranch.store import importing
from benchmarks import corpus
from benchmarks.measure import Row, interleaved

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
    from pathlib import Path

    from benchmarks.corpus import Question
    from benchmarks.stage import Line, Stage

NAME = "search"
RECORDS, QUICK = 1_000_000, 5_000
QUESTIONS, QUICK_QUESTIONS = 150, 45
ROUNDS = 3
WARM = 20
HITS = 10
RESAMPLES = 5_000


async def run(place: Stage, *, quick: bool) -> list[Row]:
    """Make the corpus on both sides, and ask."""
    size, count = (QUICK, QUICK_QUESTIONS) if quick else (RECORDS, QUESTIONS)
    line = await place.empty_line(size)
    seconds = await build(line, size)
    peer = await asyncio.to_thread(build_peer, place.folder / f"{NAME}.sqlite", size)
    try:
        return await compare(line, peer, corpus.questions(count, of=size), figures=seconds)
    finally:
        peer.close()


async def compare(
    line: Line, peer: sqlite3.Connection, questions: Sequence[Question], *, figures: dict[str, float | int | str]
) -> list[Row]:
    """Ask both sides the same questions, in turns."""
    found: dict[str, list[list[str]]] = {"ours": [], "peer": []}

    def side(name: str, ask: Callable[[str], Awaitable[list[str]]]) -> Callable[[], Awaitable[float]]:
        rounds = iter([questions[first::ROUNDS] for first in range(ROUNDS)])

        async def measured() -> float:
            times, given = await asked(next(rounds), ask)
            found[name] += given
            return percentile(times, 95)

        return measured

    async def ours(text: str) -> list[str]:
        given = Search(line=line.line, ref="current", scopes=["shared"], text=text)
        return [hit.key for hit in (await search(line.db, given, offset=0, limit=HITS)).hits]

    async def theirs(text: str) -> list[str]:
        return ask_peer(peer, text, " OR ")

    async def demanding(text: str) -> list[str]:
        return ask_peer(peer, text, " ")

    for ask in (ours, theirs):
        await asked(corpus.questions(WARM, of=line.records + 1), ask)
    compared = await interleaved(side("ours", ours), side("peer", theirs), rounds=ROUNDS)
    asked_for = [question for first in range(ROUNDS) for question in questions[first::ROUNDS]]
    strict_times, found["all_words"] = await asked(asked_for, demanding)
    quality = {name: measures(asked_for, given) for name, given in found.items()}
    worse = {
        name: bootstrap(quality["ours"][name], quality["peer"][name]) for name in ("recall_at_1", "recall_at_10", "mrr")
    }
    p95 = statistics.median(compared.ours)
    told = {
        f"{side}_{name}": round(statistics.mean(values), 3)
        for side, each in quality.items()
        for name, values in each.items()
    }
    return [
        Row(
            name=NAME,
            work=f"search in {line.records:,} records, frequent words included",
            peer="SQLite FTS5, the same corpus",
            bar="p95 ≤ 3x and ≤ 100 ms; recall@1, @10, MRR ≥",
            ratio=compared.ratio,
            spread=compared.spread,
            reached=compared.ratio <= 3 and p95 <= 100 and all(high >= 0 for _, high in worse.values()),
            figures={
                "ms_p95": round(p95, 1),
                "peer_ms_p95": round(statistics.median(compared.peer), 1),
                "peer_ms_p95_all_words": round(percentile(strict_times, 95), 1),
                "ratio_all_words": round(p95 / percentile(strict_times, 95), 2),
                **told,
                **{
                    f"{name}_differs_by": f"{low:+.3f} to {high:+.3f}".replace("-0.000", "+0.000")
                    for name, (low, high) in worse.items()
                },
                **figures,
            },
        )
    ]


async def build(line: Line, size: int) -> dict[str, float | int | str]:
    """Import the corpus and index it; how long both take, in seconds."""
    began = time.perf_counter()
    await importing.import_first(
        line.db, line=line.line, records=_records(size), origin={"kind": "import"}, import_digest=None
    )
    imported = time.perf_counter()
    while await indexing.turn(line.db):
        pass
    done = time.perf_counter()
    async with line.db.connection() as conn:
        await conn.execute("ANALYZE")
    return {"import_s": round(imported - began, 1), "index_s": round(done - imported, 1)}


def build_peer(path: Path, size: int) -> sqlite3.Connection:
    """The corpus in FTS5, as its documentation advises for reading: optimized, with a large cache."""
    peer = sqlite3.connect(path, check_same_thread=False)
    peer.executescript(
        """
        PRAGMA journal_mode = off;
        PRAGMA synchronous = off;
        PRAGMA cache_size = -1048576;
        PRAGMA mmap_size = 4294967296;
        CREATE VIRTUAL TABLE notes USING fts5(key, text, tokenize = 'unicode61 remove_diacritics 2');
        """
    )
    peer.executemany("INSERT INTO notes VALUES (?, ?)", ((note.key, note.text) for note in corpus.notes(size)))
    peer.execute("INSERT INTO notes (notes) VALUES ('optimize')")
    peer.commit()
    return peer


def ask_peer(peer: sqlite3.Connection, text: str, between: str) -> list[str]:
    """The keys of the ten best, each read with a snippet."""
    match = between.join(f'"{word}"' for word in dict.fromkeys(words(text)))
    rows = peer.execute(
        "SELECT key, snippet(notes, 1, '', '', '', 40) FROM notes WHERE notes MATCH ? ORDER BY rank LIMIT ?",
        (match, HITS),
    )
    return [row[0] for row in rows]


def measures(questions: Sequence[Question], given: Sequence[Sequence[str]]) -> dict[str, list[float]]:
    """How well each question with a known answer was answered: recall at 1, at 10, reciprocal rank."""
    ranks = [
        keys.index(question.answer) + 1 if question.answer in keys else 0
        for question, keys in zip(questions, given, strict=True)
        if question.answer is not None
    ]
    return {
        "recall_at_1": [float(rank == 1) for rank in ranks],
        "recall_at_10": [float(rank > 0) for rank in ranks],
        "mrr": [1 / rank if rank else 0.0 for rank in ranks],
    }


def bootstrap(ours: Sequence[float], peer: Sequence[float]) -> tuple[float, float]:
    """Between which values the mean difference of pairs lies, 95 times of a hundred."""
    chance = random.Random(1)
    differences = [mine - theirs for mine, theirs in zip(ours, peer, strict=True)]
    means = sorted(statistics.fmean(chance.choices(differences, k=len(differences))) for _ in range(RESAMPLES))
    return means[RESAMPLES // 40], means[-RESAMPLES // 40]


async def asked(
    questions: Sequence[Question], ask: Callable[[str], Awaitable[list[str]]]
) -> tuple[list[float], list[list[str]]]:
    """Ask all questions, one after the other; milliseconds, and what was answered."""
    times, given = [], []
    for question in questions:
        began = time.perf_counter()
        given.append(await ask(question.text))
        times.append(1e3 * (time.perf_counter() - began))
    return times, given


def percentile(times: Sequence[float], percent: int) -> float:
    """The time that so many of a hundred stay below."""
    return sorted(times)[len(times) * percent // 100]


async def _records(size: int) -> AsyncIterator[importing.ImportRecord]:
    facts = Fact(source_locators=(f"import:notes.md@sha256:{'0' * 64}",)).canonical()
    for note in corpus.notes(size):
        body = canonical_bytes(note.text)
        yield importing.ImportRecord(
            key=note.key,
            scope="shared",
            content_hash=sha256(body).digest(),
            content_body=body,
            fact_body=facts,
        )
