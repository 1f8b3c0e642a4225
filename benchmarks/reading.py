"""A point read at an old generation of a million records, in the store and over HTTP, next to LangGraph's ``aget``.

The peer is LangGraph's `AsyncPostgresStore` with as many items as the line has records; it has one state, the latest.
Ours reads a generation that many publications have followed.

In the store, ours is one store with 32 readers in its process, whose waiting keys it gathers into one statement: it
finds the version of a generation, its content and its provenance, in scopes. Over HTTP, ours is 32 agents on keep-alive
connections, each request with its token, grants and scopes checked.

The peer, called in its own process both times, is measured in two ways. As one store that its readers share it gathers
their keys too, each an index probe; over HTTP that is hard on us, and meant so: uvicorn alone takes longer with a
request than that store with an item. With a store each (a connection, nothing gathered) it is what agents have that
are processes of their own.
"""

from __future__ import annotations

import contextlib
import json
import random
from typing import TYPE_CHECKING

import asyncpg
from langgraph.store.postgres.aio import AsyncPostgresStore

from anabranch.store.reader import Reader
from benchmarks import load, serving
from benchmarks.acknowledgement import middle
from benchmarks.bulk import opened_store
from benchmarks.measure import Row, interleaved
from benchmarks.readers import OLD, READERS, timed
from benchmarks.stage import imported, key

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.serving import Agent
    from benchmarks.stage import Stage

NAME = "reading"
WARM = 20
NAMESPACE = ("facts",)


async def run(stage: Stage, *, quick: bool) -> list[Row]:
    """Measure."""
    size, reads = (10_000, 50) if quick else (1_000_000, 300)
    line = await stage.line(size)
    for _ in range(10):
        await line.change(100)
    dsn = await stage.database_dsn()
    async with contextlib.AsyncExitStack() as exits:
        servers = await exits.enter_async_context(serving.opened(stage, agents=READERS))
        shared = await exits.enter_async_context(opened_store(dsn))
        own = [await exits.enter_async_context(AsyncPostgresStore.from_conn_string(dsn)) for _ in range(READERS)]
        await shared.setup()
        await _fill(dsn, size)
        api = await servers.api(line.dsn)
        name = await serving.name_of(line)
        reader = Reader(line.db)

        async def read(_: int, key: str) -> bool:
            _, record = await reader.read(line=line.line, generation=OLD, key=key, scopes=["shared"])
            return record is not None

        async def get(store: AsyncPostgresStore, key: str) -> bool:
            return await store.aget(NAMESPACE, key, refresh_ttl=False) is not None

        async def ours() -> float:
            return await timed(read, size, reads)

        async def over_http() -> float:
            made = requests(servers.agents, name, size, reads + WARM)
            return (await load.send(stage.folder / NAME, port=api, connections=made, warm=WARM)).rate

        async def of_one_store() -> float:
            return await timed(lambda _, key: get(shared, key), size, reads)

        async def of_own_stores() -> float:
            return await timed(lambda agent, key: get(own[agent], key), size, reads // 3)

        found = [
            (where, what, bar, peer, await interleaved(mine, theirs))
            for where, what, bar, mine in (
                ("store", "store layer", 1.3, ours),
                ("http", "over HTTP, all checks", 0.7, over_http),
            )
            for peer, theirs in (("that share one and gather", of_one_store), ("with one each", of_own_stores))
        ]
    return [
        Row(
            name=f"{NAME}-{where}-{peer.split()[-1]}",
            work=f"point read at an old generation of {size:,} records, {READERS} readers, {what}",
            peer=f"LangGraph's Postgres store, aget of {size:,} items, {READERS} readers {peer}",
            bar=f"≥ {bar}x",
            ratio=compared.ratio,
            spread=compared.spread,
            reached=compared.ratio >= bar,
            figures={"ours_per_s": middle(compared.ours), "peer_per_s": middle(compared.peer)},
        )
        for where, what, bar, peer, compared in found
    ]


def requests(agents: Sequence[Agent], baseline: str, size: int, reads: int) -> list[list[bytes]]:
    """Requests for records anywhere in the old generation."""
    chance = random.Random(3)
    place = f"/v1/namespaces/{serving.NAMESPACE}/baselines/{baseline}/manifests/{OLD}/records"
    return [[agent.request("GET", f"{place}/{key(chance.randrange(size))}") for _ in range(reads)] for agent in agents]


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
