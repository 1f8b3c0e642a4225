"""Whose backup is due, and making it: a line at a time, by whichever operator gets to it.

A line is due when a publication waits for it, and otherwise at half the age that its backups may have, if it has
changed since the last one: so that publications seldom find one too old. Nothing here is inside a transaction but the
few rows that say what came of it; a turn is held by its row, and kept while the backup is made.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

import structlog

from anabranch.backup import database, making
from anabranch.backup.bucket import Bucket
from anabranch.backup.folder import Folder
from anabranch.backup.target import UnknownTargetError
from anabranch.domain import backoff
from anabranch.model.errors import AnabranchError, UnavailableError
from anabranch.store import backups, lines
from anabranch.telemetry import logs, tracing
from anabranch.telemetry.of_operator import BACKUPS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from anabranch.backup.config import BackupTarget, DatabaseTarget
    from anabranch.backup.target import Target
    from anabranch.kube.client import KubeClient
    from anabranch.store.backups import Turn
    from anabranch.store.database import Database

_log = structlog.get_logger(__name__)

HOLD: Final = timedelta(minutes=2)
_RENEW_SECONDS: Final = 30.0
_POLL: Final = timedelta(seconds=10)
"""How often the state of a backup of the database is looked up."""

_SHORTEST_PAUSE: Final = timedelta(seconds=10)
_LONGEST_RETRY_SECONDS: Final = 600.0


class Targets:
    """The named targets of a configuration.

    Args:
        entries: By name.
    """

    def __init__(self, entries: Mapping[str, BackupTarget]) -> None:
        self._entries = entries

    def entry(self, name: str) -> BackupTarget:
        """The entry of a name.

        Raises:
            UnknownTargetError: If there is none.
        """
        if name not in self._entries:
            known = ", ".join(sorted(self._entries)) or "none"
            raise UnknownTargetError(
                f"The operator has no backup target {name!r}; it has {known}.",
                hint="Mend spec.backup.target, or add it to backupTargets of the operator's configuration.",
            )
        return self._entries[name]

    def archives(self, name: str) -> Target:
        """The target of a name, which holds archives.

        Raises:
            UnknownTargetError: If there is none, or if it is one that backs the database up as a whole.
        """
        entry = self.entry(name)
        if entry.folder is not None:
            return Folder(entry.folder)
        if entry.bucket is not None:
            return Bucket(entry.bucket)
        raise UnknownTargetError(
            f"The target {name!r} backs the database up as a whole, by CloudNativePG.",
            hint="Restore the database from there; then run `anabranch backup restored`.",
        )


class Turns:
    """Makes backups that are due. A look of the wake queue.

    Args:
        db: The store.
        kube: The API server.
        targets: Where backups may go.
    """

    name = "backups"

    def __init__(self, db: Database, *, kube: KubeClient, targets: Targets) -> None:
        self._db = db
        self._kube = kube
        self._targets = targets

    async def look(self) -> bool:
        """Make the backup of the line whose turn it is; whether there was one."""
        async with self._db.connection() as conn:
            turn = await backups.claim(conn, hold=HOLD)
        if turn is None:
            return False
        ids = {"line": turn.line, "target": turn.target}
        with logs.bound(**ids), tracing.begun("back up", **ids):
            began = time.perf_counter()
            try:
                async with _kept(self._db, turn):
                    outcome = await self._take(turn)
            except asyncio.CancelledError:
                with contextlib.suppress(AnabranchError):
                    async with self._db.connection() as conn:
                        await backups.come_back(conn, turn, pause=timedelta())
                raise
            except AnabranchError as error:
                _log.warning("backup failed", error=str(error), attempt=turn.attempt + 1)
                await self._fail(turn, str(error))
                outcome = "failed"
            except Exception as error:  # noqa: BLE001  (whatever it is, the line's turn ends, and comes again)
                _log.exception("backup failed", attempt=turn.attempt + 1)
                await self._fail(turn, f"{type(error).__name__}: see the operator's log.")
                outcome = "failed"
            if outcome:
                BACKUPS.labels(outcome).observe(time.perf_counter() - began)
        return True

    async def _take(self, turn: Turn) -> str:
        """Make the backup, if it is needed: how that ended, in a word; none if it is not."""
        entry = self._targets.entry(turn.target)
        async with self._db.connection() as conn:
            head = await lines.head(conn, turn.line)
            standing = await backups.standing(conn, line=turn.line)
            newest = await backups.newest(conn, line=turn.line)
            unchanged = (
                bool(newest) and newest[0].target == turn.target and newest[0].generation == head.head_generation
            )
            if standing is None or (unchanged and not turn.wanted) or (turn.wanted and standing.fresh):
                await backups.put_off(conn, turn, pause=max(turn.max_age / 2, _SHORTEST_PAUSE))
                return ""
        if entry.cloud_native_pg is not None:
            return await self._order(turn, entry.cloud_native_pg)
        made = await making.make(
            self._db, line=turn.line, name=turn.target, target=self._targets.archives(turn.target), turn=turn
        )
        _log.info("backed up", generation=made.generation, bytes=made.bytes, place=made.place)
        return "done"

    async def _order(self, turn: Turn, target: DatabaseTarget) -> str:
        ordered = await database.order(
            self._kube,
            name=turn.target,
            target=target,
            max_age=turn.max_age,
            attempt=turn.attempt,
            now=datetime.now(UTC),
        )
        if ordered.state == "failed":
            raise database.failed(ordered)
        if ordered.state == "running":
            async with self._db.connection() as conn:
                await backups.come_back(conn, turn, pause=_POLL)
            return "ordered"
        taken_at = ordered.taken_at - database.SKEW
        async with self._db.transaction() as conn:
            held = await backups.published_before(conn, line=turn.line, moment=taken_at)
            if held is None:  # the line is younger than that: order another one in a moment
                await backups.come_back(conn, turn, pause=_POLL)
                return "ordered"
            backup = backups.BackupRow(
                line=turn.line,
                taken_at=taken_at,
                target=turn.target,
                place=ordered.place,
                generation=held.generation,
                baseline_id=held.baseline_id,
                manifest_hash=held.manifest_hash,
                bytes=None,
            )
            await backups.record(conn, backup, turn=turn)
        self._db.notify("work")
        self._db.notify("status")
        _log.info("backed up with the database", generation=backup.generation, place=backup.place)
        return "done"

    async def _fail(self, turn: Turn, error: str) -> None:
        wait = backoff.delay(turn.attempt + 1, chance=random.random(), limit=_LONGEST_RETRY_SECONDS)  # noqa: S311  (jitter)
        async with self._db.transaction() as conn:
            await backups.fail(conn, turn, error=error, retry_in=timedelta(seconds=wait))
        self._db.notify("status")


@contextlib.asynccontextmanager
async def _kept(db: Database, turn: Turn) -> AsyncIterator[None]:
    """Keep a turn while the block runs. Who loses it goes on: two backups are no harm."""
    task = asyncio.create_task(_keep(db, turn), name="backup's turn")
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait({task})


async def _keep(db: Database, turn: Turn) -> None:
    mine = True
    while mine:
        await asyncio.sleep(_RENEW_SECONDS)
        with contextlib.suppress(UnavailableError):
            async with db.connection() as conn:
                mine = await backups.renew(conn, turn, hold=HOLD)
