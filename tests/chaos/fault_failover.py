"""The loss of the primary: a standby, whose copy of each commit the primary waits for, takes its place for good.

The standby is made only when the fault strikes, so that none costs anything before: everybody works on meanwhile, and
the primary is lost in the middle of that. What was acknowledged until then has to be on the standby. Whoever asks finds
the new primary where the old one was, as behind the Service of an operator for Postgres; the old one never comes back.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from typing import TYPE_CHECKING, Final

import asyncpg
from tests import pairs
from tests.chaos.fault import GONE
from tests.chaos.stage import SETTINGS

from anabranch.devcluster import standbys
from anabranch.devcluster.errors import DevclusterError
from anabranch.devcluster.postgres import with_database

if TYPE_CHECKING:
    import random
    from collections.abc import AsyncIterator

    from tests.chaos.stage import Stage

    from anabranch.devcluster.postgres import PostgresServer

PATIENCE: Final = 60.0
"""Seconds for each step: a copy of the server while everybody works on it, and its promotion."""

WAITED_FOR: Final = """
    SELECT count(*) FROM pg_stat_replication
    WHERE application_name = $1 AND sync_state = 'sync' AND flush_lsn >= $2::text::pg_lsn
"""


async def fail_over(stage: Stage, chance: random.Random) -> str | None:
    """Lose the primary, killed or no longer answering, and go on with its standby."""
    how, working = chance.choice(["killed", "silent"]), chance.uniform(0.2, 2)
    old = stage.primary
    stage.promotions += 1
    name = f"standby_{stage.promotions}"  # as an identifier: Postgres parses a list of such names
    try:
        standby = await asyncio.to_thread(standbys.follow, old, stage.database / name, name=name, settings=SETTINGS)
    except DevclusterError:
        return None
    try:
        async with asyncio.timeout(PATIENCE):
            await _wait_for(old, name)
        await asyncio.sleep(working)
    except GONE:
        await _wait_for_nobody(old)
        await asyncio.to_thread(_remove, stage, standby)
        return None
    if how == "silent":
        pairs.freeze(old)
    else:
        await asyncio.to_thread(pairs.kill, old)
    async with _as_superuser(standby) as conn:
        assert await conn.fetchval("SELECT pg_promote(wait_seconds => $1)", int(PATIENCE))
    stage.primary = standby
    if how == "silent":
        await asyncio.to_thread(pairs.kill, old)
    await asyncio.to_thread(_remove, stage, old)
    return f"the primary was {how}, and {name} has taken its place"


@contextlib.asynccontextmanager
async def _as_superuser(server: PostgresServer) -> AsyncIterator[asyncpg.Connection]:
    conn = await asyncpg.connect(with_database(server.dsn, "postgres"), timeout=PATIENCE)
    try:
        yield conn
    finally:
        with contextlib.suppress(*GONE):
            await conn.close(timeout=2)


async def _wait_for(primary: PostgresServer, standby: str) -> None:
    """Let every commit wait for the standby, and see that it has all that came before."""
    async with _as_superuser(primary) as conn:
        await conn.execute(f"ALTER SYSTEM SET synchronous_standby_names = '{standby}'")
        await conn.execute("SELECT pg_reload_conf()")
        while await conn.fetchval("SELECT current_setting('synchronous_standby_names')") != standby:  # noqa: ASYNC110  (a server tells it by nothing else)
            await asyncio.sleep(0.02)
        # What sessions go by is told to them by the checkpointer, which reads its settings before it begins.
        await asyncio.sleep(0.2)
        await conn.execute("CHECKPOINT")
        written = await conn.fetchval("SELECT pg_current_wal_insert_lsn()::text")
        # Whatever has not been written out yet is, at once: a commit does that.
        await conn.execute("SELECT pg_switch_wal()")
        while not await conn.fetchval(WAITED_FOR, standby, written):  # noqa: ASYNC110  (likewise)
            await asyncio.sleep(0.02)


async def _wait_for_nobody(primary: PostgresServer) -> None:
    """Let commits go on without a standby: one that is never to come would hold them up for good."""
    async with asyncio.timeout(PATIENCE):
        while True:
            with contextlib.suppress(*GONE):
                async with _as_superuser(primary) as conn:
                    await conn.execute("ALTER SYSTEM RESET synchronous_standby_names")
                    await conn.execute("SELECT pg_reload_conf()")
                return
            await asyncio.sleep(0.2)


def _remove(stage: Stage, server: PostgresServer) -> None:
    """End a server, and make room on the file system: in the folder of the first one are the others."""
    assert server.folder
    server.stop()
    shutil.rmtree(server.folder / "data" if server.folder.samefile(stage.database) else server.folder)
