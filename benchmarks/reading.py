"""A point read at an old generation of a million records, in the store and over HTTP, next to LangGraph's ``aget``.

The peer is LangGraph's `AsyncPostgresStore` with as many items as the line has records, 32 readers that wait for each
item, coalesced by the store itself; it has one state, the latest. Ours reads a generation that many publications have
followed. In the store, ours is 32 readers of `store.records` in the same process as the peer. Over HTTP it is 32 agents
on keep-alive connections, each request with its token, grants and scopes checked.

The peer's store gathers the keys that its readers wait for into one statement, which is what makes it faster here: ours
asks Postgres once a record in the store, and twice over HTTP (the line with its scopes, then the record).
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from typing import TYPE_CHECKING

import asyncpg

from anabranch.store import records
from benchmarks import load, serving
from benchmarks.acknowledgement import middle
from benchmarks.bulk import opened_store
from benchmarks.measure import Row, interleaved
from benchmarks.stage import imported, key

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.serving import Agent
    from benchmarks.stage import Line, Stage

NAME = "reading"
READERS = 32
OLD = 1
WARM = 20
NAMESPACE = ("facts",)


async def run(stage: Stage, *, quick: bool) -> list[Row]:
    """Measure."""
    size, reads = (10_000, 50) if quick else (1_000_000, 300)
    line = await stage.line(size)
    for _ in range(10):
        await line.change(100)
    dsn = await stage.database_dsn()
    async with serving.opened(stage, agents=READERS) as servers, opened_store(dsn) as store:
        await store.setup()
        await _fill(dsn, size)
        api = await servers.api(line.dsn)
        name = await serving.name_of(line)

        async def ours() -> float:
            return await _timed(lambda name: _read(line, name), size, reads)

        async def over_http() -> float:
            made = requests(servers.agents, name, size, reads + WARM)
            return (await load.send(stage.folder / NAME, port=api, connections=made, warm=WARM)).rate

        async def peer() -> float:
            return await _timed(lambda name: store.aget(NAMESPACE, name, refresh_ttl=False), size, reads)

        stored = await interleaved(ours, peer)
        served = await interleaved(over_http, peer)
    return [
        Row(
            name=f"{NAME}-{where}",
            work=f"point read at an old generation of {size:,} records, {READERS} readers, {what}",
            peer=f"LangGraph's Postgres store, aget of {size:,} items, {READERS} readers",
            bar=told,
            ratio=compared.ratio,
            spread=compared.spread,
            reached=compared.ratio >= bar,
            figures={"ours_per_s": middle(compared.ours), "peer_per_s": middle(compared.peer)},
        )
        for where, what, bar, told, compared in (
            ("store", "store layer", 1.3, "≥ 1.3x", stored),
            ("http", "over HTTP, all checks", 0.7, "≥ 0.7x", served),
        )
    ]


def requests(agents: Sequence[Agent], baseline: str, size: int, reads: int) -> list[list[bytes]]:
    """Requests for records anywhere in the old generation."""
    chance = random.Random(3)
    place = f"/v1/namespaces/{serving.NAMESPACE}/baselines/{baseline}/manifests/{OLD}/records"
    return [[agent.request("GET", f"{place}/{key(chance.randrange(size))}") for _ in range(reads)] for agent in agents]


async def _read(line: Line, name: str) -> object:
    async with line.db.connection() as conn:
        return await records.read(conn, line=line.line, generation=OLD, key=name, scopes=["shared"])


async def _timed(read: object, size: int, reads: int) -> float:
    """Reads a second by 32 readers, each waiting for its own."""
    chance = random.Random(size + reads)

    async def reader() -> None:
        for _ in range(reads):
            if not await read(key(chance.randrange(size))):  # type: ignore[operator]
                raise LookupError("a record is missing")

    began = time.perf_counter()
    await asyncio.gather(*(reader() for _ in range(READERS)))
    return READERS * reads / (time.perf_counter() - began)


async def _fill(dsn: str, size: int) -> None:
    """Give the peer the same keys and contents, by COPY: how they got there is not measured."""
    conn = await asyncpg.connect(dsn)
    try:
        rows = (
            (".".join(NAMESPACE), record.key, json.dumps(json.loads(record.content_body or b"null")))
            for record in imported(size)
        )
        await conn.copy_records_to_table("store", records=rows, columns=("prefix", "key", "value"))
        await conn.execute("ANALYZE store")
    finally:
        await conn.close()
