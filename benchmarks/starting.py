"""How long an operator that starts takes until every Branch is ready, and how much memory 10,000 of them cost it.

Ours checks grants, forks each Branch in Postgres (durably), and writes its status; the peer, a stock kopf operator,
only writes a status (`benchmarks.stock_operator`). Both run under one interpreter, on one control plane, each for a
namespace of its own with Branches that were made before; the clock runs from the start of the process to the API
server's answer to the last status, by its audit log.

With 10,000 Branches that were handled before a restart, both have nothing to do: peak memory is compared.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

import asyncpg

from anabranch.devcluster import assembly, children
from anabranch.devcluster.processes import Processes, Program
from benchmarks import measure
from benchmarks.crowd import HOME, Crowd

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import psutil

    from anabranch.devcluster.stack import Stack
    from benchmarks.stage import Stage

NAME: Final = "starting"
READY_BAR: Final = 1.1
MEMORY_BAR: Final = 1.5
WRITES: Final = {"create", "update", "patch", "delete"}
PATIENCE_SECONDS: Final = 120.0
HANDLED: Final = "kopf.zalando.org/last-handled-configuration"


async def run(stage: Stage, *, quick: bool) -> list[measure.Row]:
    """Measure both sides in turns; the control plane and its first operator are up before."""
    stack = await asyncio.to_thread(
        assembly.up, stage.folder / "stack", options=assembly.Options(durable=True, audit=True)
    )
    crowd = Crowd(stack)
    await asyncio.to_thread(crowd.home)
    await asyncio.to_thread(crowd.model, "crowd-forked", ready=True)
    await asyncio.to_thread(stack.stop, "operator")
    await asyncio.to_thread(crowd.model, "crowd-new", ready=False)
    many, more, rounds = (50, 200, 1) if quick else (1_000, 10_000, 5)
    try:
        return [await _ready(crowd, many, rounds), await _memory(crowd, more)]
    finally:
        await asyncio.to_thread(stack.start_operator)


async def _ready(crowd: Crowd, many: int, rounds: int) -> measure.Row:
    writes: Counter[str] = Counter()
    turn = iter(range(1_000))

    async def once(side: str) -> float:
        namespace = f"crowd-{side}-{next(turn)}"
        await crowd.copy("crowd-new", namespace, many, rows=False)
        log = Audit(crowd.stack, namespace)
        began = time.time()
        async with running(crowd.stack, side, namespace):
            took = await log.all_shown(many) - began
        writes[side] += log.writes["branches"]
        writes[f"{side} events"] += log.writes["events"]
        await crowd.remove(namespace)
        return took

    found = await measure.interleaved(lambda: once("ours"), lambda: once("stock"), rounds=rounds)
    objects = many * rounds
    each = writes["ours"] / objects
    return measure.Row(
        name="branches_ready",
        work=f"{many:,} Branches made before: start of the operator to the last Ready",
        peer="a stock kopf operator whose handler only sets the status",
        bar=f"≤ {READY_BAR}x the time; ≤ 1.0 write an object",
        ratio=found.ratio,
        spread=found.spread,
        reached=found.ratio <= READY_BAR and each <= 1.0,
        figures={
            "ours_s": min(found.ours),
            "stock_s": min(found.peer),
            "ours_writes_an_object": each,
            "stock_writes_an_object": writes["stock"] / objects,
            "ours_events_an_object": writes["ours events"] / objects,
        },
    )


async def _memory(crowd: Crowd, more: int) -> measure.Row:
    stack = crowd.stack
    await crowd.copy("crowd-forked", "crowd-restart", more, rows=True)
    log = Audit(stack, "crowd-restart")
    before = await transactions(stack)
    began = time.monotonic()
    async with running(stack, "ours", "crowd-restart") as process:
        ready = time.monotonic() - began
        await log.watching()
        await settled(process)
        ours = peak_mb(process)
        at_start = await transactions(stack) - before
        # It looks at the database from time to time anyway: what it asks in as long a time afterwards is no start.
        elapsed = time.monotonic() - began
        await asyncio.sleep(elapsed)
        idle = await transactions(stack) - before - at_start
    log.read()
    await crowd.remove("crowd-restart")

    async with running(stack, "stock", "crowd-new"):
        await Audit(stack, "crowd-new", from_begin=True).all_shown(1)
    handled = stack.cluster.get("branch", "model", "--namespace=crowd-new")["metadata"]["annotations"][HANDLED]
    await crowd.copy("crowd-new", "crowd-handled", more, rows=False, annotations={HANDLED: handled})
    handling = Audit(stack, "crowd-handled")
    async with running(stack, "stock", "crowd-handled") as process:
        await handling.watching()
        await settled(process)
        stock = peak_mb(process)
    await crowd.remove("crowd-handled")
    writes = log.writes["branches"] + log.writes["events"]
    return measure.Row(
        name="operator_memory",
        work=f"start of the operator among {more:,} Branches that were handled before a restart: peak memory",
        peer="a stock kopf operator whose handler only sets the status",
        bar=f"≤ {MEMORY_BAR}x; no writes; no query an object",
        ratio=ours / stock,
        reached=ours / stock <= MEMORY_BAR and writes == 0 and at_start - idle < more / 10,
        figures={
            "ours_mb": ours,
            "stock_mb": stock,
            "ours_ready_s": ready,
            "ours_writes": writes,
            "ours_transactions": at_start,
            "ours_idle_transactions": idle,
        },
    )


@dataclass
class Audit:
    """What was written to the Branches of a namespace, and about them, by the API server's log.

    Attributes:
        stack: With an audit log.
        namespace: Of the Branches.
        from_begin: Whether what was logged before counts.
        writes: By resource.
        shown: When the status of each was first written, seconds since the epoch.
        watched: Whether somebody has begun to watch them, having listed all.
    """

    stack: Stack
    namespace: str
    from_begin: bool = False
    writes: Counter[str] = field(default_factory=Counter)
    shown: dict[str, float] = field(default_factory=dict)
    watched: bool = False

    def __post_init__(self) -> None:
        assert self.stack.cluster.audit_log is not None, "this needs the local control plane"
        self._path = self.stack.cluster.audit_log
        self._read = 0 if self.from_begin else self._path.stat().st_size

    def read(self) -> None:
        """Count what was logged since."""
        with self._path.open("rb") as log:
            log.seek(self._read)
            for line in log:
                if not line.endswith(b"\n"):
                    break
                self._read += len(line)
                if self.namespace.encode() in line:
                    self._count(json.loads(line))

    async def watching(self) -> None:
        """Wait until somebody has listed the Branches and watches them."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not self.watched:
                await asyncio.sleep(0.2)
                await asyncio.to_thread(self.read)

    async def all_shown(self, many: int) -> float:
        """Wait until the status of so many was written; when the last one was, seconds since the epoch."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while len(self.shown) < many:
            if time.monotonic() > deadline:
                raise TimeoutError(f"only {len(self.shown)} of {many} Branches in {self.namespace} became ready")
            await asyncio.sleep(0.2)
            await asyncio.to_thread(self.read)
        await asyncio.sleep(2)  # for writes that should not come
        self.read()
        return max(self.shown.values())

    def _count(self, entry: dict[str, object]) -> None:
        about = entry.get("objectRef")
        if not isinstance(about, dict) or about.get("namespace") != self.namespace:
            return
        self.watched |= (entry["verb"], about["resource"]) == ("watch", "branches")
        if entry["verb"] not in WRITES:
            return
        self.writes[about["resource"]] += 1
        if (about["resource"], about.get("subresource")) == ("branches", "status"):
            moment = datetime.fromisoformat(str(entry["stageTimestamp"])).timestamp()
            self.shown.setdefault(about["name"], moment)


@contextlib.asynccontextmanager
async def running(stack: Stack, side: str, namespace: str) -> AsyncIterator[psutil.Process]:
    """The process of one side, for one namespace, while the block runs."""
    processes = Processes(stack.folder)
    if side == "ours":
        started = asyncio.create_task(asyncio.to_thread(stack.start_operator, namespaces=(HOME, namespace)))
        name = "operator"
    else:
        file = Path(__file__).with_name("stock_operator.py")
        command = [sys.executable, "-m", "kopf", "run", "--quiet", "--standalone", f"--namespace={namespace}", file]
        environment = children.environment(KUBECONFIG=str(stack.cluster.kubeconfig))
        started = asyncio.create_task(
            asyncio.to_thread(processes.start, "stock", Program([str(word) for word in command], env=environment))
        )
        name = "stock"
    try:
        await started
        process = processes.running(name)
        assert process is not None, processes.tail(name)
        yield process
    finally:
        await asyncio.to_thread(processes.stop, name)


async def settled(process: psutil.Process, *, quick: bool = False) -> None:
    """Wait until a process has nothing to do any more; ours compares the statuses a while after it saw them."""
    quiet, last = 0, 0.0
    while quiet < 2:
        await asyncio.sleep(1 if quick else 5)
        used = sum(process.cpu_times()[:2])
        quiet = quiet + 1 if used - last < 0.25 else 0
        last = used


def peak_mb(process: psutil.Process) -> float:
    """The greatest resident memory that a process has had."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")) / 1024


async def transactions(stack: Stack) -> int:
    """How many the database has seen; Postgres counts those of an ended or idle connection a second later."""
    conn = await asyncpg.connect(stack.admin_dsn)
    try:
        return int(await conn.fetchval("SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()"))
    finally:
        await conn.close()
