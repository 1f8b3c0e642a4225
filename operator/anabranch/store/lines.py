"""Lines and their heads: which history a Baseline resource stands for, and where that history is.

What identifies a line is apart from what moves: ``line_heads`` is the narrow row that a publication locks, and on which
all that is ordered (generations, revisions, events) is counted. Deleting a Baseline keeps its line; the same name in
the same namespace takes it up again.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Final

from anabranch.model.errors import NotFoundError, TooLargeError
from anabranch.model.ids import LineId, new_line_id
from anabranch.model.limits import LINE_SCOPES
from anabranch.store import queries

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from datetime import datetime, timedelta

    from anabranch.store.database import Connection

_sql: Final = queries.load("lines")


@dataclass(frozen=True, slots=True, kw_only=True)
class LineRow:
    """A line: the history that a Baseline resource stands for.

    Attributes:
        line: Its id.
        namespace: Of the Baseline.
        namespace_uid: Of that namespace: one deleted and made again is another.
        name: Of the Baseline.
        uid: Of the Baseline.
        observed_generation: ``metadata.generation`` that was reconciled last.
        policy: Review policy and limits as reconciled last (JSON).
        conditions: What reconciling met: ``{type, reason, message}`` each.
        import_digest: Of the source that was imported last, 32 bytes.
        created_at: When the line began.
        deleted_at: When its resource was deleted.
        due_at: When it is to be reconciled next; None when nothing asks for it.
        version: Counts what status shows.
        projected: The version that status shows.
    """

    line: LineId
    namespace: str
    namespace_uid: str
    name: str
    uid: str
    observed_generation: int
    policy: dict[str, Any]
    conditions: list[dict[str, Any]]
    import_digest: bytes | None
    created_at: datetime
    deleted_at: datetime | None
    due_at: datetime | None
    version: int
    projected: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadRow:
    """Where a line is.

    Attributes:
        line: Its id.
        head_generation: The newest manifest; 0 before the first.
        current_generation: The manifest that readers see: the newest, or the pinned one.
        previous_generation: What current was before its last move.
        pinned_generation: Set while ``spec.pin`` holds.
        suspended: ``spec.suspend``.
        revision: Raised by each generation, shared by its changes, never reused.
        event_sequence: Of the newest event.
        event_floor: Events up to here are pruned.
        epoch: Changes after a restore from backup.
    """

    line: LineId
    head_generation: int
    current_generation: int
    previous_generation: int
    pinned_generation: int | None
    suspended: bool
    revision: int
    event_sequence: int
    event_floor: int
    epoch: int

    @property
    def paused(self) -> bool:
        """Whether nothing is consolidated now."""
        return self.suspended or self.pinned_generation is not None


@dataclass(frozen=True, slots=True)
class LineState:
    """A line and its head, read together."""

    line: LineRow
    head: HeadRow


async def find(conn: Connection, *, namespace: str, name: str) -> LineState | None:
    """The line that a Baseline stands for; None when there is no such Baseline (any more)."""
    row = await _sql.find(conn, namespace=namespace, name=name)
    return None if row is None else _state(row)


async def find_with_scopes(conn: Connection, *, namespace: str, name: str) -> tuple[LineState, list[str]] | None:
    """The line that a Baseline stands for (see `find`), and all scopes that its records ever had."""
    row = await _sql.find(conn, namespace=namespace, name=name)
    return None if row is None else (_state(row), row["scopes"])


async def get(conn: Connection, line: str) -> LineState:
    """A line by its id, deleted or not.

    Raises:
        NotFoundError: If there is none.
    """
    row = await _sql.get(conn, line=line)
    if row is None:
        raise _no_line(line)
    return _state(row)


async def list_by_namespace(conn: Connection, namespace: str) -> list[LineState]:
    """The lines of a namespace's Baselines, by name."""
    return await queries.rows(_sql.list_by_namespace(conn, namespace=namespace), _state)


async def directory(conn: Connection) -> dict[str, list[str]]:
    """The names of all Baselines, by namespace."""
    return dict(await queries.rows(_sql.directory(conn), lambda row: (row["namespace"], row["names"])))


async def adopt_or_create(conn: Connection, *, namespace: str, namespace_uid: str, name: str, uid: str) -> LineState:
    """The line of a Baseline: the one that it or a deleted namesake in the same namespace had, or a new one.

    A namesake in a namespace that was deleted and made again is not taken up: its line is set aside (`adoption` tells
    when one may be). Needs a transaction.

    Args:
        conn: Inside a transaction.
        namespace: Of the Baseline.
        namespace_uid: ``metadata.uid`` of that namespace.
        name: Of the Baseline.
        uid: ``metadata.uid`` of the Baseline.
    """
    where = {"namespace": namespace, "namespace_uid": namespace_uid, "name": name}
    await set_aside_namesakes(conn, **where)
    line = await _sql.adopt(conn, line=new_line_id(), uid=uid, **where)
    if line is None:  # it is the Baseline's already
        line = await _sql.adopted(conn, **where)
    await _sql.add_head(conn, line=line)
    return await get(conn, line)


