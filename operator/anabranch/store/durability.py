"""What an acknowledgement rests on where commits wait for a synchronous standby.

Postgres writes a commit here first and waits for the standby then. Two things make that less than it seems. A server
that stops in between, or a waiting that is ended by somebody, leaves a transaction that is there for all to see and
perhaps on this server alone: whoever repeats it finds it done, writes nothing, and so waits for nothing. And Postgres
calls such an ended waiting a success, with a warning. So what is recognized as done already is `settle`d before it is
acknowledged, and a connection that was warned says that the outcome is not known (see `pools`).

Without a standby a commit waits for ever, and a connection with it: enough of them, and nothing can be read any more.
So each process lets those go that have waited for long, and begins no others meanwhile (see `gate`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from anabranch.model.errors import UnavailableError
from anabranch.store import queries

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from anabranch.store.database import Connection

_sql: Final = queries.load("durability")

LONG_SECONDS: Final = 1.0
"""From when on it is told that a commit waits."""

PATIENCE_SECONDS: Final = 5.0
"""How long one may that keeps nobody from a connection; it keeps its locks, too."""

_HINT: Final = "Repeat it when there is one again; docs/high_availability.md."


class CommitsWaitError(UnavailableError):
    """No synchronous standby takes what is to be written."""

    def __init__(self, detail: str) -> None:
        super().__init__(detail, hint=_HINT)


class RefusedError(CommitsWaitError):
    """Nothing was written, since its commit would have waited."""

    def __init__(self) -> None:
        super().__init__("Nothing was written: commits wait for a synchronous standby.")


class UnsettledError(CommitsWaitError):
    """What was committed may be on the primary alone: it is acknowledged when it is repeated."""

    def __init__(self) -> None:
        super().__init__("A commit waited for a synchronous standby until it was let go.")


@dataclass(frozen=True, slots=True)
class Promises:
    """What a commit waits for.

    Attributes:
        commit: ``synchronous_commit``.
        standbys: ``synchronous_standby_names``; empty: none.
    """

    commit: str
    standbys: str


async def settle(conn: Connection) -> None:
    """Return when all that this connection has seen is where commits go; at once where that is this server alone.

    Args:
        conn: In autocommit. Inside a transaction it is that one's commit which waits.

    Raises:
        RefusedError: If it would have to be waited for, and only reads are let through.
    """
    if not await _sql.settle(conn):
        raise RefusedError


@dataclass(frozen=True, slots=True)
class Wait:
    """A statement that waits for a synchronous standby, or for a lock, which a commit keeps until its waiting is over.

    Attributes:
        pid: Of the server's process.
        began: When the statement did. Since when it waits Postgres does not tell: a long one has worked first.
        is_commit: Whether it is for a standby.
    """

    pid: int
    began: datetime
    is_commit: bool


async def waiting(conn: Connection, *, seconds: float) -> int:
    """How many commits of this role wait for a synchronous standby, with a statement that began so long ago."""
    return int(await _sql.waiting(conn, seconds=seconds))


async def waits(conn: Connection) -> list[Wait]:
    """What waits now, of this role's."""
    return [Wait(**row) async for row in _sql.waits(conn)]


async def let_go(conn: Connection, those: Sequence[Wait]) -> int:
    """End the waiting of those; how many commits that were.

    The outcome of a commit is then not known; what waited for a lock is undone.
    """
    pids, beginnings = [each.pid for each in those], [each.began for each in those]
    return int(await _sql.let_go(conn, pids=pids, beginnings=beginnings))


async def promises(conn: Connection) -> Promises:
    """What a commit of this role waits for."""
    return Promises(**await _sql.promises(conn))
