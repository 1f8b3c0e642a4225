"""How fast branches fork from a line of a million records, next to a line of a thousand.

A fork is one statement, the product's own, which pgbench sends as 16 clients do that reconcile at once: with every
foreign key and index that the schema has, each fork a branch of its own, durable before it is answered. Both lines are
on one server, in databases of their own.
"""

from __future__ import annotations

import asyncio
import re
from importlib import resources
from typing import TYPE_CHECKING

from anabranch.devcluster import postgres
from benchmarks.measure import Row, interleaved

if TYPE_CHECKING:
    from pathlib import Path

    from benchmarks import stage

NAME = "fork"
LARGE, SMALL, QUICK = 1_000_000, 1_000, 2_000
CLIENTS = 16
RATIO, RATE = 1.2, 1_500.0

SETTINGS = {
    "run_id": "run_benchmark",
    "namespace": "bench",
    "name": "branch",
    "observed_generation": "1",
    "agent_id": "agent",
    "agent_instance": "0",
    "service_account": "agent",
    "task": "benchmark",
    "sharing_policy": '{"default":"shareable","scopes":["shared"]}',
    "follow": "Apply",
    "lease_seconds": "60",
    "ttl_seconds": "604800",
}
"""What the statement's parameters are, but for those that name the branch."""


async def run(place: stage.Stage, *, quick: bool) -> list[Row]:
    """Fork from both lines in turn."""
    large, small = await place.line(QUICK if quick else LARGE), await place.line(SMALL)
    seconds = 1 if quick else 6
    script = place.folder / "fork.sql"
    script.write_text(statement())
    found = await interleaved(
        lambda: rate(large, script, seconds), lambda: rate(small, script, seconds), rounds=1 if quick else 5
    )
    # A rate: how much longer a fork takes is the inverse.
    ratio, (least, most) = 1 / found.ratio, found.spread
    return [
        Row(
            name=NAME,
            work=f"fork at {large.records:,} records, foreign keys on, {CLIENTS} clients",
            peer=f"the same at {SMALL:,}",
            bar=f"≤ {RATIO}x; ≥ {RATE:,.0f}/s in SQL",
            ratio=ratio,
            spread=(1 / most, 1 / least),
            reached=ratio <= RATIO and sorted(found.ours)[len(found.ours) // 2] >= RATE,
            figures={
                "per_s": sorted(found.ours)[len(found.ours) // 2],
                "peer_per_s": sorted(found.peer)[len(found.peer) // 2],
            },
        )
    ]


def statement() -> str:
    """The product's statement as a script of pgbench, whose variables look like its parameters."""
    text = (resources.files("anabranch.store") / "sql" / "branches.sql").read_text()
    _, _, rest = text.partition("-- name: fork(")
    body = "\n".join(line for line in rest.partition("-- name:")[0].splitlines()[1:] if not line.startswith("--"))
    fresh = "\\set number random(1, 9000000000000000000)\n"
    body = body.replace(":generation::bigint", "NULL::bigint")
    return fresh + re.sub(r":(branch_id|uid)\b", ":number", body)


async def rate(line: stage.Line, script: Path, seconds: int) -> float:
    """Forks a second."""
    variables = [word for name, value in {**SETTINGS, "line": line.line}.items() for word in ("-D", f"{name}={value}")]
    load = ["-M", "prepared", "-c", str(CLIENTS), "-j", "2", "-T", str(seconds)]
    child = await asyncio.create_subprocess_exec(
        str(postgres.program("pgbench")), "-n", *load, *variables, "-f", str(script), line.dsn,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    out, _ = await child.communicate()
    told = re.search(r"tps = ([\d.]+)", out.decode())
    failed = re.search(r"failed transactions: ([1-9]\d*)", out.decode())
    if child.returncode or not told or failed:
        raise RuntimeError(f"pgbench failed: {out.decode()[-2000:]}")
    return float(told[1])
