"""The queue of an agent's events: claimed for a time, acknowledged by the claim, told again when a claim runs out.

Nothing that an agent says later is trusted to know what it was told: the claim's id, the envelope's revision and the
exchanges that went along stand on the event, so an acknowledgement names the claim and that is all. Whoever comes too
late, when the event is another's, changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from anabranch.model.errors import ClaimLostError, NotFoundError
from anabranch.model.limits import EVENT_ATTEMPTS
from anabranch.model.memory import AgentKey
from anabranch.store import durability, queries
from anabranch.store.exchanges import ExchangeRow

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from uuid import UUID

    from anabranch.model.agent_events import EventStatus
    from anabranch.store.database import Connection

_sql: Final = queries.load("agent_events")


@dataclass(frozen=True, slots=True, kw_only=True)
class NewAgentEvent:
    """An event to be told.

    Attributes:
        key: Whom.
        event_id: Names it in that queue; as long as the queue remembers it, it comes in once.
        kind: As `model.memory` lists them.
        subject: What it is about.
        data: JSON values under the names that they have on the wire, without NUL.
        time: When it happened.
    """

    key: AgentKey
    event_id: str
    kind: str
    subject: str | None
    data: Mapping[str, Any]
    time: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimedEvent:
    """An event that a claim holds; attributes as `NewAgentEvent` has them.

    Attributes:
        attempts: Claims of it so far, with this one.
        deadline: Until then nobody else is given it.
        memory_revision: Of the envelope at this moment.
    """

    event_id: str
    kind: str
    subject: str | None
    data: Mapping[str, Any]
    time: datetime
    claim_id: UUID
    attempts: int
    deadline: datetime
    memory_revision: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EventRow:
    """Where an event is.

    Attributes:
        claim_id: Of the last claim.
        attempts: Claims so far.
        memory_revision_at_delivery: What the envelope was at when it was claimed last.
        error: Why it was given back or given up.
        due_at: When it may be claimed next, unless it is finished.
    """

    event_id: str
    claim_id: UUID | None
    status: EventStatus
    attempts: int
    memory_revision_at_delivery: int | None
    error: str | None
    due_at: datetime


async def enqueue(conn: Connection, events: Sequence[NewAgentEvent]) -> set[tuple[AgentKey, str]]:
    """Add events to their agents' queues, in the order given; what is there already stays as it is.

    No envelope is locked. Where exchanges are appended in the same transaction, they come first.

    Args:
        conn: A connection.
        events: For any agents.

    Returns:
        Those that are new, by agent and id.
    """
    found = _sql.enqueue(
        conn,
        namespaces=[event.key.namespace for event in events],
        agent_ids=[event.key.agent_id for event in events],
        instances=[event.key.instance for event in events],
        event_ids=[event.event_id for event in events],
        kinds=[event.kind for event in events],
        subjects=[event.subject for event in events],
        data=[dict(event.data) for event in events],
        times=[event.time for event in events],
    )
    return set(await queries.rows(found, _place))


async def claim(
    conn: Connection, key: AgentKey, *, limit: int, visibility: timedelta
) -> tuple[list[ClaimedEvent], list[ExchangeRow]]:
    """Take events of a queue, for a time; nobody else is given them until then.

    One that was taken three times and never acknowledged is given up instead.

    Args:
        conn: Inside the transaction that also says what is told with them (`deliver`).
        key: Whose queue.
        limit: How many at most.
        visibility: For how long.

    Returns:
        The events, oldest first, and the envelope's exchanges that its agent has not seen, newest first; none, where
        there is no event.
    """
    rows = await queries.rows(
        _sql.claim(conn, **key.columns, limit=limit, visibility=visibility, attempts=EVENT_ATTEMPTS), dict
    )
    unseen = (rows[0]["unseen"] or []) if rows else []
    return [_claimed(row) for row in rows], [_exchange(columns) for columns in unseen]


async def deliver(conn: Connection, key: AgentKey, told: Sequence[tuple[str, int]]) -> None:
    """Note what is told with events that this transaction has claimed.

    Args:
        conn: Inside the transaction of `claim`.
        key: Whose queue.
        told: Event ids, each with the revision of an exchange.
    """
    await _sql.deliver(
        conn, **key.columns, event_ids=[event for event, _ in told], revisions=[revision for _, revision in told]
    )


async def acknowledge(conn: Connection, key: AgentKey, *, event_id: str, claim_id: UUID) -> EventRow:
    """Finish an event that a claim holds, and count what was told with it as seen. The same again changes nothing.

    A claim that has run out holds as long as nobody else has claimed the event.

    Raises:
        NotFoundError: If there is no such event, or not any more.
        ClaimLostError: If the claim does not hold it. Nothing is changed then.
    """
    row = await _sql.acknowledge(conn, **key.columns, event_id=event_id, claim_id=claim_id)
    return await _outcome(conn, key, row, event_id=event_id, claim_id=claim_id, ended=("acked",))


async def give_back(  # noqa: PLR0913  (a claim, and what came of it)
    conn: Connection, key: AgentKey, *, event_id: str, claim_id: UUID, error: str, retry_in: timedelta
) -> EventRow:
    """Let go of an event that could not be dealt with. The same again changes nothing.

    Args:
        conn: A connection.
        key: Whose queue.
        event_id: The event.
        claim_id: The claim that holds it.
        error: Why.
        retry_in: When it may be claimed again, from now; after the third claim it is given up.

    Raises:
        NotFoundError: If there is no such event, or not any more.
        ClaimLostError: If the claim does not hold it. Nothing is changed then.
    """
    row = await _sql.give_back(
        conn,
        **key.columns,
        event_id=event_id,
        claim_id=claim_id,
        error=error,
        retry_in=retry_in,
        attempts=EVENT_ATTEMPTS,
    )
    return await _outcome(conn, key, row, event_id=event_id, claim_id=claim_id, ended=("pending", "failed"))


async def get(conn: Connection, key: AgentKey, *, event_id: str) -> EventRow | None:
    """Where an event is."""
    row = await _sql.get(conn, **key.columns, event_id=event_id)
    return row and EventRow(**row)


async def _outcome(  # noqa: PLR0913  (what was asked, and what came of it)
    conn: Connection, key: AgentKey, row: Any, *, event_id: str, claim_id: UUID, ended: tuple[EventStatus, ...]
) -> EventRow:
    """What a claim came to: just now, or before in the same way."""
    if row is not None:
        return EventRow(**row)
    found = await get(conn, key, event_id=event_id)
    if found is None:
        raise NotFoundError(f"There is no event {event_id!r}.", hint="It may be past its retention: claim anew.")
    if found.claim_id != claim_id or found.status not in ended:
        raise ClaimLostError(
            f"The claim {claim_id} does not hold the event {event_id!r} any more; it is {found.status}.",
            hint="Nothing is to be done: what is unfinished comes again to whoever claims it.",
        )
    await durability.settle(conn)
    return found


def _claimed(row: Mapping[str, Any]) -> ClaimedEvent:
    return ClaimedEvent(
        event_id=row["event_id"],
        kind=row["kind"],
        subject=row["subject"],
        data=row["data"],
        time=row["happened_at"],
        claim_id=row["claim_id"],
        attempts=row["attempts"],
        deadline=row["due_at"],
        memory_revision=row["memory_revision_at_delivery"],
    )


def _exchange(columns: Sequence[Any]) -> ExchangeRow:
    revision, kind, pod_id, label, peers, takeaway, ts = columns
    return ExchangeRow(
        revision=revision,
        kind=kind,
        surface_pod_id=pod_id,
        surface_label=label,
        peers=tuple(peers),
        takeaway=takeaway,
        ts=datetime.fromisoformat(ts),
        seen=False,
    )


def _place(row: Mapping[str, Any]) -> tuple[AgentKey, str]:
    key = AgentKey(namespace=row["namespace"], agent_id=row["agent_id"], instance=row["instance"])
    return key, row["event_id"]
