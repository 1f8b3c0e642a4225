"""Backups of lines: what is recorded of them, and whose turn it is.

A backup lies elsewhere (see `anabranch.backup`); here stands that it is whole, which is written last. A line whose
Baseline asks for backups has a row with its next turn. Who takes a turn holds it for a while and raises its fence, so
that no two make the same backup; should two do so all the same, there are two backups.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Final

from anabranch.store import lines, queries
from anabranch.store import manifests as store_manifests

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from anabranch.model.ids import BaselineId, LineId
    from anabranch.store.database import Connection
    from anabranch.store.manifests import ManifestRow

_sql: Final = queries.load("backups")

KEPT: Final = 100
"""Backups of a line that are remembered; older ones lie where they lie."""

_ERROR_CHARACTERS: Final = 1_024


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupRow:
    """A backup that is whole.

    Attributes:
        line: Of which line.
        taken_at: Everything that was published before is in it. By the database's clock.
        target: Where it lies: a name of the operator's configuration.
        place: Where in the target.
        generation: The head, when it was taken.
        baseline_id: Its id.
        manifest_hash: Its root, 32 bytes.
        bytes: How large it is; None where the target does not tell.
    """

    line: LineId
    taken_at: datetime
    target: str
    place: str
    generation: int
    baseline_id: BaselineId
    manifest_hash: bytes
    bytes: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """What a Baseline asks for, and what there is.

    Attributes:
        target: Where its backups go.
        max_age: Nothing is published without a backup younger than this.
        error: Why the last attempt failed; None: it did not.
        failing_since: Since when they fail.
        taken_at: When the newest backup in that target was taken; None: there is none.
        fresh: Whether that is young enough, now.
    """

    target: str
    max_age: timedelta
    error: str | None
    failing_since: datetime | None
    taken_at: datetime | None
    fresh: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """A line whose turn somebody has.

    Attributes:
        line: The line.
        target: Where its backup goes.
        max_age: As of `Standing`.
        wanted: Whether a publication waits for it.
        fence: Names this turn.
        attempt: Failures since the last success.
    """

    line: LineId
    target: str
    max_age: timedelta
    wanted: bool
    fence: int
    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreName:
    """A restore within a line, which acts once."""

    restore_id: str
    from_generation: int
    generation: int


async def follow(conn: Connection, *, line: str, target: str | None, max_age: timedelta) -> None:
    """Have a line backed up from now on; in no target: no more. What waits for a backup looks again.

    Args:
        conn: Inside a transaction that holds the line's row.
        line: The line.
        target: A name of the operator's configuration; None: nowhere.
        max_age: As of `Standing`.
    """
    if target is None:
        changed = await _sql.unfollow(conn, line=line)
    else:
        changed = await _sql.follow(conn, line=line, target=target, max_age=max_age)
    if queries.touched(changed):
        await lines.touch(conn, line)
        await _sql.wake_publishing(conn, line=line)


async def standing(conn: Connection, *, line: str) -> Standing | None:
    """What a line's Baseline asks for; None: no backups."""
    row = await _sql.standing(conn, line=line)
    return None if row is None else Standing(**row)


async def want(conn: Connection, *, line: str) -> bool:
    """Have a line backed up now, for something waits; whether that is news."""
    return queries.touched(await _sql.want(conn, line=line)) > 0


async def claim(conn: Connection, *, hold: timedelta) -> Turn | None:
    """Take the turn of a line whose backup is due; None: none is.

    Args:
        conn: A connection.
        hold: How long nobody else is given it. If the taker dies it is due again then.
    """
    row = await _sql.claim(conn, hold=hold)
    return None if row is None else Turn(**row)


async def renew(conn: Connection, turn: Turn, *, hold: timedelta) -> bool:
    """Keep a turn for another while; False: somebody else has it."""
    return queries.touched(await _sql.renew(conn, line=turn.line, fence=turn.fence, hold=hold)) > 0


async def put_off(conn: Connection, turn: Turn, *, pause: timedelta) -> None:
    """End a turn in which there was nothing to do."""
    await _sql.put_off(conn, line=turn.line, fence=turn.fence, pause=pause, wanted=turn.wanted)


async def come_back(conn: Connection, turn: Turn, *, pause: timedelta) -> None:
    """End a turn whose work is not done, or goes on elsewhere."""
    await _sql.come_back(conn, line=turn.line, fence=turn.fence, pause=pause)


async def record(conn: Connection, backup: BackupRow, *, turn: Turn | None = None) -> None:
    """Note that a backup is whole, and let go on what waits for it.

    Args:
        conn: Inside a transaction.
        backup: The backup.
        turn: In whose turn it was made; None: somebody asked for it.
    """
    await lines.touch(conn, backup.line)  # a line comes before its jobs
    if turn is not None:
        await _sql.succeed(conn, line=turn.line, fence=turn.fence, taken_at=backup.taken_at)
    await _sql.add(conn, **{field.name: getattr(backup, field.name) for field in fields(BackupRow)})
    await _sql.forget_old(conn, line=backup.line, keep=KEPT)
    await _sql.wake_publishing(conn, line=backup.line)


async def fail(conn: Connection, turn: Turn, *, error: str, retry_in: timedelta) -> None:
    """Note that a backup failed.

    Args:
        conn: Inside a transaction.
        turn: In which it did.
        error: For people; its first 1,024 characters are kept.
        retry_in: When to try again.
    """
    await lines.touch(conn, turn.line)
    text = error.replace("\0", "")[:_ERROR_CHARACTERS]
    await _sql.fail(conn, line=turn.line, fence=turn.fence, error=text, retry_in=retry_in)


async def newest(conn: Connection, *, line: str, limit: int = 1) -> list[BackupRow]:
    """The newest backups of a line, the newest first."""
    return await queries.rows(_sql.newest(conn, line=line, limit=limit), from_row)


async def published_before(conn: Connection, *, line: str, moment: datetime) -> ManifestRow | None:
    """The manifest that was a line's head at a moment; None: it had none, or that one is pruned."""
    row = await _sql.published_before(conn, line=line, moment=moment)
    return None if row is None else store_manifests.from_row(row)


async def restores(conn: Connection, *, line: str, limit: int) -> list[RestoreName]:
    """The restores that a line has seen, the newest first."""
    return await queries.rows(_sql.restores(conn, line=line, limit=limit), lambda row: RestoreName(**row))


def from_row(row: Any) -> BackupRow:
    """A backup of a row that has all its columns."""
    return BackupRow(**{field.name: row[field.name] for field in fields(BackupRow)})
