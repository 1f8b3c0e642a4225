"""Faults of what everybody needs: Postgres, its disk, its clock, and the control plane."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from typing import TYPE_CHECKING

import psutil
from tests.chaos.fault import GONE
from tests.chaos.stage import is_mounted

from anabranch.devcluster.processes import Processes

if TYPE_CHECKING:
    import random
    from pathlib import Path

    from tests.chaos.fault import Inject
    from tests.chaos.stage import Stage


async def terminate_session(stage: Stage, chance: random.Random) -> str | None:
    """End a session of a process, as an administrator or a timeout does; or only what it is doing."""
    what = chance.choice(["pg_terminate_backend", "pg_terminate_backend", "pg_cancel_backend"])
    place = chance.randrange(1000)
    with contextlib.suppress(*GONE):
        async with stage.admin() as conn:
            busy = await conn.fetch(
                "SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'anabranch-%'"
                " ORDER BY state = 'idle', backend_start"
            )
            if busy:
                pid = busy[place % max(1, len(busy) // 2)]["pid"]
                await conn.execute(f"SELECT {what}({pid})")
                return what
    return None


async def expire_leases(stage: Stage, _chance: random.Random) -> str | None:
    """Let all leases of jobs run out now, as if the database's clock had jumped; each holder is then taken over."""
    with contextlib.suppress(*GONE):
        async with stage.admin() as conn:
            done = await conn.execute(
                "UPDATE jobs SET lease_deadline = now() - interval '1 h', due_at = now() - interval '1 h',"
                " retry_limit = 1000 WHERE holder IS NOT NULL AND finished_at IS NULL"
            )
            return done if done != "UPDATE 0" else None
    return None


async def make_due(stage: Stage, _chance: random.Random) -> str | None:
    """Let everything be due at once: also what another has just begun."""
    with contextlib.suppress(*GONE):
        async with stage.admin() as conn:
            done = await conn.execute(
                "UPDATE jobs SET due_at = now() - interval '1 s'"
                " WHERE finished_at IS NULL AND state <> 'awaiting_review'"
            )
            await conn.execute("UPDATE agent_outbox SET due_at = now() - interval '1 s'")
            return done if done != "UPDATE 0" else None
    return None


async def crash_postgres(stage: Stage, _chance: random.Random) -> str | None:
    """Immediate shutdown: no session is ended in order, and the log is replayed at the next start."""
    process = Processes(stage.primary.folder or stage.database).running("postgres")
    if process is None:
        return None
    process.send_signal(signal.SIGQUIT)
    await asyncio.to_thread(process.wait, 20)
    await asyncio.to_thread(stage.start_postgres)
    return "immediate shutdown"


async def kill_session(stage: Stage, chance: random.Random) -> str | None:
    """kill -9 of one server process: Postgres ends all sessions, and recovers as after a crash."""
    place = chance.randrange(1000)
    with contextlib.suppress(*GONE):
        async with stage.admin() as conn:
            found = await conn.fetch("SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'anabranch-%'")
            if found:
                with contextlib.suppress(psutil.NoSuchProcess):
                    psutil.Process(found[place % len(found)]["pid"]).kill()
                    return "kill -9 of a session"
    return None


async def fill_disk(stage: Stage, chance: random.Random) -> str | None:
    """Leave Postgres no byte to write, for a while."""
    if not is_mounted(stage.database):
        return None
    ballast = stage.database / "ballast"
    try:
        await asyncio.to_thread(_fill, ballast)
        await asyncio.sleep(chance.uniform(0.3, 2))
    finally:
        ballast.unlink(missing_ok=True)
    await asyncio.to_thread(stage.start_postgres)
    return "no space left"


def _fill(file: Path) -> None:
    with file.open("wb", buffering=0) as opened, contextlib.suppress(OSError):
        while True:
            opened.write(bytes(1 << 20))
    with file.open("ab", buffering=0) as opened, contextlib.suppress(OSError):
        while True:
            opened.write(bytes(512))


def restart(component: str) -> Inject:
    async def inject(stage: Stage, _chance: random.Random) -> str | None:
        process = stage.control_plane().running(component)
        if process is None:
            return None
        process.kill()
        await asyncio.to_thread(stage.control_plane().stop, component)
        await asyncio.to_thread(stage.start_control_plane)
        return f"kill -9 of {component}"

    return inject
