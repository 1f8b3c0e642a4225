"""Resources that cannot have a row of their own yet: applied before what they need, or without the grant.

Absent and denied look alike from outside, so both wait here. They are looked at again when what they name appears, and
at growing intervals, for a grant makes no noise when it is given.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from anabranch.store import queries

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime, timedelta

    from anabranch.store.database import Connection

Kind: TypeAlias = Literal["Baseline", "Branch", "ConsolidationJob"]

_sql = queries.load("waiting")


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingRow:
    """A resource that waits.

    Attributes:
        condition: ``Reconciling``: it will come; ``Stalled``: somebody must change something.
        needs_namespace: Of the Baseline or Branch that it waits for.
        needs_name: Of the same.
        attempt: How often the same was found since it began to wait for this.
        due_at: When it is looked at again; None: when it is woken.
        version: Counts the changes that the resource's status shows.
    """

    namespace: str
    kind: Kind
    name: str
    uid: str
    observed_generation: int
    condition: Literal["Reconciling", "Stalled"]
    reason: str
    message: str
    needs_namespace: str
    needs_name: str
    attempt: int
    due_at: datetime | None
    version: int


_FIELDS: Final = tuple(field.name for field in fields(WaitingRow))


async def upsert(  # noqa: PLR0913  (the columns of a wait)
    conn: Connection,
    *,
    namespace: str,
    kind: Kind,
    name: str,
    uid: str,
    observed_generation: int,
    condition: Literal["Reconciling", "Stalled"],
    reason: str,
    message: str,
    needs_namespace: str,
    needs_name: str,
    due_in: timedelta | None,
) -> WaitingRow:
    """Note what a resource waits for.

    Args:
        conn: A connection.
        namespace: Of the resource.
        kind: Of the resource.
        name: Of the resource.
        uid: Of the resource: another one of the same name begins anew.
        observed_generation: ``metadata.generation``.
        condition: Which condition its status shows.
        reason: CamelCase.
        message: For people.
        needs_namespace: Of what it waits for.
        needs_name: Of what it waits for.
        due_in: When to look again, from now; None: only when woken.

    Returns:
        The row, whose ``attempt`` tells how long the next wait should be.
    """
    row = await _sql.upsert(
        conn,
        namespace=namespace,
        kind=kind,
        name=name,
        uid=uid,
        observed_generation=observed_generation,
        condition=condition,
        reason=reason,
        message=message,
        needs_namespace=needs_namespace,
        needs_name=needs_name,
        due_in=due_in,
    )
    return _from_row(row)


async def delete(conn: Connection, *, namespace: str, kind: Kind, name: str, uid: str | None = None) -> None:
    """It waits no more: this very resource, or without a uid whichever has the name."""
    await _sql.delete(conn, namespace=namespace, kind=kind, name=name, uid=uid)


async def settle(  # noqa: PLR0913  (what identifies it, and what is final)
    conn: Connection, *, namespace: str, kind: Kind, name: str, uid: str, final: str
) -> None:
    """A resource has what it waited for, and what another one of its name waited for is over too.

    Args:
        conn: A connection.
        namespace: Of the resource.
        kind: Of the resource.
        name: Of the resource.
        uid: Of the resource.
        final: A reason that never ends by itself: a wait of this very resource for it stays.
    """
    await _sql.settle(conn, namespace=namespace, kind=kind, name=name, uid=uid, final=final)


async def get(conn: Connection, *, namespace: str, kind: Kind, name: str) -> WaitingRow | None:
    """What a resource waits for; None when it does not."""
    row = await _sql.get(conn, namespace=namespace, kind=kind, name=name)
    return row and _from_row(row)


async def due(conn: Connection, *, limit: int) -> list[WaitingRow]:
    """Resources of any namespace that are to be looked at again. Whoever does so puts the next time in, by `upsert`."""
    return await queries.rows(_sql.due(conn, limit=limit), _from_row)


async def wake(conn: Connection, *, needs_namespace: str, needs_name: str) -> int:
    """Look again now at whatever waits for this Baseline or Branch; how many."""
    return queries.touched(await _sql.wake(conn, needs_namespace=needs_namespace, needs_name=needs_name))


def _from_row(row: Mapping[str, Any]) -> WaitingRow:
    return WaitingRow(**{name: row[name] for name in _FIELDS})
