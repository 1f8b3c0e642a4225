"""A batch over HTTP until it is durably acknowledged, with all checks, next to a bare route with one INSERT.

Ours authenticates the token, asks for the grants on the branch and on each scope, parses the body strictly, checks its
digest and its schema, and decides in the statement that writes over duplicates, gaps, windows and the end of the run.
The peer takes the same bytes and writes them (`benchmarks.bare`). Both are one process, speak with the same Postgres,
commit durably before they answer, and meet the same 32 connections; each connection is an agent with a branch of its
own that sends its next batch when the last one is acknowledged. No operator consolidates meanwhile.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

from anabranch.model.canonical import canonical_bytes
from anabranch.model.objects import batch_hash
from benchmarks import load, serving
from benchmarks.measure import Row, interleaved

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.load import Result
    from benchmarks.serving import Agent
    from benchmarks.stage import Line, Stage

NAME = "acknowledgement"
CLIENTS = 32
FINDINGS = 3
WARM = 20
PATH = f"/v1/namespaces/{serving.NAMESPACE}"


async def run(stage: Stage, *, quick: bool) -> list[Row]:
    """Measure."""
    batches = 30 if quick else 300
    line = await stage.new_line(1_000)
    results: dict[str, list[Result]] = {"ours": [], "peer": []}
    async with serving.opened(stage, agents=CLIENTS) as servers:
        api = await servers.api(line.dsn)
        bare = await servers.bare(await stage.database_dsn())

        async def measured(side: str, port: int, path: str) -> float:
            results[side].append(await acknowledged(stage, line, servers.agents, port=port, path=path, batches=batches))
            return results[side][-1].rate

        compared = await interleaved(lambda: measured("ours", api, PATH), lambda: measured("peer", bare, ""))
    tails = sorted(ours.p99 / peer.p99 for ours, peer in zip(results["ours"], results["peer"], strict=True))
    tail = tails[len(tails) // 2]
    return [
        Row(
            name=NAME,
            work=f"durable batch acknowledgement over HTTP, {CLIENTS} clients, all checks, {FINDINGS} findings a batch",
            peer="bare FastAPI + asyncpg route with one INSERT",
            bar="≥ 0.6x, p99 ≤ 2x",
            ratio=compared.ratio,
            spread=compared.spread,
            reached=compared.ratio >= 0.6 and tail <= 2,
            figures={
                "ours_per_s": middle(compared.ours),
                "peer_per_s": middle(compared.peer),
                "p99_ratio": round(tail, 2),
                "ours_ms_p50": middle([one.p50 for one in results["ours"]]),
                "ours_ms_p99": middle([one.p99 for one in results["ours"]]),
                "peer_ms_p50": middle([one.p50 for one in results["peer"]]),
                "peer_ms_p99": middle([one.p99 for one in results["peer"]]),
            },
        )
    ]


async def acknowledged(
    stage: Stage, line: Line, agents: Sequence[Agent], *, port: int, path: str, batches: int
) -> Result:
    """Have each agent send so many batches into a new branch of its own, one after the other."""
    made = await serving.forked(line.db, line.line, agents)
    requests = [
        [put(agent, path, branch.branch_id, sequence) for sequence in range(1, batches + WARM + 1)]
        for agent, branch in zip(agents, made, strict=True)
    ]
    return await load.send(stage.folder / NAME, port=port, connections=requests, warm=WARM)


def put(agent: Agent, path: str, branch_id: str, sequence: int, *, findings: int = FINDINGS) -> bytes:
    """The request that submits a batch."""
    body = canonical_bytes(batch(branch_id, sequence, findings))
    return agent.request("PUT", f"{path}/branches/{branch_id}/batches/{sequence}", body)


def batch(branch_id: str, sequence: int, findings: int) -> dict[str, object]:
    """A FindingBatch of findings that nobody has made before, each with a source."""
    unsigned: dict[str, object] = {
        "branch_id": branch_id,
        "sequence": sequence,
        "changes": [
            {
                "op": "put",
                "key": f"runs/{branch_id[-8:]}/finding-{sequence}-{number}",
                "content": {"note": f"{secrets.token_hex(32)}, and some words that make it as long as a short note is"},
                "scope": "shared",
                "visibility": "shareable",
            }
            for number in range(findings)
        ],
        "source_locators": [[f"evidence:sha256:{secrets.token_hex(32)}"] for _ in range(findings)],
        "base_revisions": ["0"] * findings,
    }
    return {**unsigned, "content_hash": batch_hash(unsigned)}


def middle(values: list[float]) -> float:
    """The median of a few figures, with three digits that count."""
    return float(f"{sorted(values)[len(values) // 2]:.3g}")
