"""A real primary and its streaming standby, which are nobody else's: what dies here is a server.

The primary is a copy of the run's server, with its roles and a database that is migrated already: that takes a second.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import signal
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import asyncpg
import psutil

from anabranch.devcluster import ephemeral, postgres, standbys
from anabranch.devcluster.processes import Processes
from anabranch.store import migrate

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path
    from typing import Any

    from anabranch.devcluster.postgres import PostgresServer
    from anabranch.store.roles import RolePasswords

_USERS = {"migrate": migrate.MIGRATE_ROLE, "operator": migrate.OPERATOR_ROLE, "api": migrate.API_ROLE}

SETTINGS = {"synchronous_commit": "on", "wal_receiver_status_interval": "1s"}
"""A commit is in this machine's memory, and no further: its end is not tried here, that of the processes is."""


@dataclass
class Pair:
    """The two servers.

    Attributes:
        folder: Where they keep everything.
        primary: The one that is written to.
        database: The one of this release.
        passwords: Of its roles.
        standby: The one that follows; None: there is none now.
    """

    folder: Path
    primary: PostgresServer
    database: str
    passwords: RolePasswords
    standby: PostgresServer | None = None
    _count: int = field(default=0, repr=False)

    def follow(self, name: str = "second", **settings: str) -> PostgresServer:
        """A new standby of the primary."""
        self._count += 1
        folder = self.folder / f"{name}-{self._count}"
        self.standby = standbys.follow(self.primary, folder, name=name, settings={**SETTINGS, **settings})
        return self.standby

    def dsn(self, role: str) -> str:
        """Of the primary, whichever of the two that is."""
        hosts = ",".join(_place(server.dsn) for server in (self.primary, self.standby) if server)
        login = f"{_USERS[role]}:{getattr(self.passwords, role)}"
        return f"postgresql://{login}@{hosts}/{self.database}?target_session_attrs=read-write"

    def of(self, server: PostgresServer, role: str | None = None) -> str:
        """Of one of them."""
        user, password = (_USERS[role], getattr(self.passwords, role)) if role else (None, None)
        return postgres.with_database(server.dsn, self.database, user=user, password=password)

    async def ask(self, server: PostgresServer, query: str, *arguments: Any) -> Any:
        """A value, as its superuser sees it."""
        conn = await asyncpg.connect(self.of(server))
        try:
            return await conn.fetchval(query, *arguments)
        finally:
            await conn.close()

    async def caught_up(self) -> None:
        """Wait until the standby shows all that the primary does."""
        written = await self.ask(self.primary, "SELECT pg_current_wal_lsn()")
        async with asyncio.timeout(30):
            while not await self.ask(self.standby, "SELECT pg_last_wal_replay_lsn() >= $1", written):  # noqa: ASYNC110  (a server, or another task, tells it by nothing else)
                await asyncio.sleep(0.01)

    @contextlib.asynccontextmanager
    async def lagging(self) -> AsyncIterator[None]:
        """The standby shows nothing new meanwhile."""
        await self.ask(self.standby, "SELECT pg_wal_replay_pause()")
        async with asyncio.timeout(30):
            while await self.ask(self.standby, "SELECT pg_get_wal_replay_pause_state()") != "paused":  # noqa: ASYNC110  (a server, or another task, tells it by nothing else)
                await asyncio.sleep(0.01)
        try:
            yield
        finally:
            await self.ask(self.standby, "SELECT pg_wal_replay_resume()")

    async def promote(self) -> None:
        """Make the standby a primary; the old one is not told."""
        assert await self.ask(self.standby, "SELECT pg_promote(wait_seconds => 60)")

    async def stop(self) -> None:
        """End both."""
        for server in (self.standby, self.primary):
            if server is not None:
                freeze(server, signal.SIGCONT)
                await asyncio.to_thread(server.stop)


@contextlib.contextmanager
def folder_below(run: Path) -> Iterator[Path]:
    """A folder for two servers below that of the run, where a test that fails looks for logs to show."""
    folder = run / f"pair-{secrets.token_hex(4)}"
    folder.mkdir()
    try:
        yield folder
    finally:
        ephemeral.clear(folder)


async def start(
    folder: Path,
    *,
    origin: PostgresServer,
    database: str,
    passwords: RolePasswords,
    synchronous: bool = False,
) -> Pair:
    """A primary, and a standby that has caught up.

    Args:
        folder: Where to.
        origin: What the primary is a copy of.
        database: A database of it that is migrated, and its roles' passwords.
        passwords: Likewise.
        synchronous: Whether a commit waits until the standby has it.
    """
    primary = await asyncio.to_thread(standbys.follow, origin, folder / "first", name="first", settings=SETTINGS)
    pair = Pair(folder, primary, database, passwords)
    assert await pair.ask(primary, "SELECT pg_promote(wait_seconds => 60)")
    await asyncio.to_thread(pair.follow)
    if synchronous:
        await require(pair, primary, "second")
    await pair.caught_up()
    return pair


async def require(pair: Pair, server: PostgresServer, name: str) -> None:
    """Have a server's commits wait for a standby of that name; none: for nobody."""
    conn = await asyncpg.connect(pair.of(server))
    try:
        await conn.execute(f"ALTER SYSTEM SET synchronous_standby_names = '{name}'")
        await conn.execute("SELECT pg_reload_conf()")
        async with asyncio.timeout(30):
            while await conn.fetchval("SELECT current_setting('synchronous_standby_names')") != name:  # noqa: ASYNC110  (a server, or another task, tells it by nothing else)
                await asyncio.sleep(0.01)
    finally:
        await conn.close()


def kill(server: PostgresServer) -> None:
    """End a server as the loss of its machine would: all of its processes, with no word to anybody."""
    processes = _processes(server, holding=True)
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + 30
    while alive := [process for process in processes if not _has_ended(process)]:
        assert time.monotonic() < deadline, alive
        time.sleep(0.01)
    Processes(server.folder).stop("postgres")


def freeze(server: PostgresServer, number: signal.Signals = signal.SIGSTOP) -> None:
    """Have a server, and all connections to it, answer nothing."""
    for process in _processes(server, holding=number == signal.SIGSTOP):
        with contextlib.suppress(psutil.NoSuchProcess):
            process.send_signal(number)


def _processes(server: PostgresServer, *, holding: bool) -> list[psutil.Process]:
    """Those of a server; its first one is stopped before the others are listed, if it is to start no more of them."""
    assert server.folder
    postmaster = Processes(server.folder).running("postgres")
    if postmaster is None:
        return []
    with contextlib.suppress(psutil.NoSuchProcess):
        if holding:
            postmaster.suspend()
        return [postmaster, *postmaster.children(recursive=True)]
    return []


def _has_ended(process: psutil.Process) -> bool:
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def _place(dsn: str) -> str:
    return dsn.rpartition("@")[2].partition("/")[0]
