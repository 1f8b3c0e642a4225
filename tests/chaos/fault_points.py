"""Faults at named points: a worker stands still at a durable step of a job, and something happens to it there.

The steps, and how a worker is made to stand still at one, are those of `tests.cluster.test_operator_killed`, which
kills at each of them in turn. Here they come as chance has it, in the middle of everything else.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from typing import TYPE_CHECKING, Final

import asyncpg
from tests.chaos.fault import GONE
from tests.chaos.stage import OPERATORS
from tests.cluster.test_operator_killed import POINTS, Crossing

if TYPE_CHECKING:
    import random

    from tests.chaos.stage import Stage


AT_ONCE: Final = 5
"""Points of which the first one to be reached is taken: a worker comes by some of them only now and then."""


async def at_a_point(stage: Stage, chance: random.Random) -> str | None:
    """Wait for a worker to come to one of the steps of a job, and let something happen to it in the middle of it."""
    points = chance.sample(POINTS, AT_ONCE)
    deed = chance.choice(["kill", "cut", "pause", "expire"])
    with contextlib.suppress(*GONE, AssertionError):
        async with stage.admin() as conn:
            crossing = Crossing(conn)
            lines = [row["line"] for row in await conn.fetch("SELECT line FROM lines WHERE deleted_at IS NULL")]
            async with crossing.closed():
                for line, point in itertools.product(lines, points):
                    await crossing.arm(line, point)
                for _ in range(60):
                    if ports := await conn.fetch(BLOCKED):
                        break
                    await asyncio.sleep(0.05)
                else:
                    return None
                blocked = {row["client_port"] for row in ports}
                name = next((n for n in OPERATORS if blocked & _ports(stage, n)), None)
                if name is None:
                    return None
                await DEEDS[deed](stage, name, conn)
            stage.resume(name)
            return f"{deed} {name} at one of {', '.join(points)}"
    return None


BLOCKED: Final = """
    SELECT a.client_port FROM pg_locks AS l JOIN pg_stat_activity AS a ON a.pid = l.pid
    WHERE l.locktype = 'advisory' AND l.objid = 7401 AND NOT l.granted
"""


def _ports(stage: Stage, name: str) -> set[int]:
    return {strand.port for strand in stage.wires[name, "postgres"].strands}


async def _killed(stage: Stage, name: str, _conn: asyncpg.Connection) -> None:
    await asyncio.to_thread(stage.stack.kill, name)


async def _cut(stage: Stage, name: str, _conn: asyncpg.Connection) -> None:
    stage.wires[name, "postgres"].cut()


async def _paused(stage: Stage, name: str, conn: asyncpg.Connection) -> None:
    """Stopped; its leases run out, another may take over; then it goes on with what it was about to do."""
    stage.pause(name)
    await _expired(stage, name, conn)


async def _expired(_stage: Stage, _name: str, conn: asyncpg.Connection) -> None:
    # What the worker itself has locked cannot run out before it is let go: so it is not waited for.
    await conn.execute("SET lock_timeout = '200ms'")
    with contextlib.suppress(asyncpg.LockNotAvailableError):
        await conn.execute(
            "UPDATE jobs SET lease_deadline = now() - interval '1 h', due_at = now() - interval '1 h',"
            " retry_limit = 1000 WHERE job_id IN (SELECT job_id FROM jobs WHERE holder IS NOT NULL"
            " AND finished_at IS NULL FOR UPDATE SKIP LOCKED)"
        )
    await conn.execute("SET lock_timeout = 0")
    await asyncio.sleep(0.7)


DEEDS: Final = {"kill": _killed, "cut": _cut, "pause": _paused, "expire": _expired}
