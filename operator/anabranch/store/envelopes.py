"""Envelopes of agents: the row that whoever writes to an agent's memory holds, and its revision.

A revision is given once: the envelope's row is held from there to the end of the transaction, so what reads see as the
revision of the envelope is all there, and a section that is written again after it was deleted has a new one.

The section that an agent's instances share belongs to an envelope of its own, that of the agent as a whole.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from anabranch.model.errors import QuotaExceededError
from anabranch.model.limits import MEMORY_INSTANCES
from anabranch.store import queries

if TYPE_CHECKING:
    from datetime import date

    from anabranch.model.memory import AgentKey
    from anabranch.store.database import Connection

_sql: Final = queries.load("envelopes")


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvelopeRow:
    """An envelope.

    Attributes:
        revision: Of the newest write.
        last_seen_revision: Up to where the agent has acknowledged or read.
    """

    revision: int = 0
    last_seen_revision: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldEnvelope:
    """An envelope whose row is held.

    Attributes:
        last_sync_key: Of the sync that left its sections as they are; None: none did.
        last_sync_shared_revision: Which the shared section had then, if that sync gave it.
        today: The day in UTC, by the database's clock.
    """

    revision: int
    last_sync_key: bytes | None
    last_sync_shared_revision: int | None
    today: date


async def get(conn: Connection, key: AgentKey) -> EnvelopeRow:
    """An envelope; where nothing was ever written, an empty one."""
    row = await _sql.get(conn, **key.columns)
    return EnvelopeRow() if row is None else EnvelopeRow(**row)


async def raised(conn: Connection, key: AgentKey) -> int:
    """Hold an envelope, for a write by its owner, until the transaction ends; the revision of that write.

    What was synced last does not count any more: it does not know of this write.

    Raises:
        QuotaExceededError: If the agent has written as so many instances that there is no room for another.
    """
    row = await _sql.begin_write(conn, **key.columns)
    if row["is_new"]:
        await _check_room(conn, key)
    revision: int = row["revision"]
    return revision


async def hold(conn: Connection, key: AgentKey) -> HeldEnvelope:
    """Hold an envelope until the transaction ends; it is made if it is not there.

    Raises:
        QuotaExceededError: If the agent has written as so many instances that there is no room for another.
    """
    row = await _sql.hold(conn, **key.columns)
    if row is None:
        if await _sql.open(conn, **key.columns):
            await _check_room(conn, key)
        row = await _sql.hold(conn, **key.columns)
    return HeldEnvelope(**row)


async def note_sync(
    conn: Connection, key: AgentKey, *, revision: int, sync_key: bytes, shared_revision: int | None
) -> None:
    """Note what a sync has made of an envelope that is held.

    Args:
        conn: Inside the transaction of `hold`.
        key: Whose.
        revision: As it was, or one more.
        sync_key: What names the sync.
        shared_revision: Which the shared section has now, if the sync gave it.
    """
    await _sql.synced(conn, **key.columns, revision=revision, sync_key=sync_key, shared_revision=shared_revision)


async def _check_room(conn: Connection, key: AgentKey) -> None:
    """Check that an agent may have the envelope that was just made, in the transaction that made it.

    Asked only where an agent writes: whom the platform tells of exchanges is for the platform to say.
    """
    await _sql.one_at_a_time(conn, namespace=key.namespace, agent_id=key.agent_id)
    if await _sql.instances(conn, namespace=key.namespace, agent_id=key.agent_id) > MEMORY_INSTANCES:
        raise QuotaExceededError(
            f"The agent remembers as {MEMORY_INSTANCES} instances, which is the limit.",
            hint="Let its sessions use instances that are there, such as the ordinals of a StatefulSet.",
            limit=MEMORY_INSTANCES,
        )
