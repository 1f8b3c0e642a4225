"""A bulk upload of 100 batches a request, with all checks, next to LangGraph's Postgres store.

The peer is `AsyncPostgresStore` with `AsyncBatchedBaseStore`, as its documentation has it: 32 writers put one item each
and wait for it, and the store writes what waits as one statement. It is a library in its caller's process: no HTTP, no
identity, no digest, no schema, no order, and the last writer wins. Ours is 32 agents that send requests of 100 batches
of one finding each over HTTP, with all checks of a single batch. A finding and an item hold the same content. Both
commit durably before they answer, on the same server.

What limits ours is the API's process, and in it no one thing: a batch's model, canonical form and digest take a
quarter of the time, its ids a twelfth, its row on the way to Postgres and back a quarter, its answer a tenth, and the
rest is its share of the request.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from typing import TYPE_CHECKING

from langgraph.store.postgres.aio import AsyncPostgresStore

from anabranch.model.canonical import canonical_bytes
from benchmarks import load, serving
from benchmarks.acknowledgement import batch, middle
from benchmarks.measure import Row, interleaved

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from benchmarks.serving import Agent
    from benchmarks.stage import Stage

NAME = "bulk"
CLIENTS = 32
BATCHES = 100
WARM = 1


async def run(stage: Stage, *, quick: bool) -> list[Row]:
    """Measure."""
    posts = 3 if quick else 12
    line = await stage.new_line(1_000)
    dsn = await stage.database_dsn()
    async with serving.opened(stage, agents=CLIENTS) as servers, opened_store(dsn) as store:
        api = await servers.api(line.dsn)

        async def ours() -> float:
            made = await serving.forked(line.db, line.line, servers.agents)
            requests = [
                [post(agent, branch.branch_id, number) for number in range(posts + WARM)]
                for agent, branch in zip(servers.agents, made, strict=True)
            ]
            found = await load.send(stage.folder / NAME, port=api, connections=requests, warm=WARM)
            return found.rate * BATCHES

        compared = await interleaved(ours, lambda: put_all(store, puts=posts * BATCHES))
    return [
        Row(
            name=NAME,
            work=f"bulk upload over HTTP, {BATCHES} batches of one finding a request, {CLIENTS} clients, all checks",
            peer=f"LangGraph's Postgres store, coalesced aput, {CLIENTS} writers",
            bar="≥ 0.5x",
            ratio=compared.ratio,
            spread=compared.spread,
            reached=compared.ratio >= 0.5,
            figures={"ours_batches_per_s": middle(compared.ours), "peer_puts_per_s": middle(compared.peer)},
        )
    ]


def opened_store(dsn: str) -> AbstractAsyncContextManager[AsyncPostgresStore]:
    """The peer's store, with a pool as large as the API's."""
    return AsyncPostgresStore.from_conn_string(dsn, pool_config={"min_size": 10, "max_size": 10})


async def put_all(store: AsyncPostgresStore, *, puts: int) -> float:
    """Put items by 32 writers, each waiting for its own; how many a second."""
    await store.setup()
    run = secrets.token_hex(4)

    async def write(writer: int) -> None:
        for number in range(puts):
            note = {"note": f"{secrets.token_hex(32)}, and some words that make it as long as a short note is"}
            await store.aput(("runs", run), f"finding-{writer}-{number}", note, index=False)

    began = time.perf_counter()
    await asyncio.gather(*map(write, range(CLIENTS)))
    return CLIENTS * puts / (time.perf_counter() - began)


def post(agent: Agent, branch_id: str, number: int) -> bytes:
    """The request that submits a hundred batches; requests of a branch follow each other."""
    first = number * BATCHES + 1
    body = canonical_bytes({"batches": [batch(branch_id, first + place, 1) for place in range(BATCHES)]})
    return agent.request("POST", f"/v1/namespaces/{serving.NAMESPACE}/branches/{branch_id}/batches", body)
