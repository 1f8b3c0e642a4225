"""A worker that comes back from an outage: how fast its outbox is acknowledged, next to LangGraph's Postgres store.

Ours is one agent with a file of its own (`anabranch.client.worker`), which has submitted a batch of one finding at a
time while the API was away: each durable in SQLite, fsync included, before the next. What is measured is one round:
reading the outbox, requests of 100 batches one after the other, all checks of the API, the receipts kept in the file.
The peer is as in `benchmarks.bulk`: a library in its caller's process, 32 writers whose puts it coalesces, no HTTP and
no checks. There is no bar: a run's findings come one by one, and this tells how long a day without a network takes.
"""

from __future__ import annotations

import secrets
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from anabranch.client import AnabranchClient
from anabranch.client.worker import Finding, Follow, Worker
from benchmarks import serving
from benchmarks.acknowledgement import middle
from benchmarks.bulk import CLIENTS, opened_store, put_all
from benchmarks.measure import Row, interleaved

if TYPE_CHECKING:
    from benchmarks.serving import Agent
    from benchmarks.stage import Line, Stage

NAME = "uploading"


async def run(stage: Stage, *, quick: bool) -> list[Row]:
    """Measure."""
    batches = 500 if quick else 10_000
    line = await stage.new_line(1_000)
    dsn = await stage.database_dsn()
    submitted: list[float] = []
    async with serving.opened(stage, agents=1) as servers, opened_store(dsn) as store:
        port = await servers.api(line.dsn)

        async def ours() -> float:
            with TemporaryDirectory(dir=stage.folder) as folder:
                made, sent = await upload(line, servers.agents[0], port=port, folder=Path(folder), batches=batches)
            submitted.append(made)
            return sent

        compared = await interleaved(ours, lambda: put_all(store, puts=max(batches // CLIENTS, 1)))
    return [
        Row(
            name=NAME,
            work=f"a worker's outbox of {batches:,} batches of one finding until all are acknowledged, one agent",
            peer=f"LangGraph's Postgres store, coalesced aput, {CLIENTS} writers",
            bar="-",
            ratio=compared.ratio,
            spread=compared.spread,
            reached=True,
            figures={
                "acknowledged_per_s": middle(compared.ours),
                "peer_puts_per_s": middle(compared.peer),
                "submitted_offline_per_s": middle(submitted),
            },
        )
    ]


async def upload(line: Line, agent: Agent, *, port: int, folder: Path, batches: int) -> tuple[float, float]:
    """Submit batches offline, then send them; how many a second, each."""
    (branch,) = await serving.forked(line.db, line.line, [agent])
    async with (
        AnabranchClient(f"http://127.0.0.1:{port}", token=agent.token) as client,
        await Worker.open(
            folder / "run.db", client, namespace=serving.NAMESPACE, branch=branch.name, follow=Follow.OFF
        ) as worker,
    ):
        await worker.sync()
        began = time.perf_counter()
        for number in range(batches):
            note = {"note": f"{secrets.token_hex(32)}, and some words that make it as long as a short note is"}
            source = f"evidence:sha256:{secrets.token_hex(32)}"
            await worker.submit(Finding(f"runs/{branch.branch_id[-8:]}/{number}", note, sources=[source]))
        made = batches / (time.perf_counter() - began)
        began = time.perf_counter()
        synced = await worker.sync()
        if synced.sent != batches:
            raise RuntimeError(f"{synced.sent} of {batches} batches were acknowledged.")
        return made, batches / (time.perf_counter() - began)