async def placed(conn: Connection, *, namespace: str, namespace_uid: str, name: str) -> LineId | None:
    """The line of this name in this very namespace, whether its resource is there or not."""
    line: LineId | None = await _sql.adopted(conn, namespace=namespace, namespace_uid=namespace_uid, name=name)
    return line


async def set_aside_namesakes(conn: Connection, *, namespace: str, namespace_uid: str, name: str) -> None:
    """Take note that a namespace is another one by now: what its predecessor had under this name has no resource."""
    await _sql.retire_namesakes(conn, namespace=namespace, namespace_uid=namespace_uid, name=name)


async def save_spec(
    conn: Connection, *, line: str, observed_generation: int, policy: Mapping[str, Any], suspended: bool
) -> None:
    """Keep what a reconciliation read of the spec. Needs a transaction.

    Args:
        conn: Inside a transaction.
        line: The line.
        observed_generation: ``metadata.generation`` of the resource that was read.
        policy: Review policy and limits (JSON).
        suspended: ``spec.suspend``.
    """
    await _sql.set_suspended(conn, line=line, suspended=suspended)
    await _sql.save_spec(conn, line=line, observed_generation=observed_generation, policy=dict(policy))


async def lock(conn: Connection, line: str) -> LineRow:
    """A line, which nobody else changes until the transaction ends. Whoever needs the head's lock too takes that first.

    Raises:
        NotFoundError: If there is none.
    """
    row = await _sql.lock(conn, line=line)
    if row is None:
        raise _no_line(line)
    return _line(row)


async def set_conditions(conn: Connection, *, line: str, conditions: list[dict[str, Any]]) -> bool:
    """Keep what a reconciliation met; whether it is anything new."""
    return queries.touched(await _sql.set_conditions(conn, line=line, conditions=conditions)) > 0


async def set_import_digest(conn: Connection, *, line: str, digest: bytes) -> None:
    """Remember which source was imported last (32 bytes)."""
    await _sql.set_import_digest(conn, line=line, digest=digest)


async def mark_deleted(conn: Connection, *, line: str, uid: str) -> bool:
    """The resource with this uid is gone; False when another stands for the line by now, or none did."""
    return queries.touched(await _sql.mark_deleted(conn, line=line, uid=uid)) > 0


async def touch(conn: Connection, line: str) -> None:
    """Have status written again."""
    await _sql.touch(conn, line=line)


async def head(conn: Connection, line: str) -> HeadRow:
    """Where a line is now.

    Raises:
        NotFoundError: If there is no such line.
    """
    row = await _sql.head(conn, line=line)
    if row is None:
        raise _no_line(line)
    return HeadRow(**row)


async def lock_head(conn: Connection, line: str) -> HeadRow:
    """Where a line is, and stays until the transaction ends: everybody else who moves it waits.

    Raises:
        NotFoundError: If there is no such line.
    """
    row = await _sql.lock_head(conn, line=line)
    if row is None:
        raise _no_line(line)
    return HeadRow(**row)


async def scopes(conn: Connection, line: str) -> list[str]:
    """All scopes that the line's records ever had."""
    return await queries.rows(_sql.scopes(conn, line=line), lambda row: str(row["scope"]))


async def add_scopes(conn: Connection, *, line: str, scopes: Collection[str]) -> None:
    """Add scopes to those of the line. Needs the head's lock.

    Raises:
        TooLargeError: If the line would have more than 32.
    """
    if not scopes or not queries.touched(await _sql.add_scopes(conn, line=line, scopes=sorted(set(scopes)))):
        return
    count = len(await queries.rows(_sql.scopes(conn, line=line), lambda row: row))
    if count > LINE_SCOPES:
        raise TooLargeError(
            f"The line would have {count} scopes; {LINE_SCOPES} are the limit.", hint="Use one of its scopes."
        )


async def set_due(conn: Connection, *, line: str, delay: timedelta | None) -> None:
    """Have the line reconciled after a delay; None takes the wish back."""
    await _sql.set_due(conn, line=line, delay=delay)


async def claim_due(conn: Connection, *, limit: int, hold: timedelta) -> list[LineRow]:
    """Take the lines that are to be reconciled now.

    Args:
        conn: A connection.
        limit: How many at most.
        hold: How long nobody else is given them. If the taker dies they are due again then.
    """
    return await queries.rows(_sql.claim_due(conn, limit=limit, hold=hold), _line)


async def settle(conn: Connection, *, line: str, due_at: datetime) -> None:
    """End a claim; a wish that came after it stays.

    Args:
        conn: A connection.
        line: The line.
        due_at: As `claim_due` gave it.
    """
    await _sql.settle(conn, line=line, due_at=due_at)


def _no_line(line: str) -> NotFoundError:
    return NotFoundError(f"There is no line {line!r}.", hint="Check the id.")


_LINE_FIELDS: Final = tuple(field.name for field in fields(LineRow))
_HEAD_FIELDS: Final = tuple(field.name for field in fields(HeadRow))


def _line(row: Any) -> LineRow:
    return LineRow(**{name: row[name] for name in _LINE_FIELDS})


def _state(row: Any) -> LineState:
    return LineState(_line(row), HeadRow(**{name: row[name] for name in _HEAD_FIELDS}))
