"""Exchanges of agents: what the platform notes for an agent that happened to it elsewhere.

An envelope has fifty slots, and an exchange takes the one of the fiftieth before it. So there is no moment with more,
and nothing to be trimmed; adding one is a single statement, which raises the envelope's revision, too. An exchange
comes once into an envelope, however often it is sent: receipts outlast the slots.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from anabranch.model.errors import ConflictError
from anabranch.model.limits import EXCHANGES_KEPT
from anabranch.model.memory import AgentKey
from anabranch.store import durability, queries

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from anabranch.store.database import Connection

_sql: Final = queries.load("exchanges")


@dataclass(frozen=True, slots=True, kw_only=True)
class NewExchange:
    """An exchange to be noted for one of those that took part.

    Attributes:
        key: Whose envelope.
        exchange_id: Names it for ever, in this envelope.
        digest: Of all that was said of it, 32 bytes: the same id with another one is another exchange.
        kind: As `model.memory` lists them.
        surface_pod_id: Where, at most 128 bytes.
        surface_label: Likewise, for people; at most 64 code points.
        peers: Who else, at most 8.
        takeaway: At most 280 code points.
        ts: When.
    """

    key: AgentKey
    exchange_id: str
    digest: bytes
    kind: str
    surface_pod_id: str
    surface_label: str
    peers: Sequence[str]
    takeaway: str
    ts: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Appended:
    """An exchange that an envelope has had.

    Attributes:
        key: Whose envelope.
        received_at: When it came first.
        new: Whether that was now.
    """

    key: AgentKey
    exchange_id: str
    received_at: datetime
    new: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ExchangeRow:
    """An exchange in an envelope; attributes as `NewExchange` has them.

    Attributes:
        revision: Of the envelope, that it made.
        seen: Whether the agent has read or acknowledged it.
    """

    revision: int
    kind: str
    surface_pod_id: str
    surface_label: str
    peers: tuple[str, ...]
    takeaway: str
    ts: datetime
    seen: bool


async def append(conn: Connection, entries: Sequence[NewExchange]) -> list[Appended]:
    """Note exchanges, all of them or none; what an envelope has had before changes nothing.

    Args:
        conn: Inside a transaction, which holds the envelopes from here to its end.
        entries: For any envelopes, in the order in which they happened.

    Returns:
        What became of each, in the order given.

    Raises:
        ConflictError: If an envelope has had another exchange under the same id. The transaction must end then.
    """
    where = {
        "namespaces": [entry.key.namespace for entry in entries],
        "agent_ids": [entry.key.agent_id for entry in entries],
        "instances": [entry.key.instance for entry in entries],
        "exchange_ids": [entry.exchange_id for entry in entries],
    }
    fresh = await queries.rows(
        _sql.append(
            conn,
            **where,
            digests=[entry.digest for entry in entries],
            kinds=[entry.kind for entry in entries],
            surface_pod_ids=[entry.surface_pod_id for entry in entries],
            surface_labels=[entry.surface_label for entry in entries],
            peers=[json.dumps(list(entry.peers)) for entry in entries],  # the driver takes lists of lists for a matrix
            takeaways=[entry.takeaway for entry in entries],
            times=[entry.ts for entry in entries],
            kept=EXCHANGES_KEPT,
        ),
        _place,
    )
    receipts = dict(await queries.rows(_sql.receipts(conn, **where), lambda row: (_place(row), row)))
    for entry in entries:
        if receipts[entry.key, entry.exchange_id]["digest"] != entry.digest:
            raise ConflictError(
                f"The exchange {entry.exchange_id!r} was posted before, with other content.",
                hint="Give each exchange an id of its own, and send it again as it was.",
            )
    if entries and not fresh:  # else the commit waits in any case
        await durability.settle(conn)
    new = set(fresh)
    return [
        Appended(
            key=entry.key,
            exchange_id=entry.exchange_id,
            received_at=receipts[entry.key, entry.exchange_id]["received_at"],
            new=(entry.key, entry.exchange_id) in new,
        )
        for entry in entries
    ]


async def of_envelope(conn: Connection, key: AgentKey) -> list[ExchangeRow]:
    """The exchanges of an envelope, newest first."""
    return await queries.rows(_sql.of_envelope(conn, **key.columns), from_row)


async def read(conn: Connection, key: AgentKey) -> list[ExchangeRow]:
    """The exchanges of an envelope as their agent reads them: these, and no others, are seen from now on.

    Args:
        conn: A connection.
        key: Whose.

    Returns:
        Newest first; `seen` as it was before.
    """
    return await queries.rows(_sql.read(conn, **key.columns), from_row)


def from_row(row: Mapping[str, Any]) -> ExchangeRow:
    """An exchange as a query gives it."""
    return ExchangeRow(**dict(row) | {"peers": tuple(row["peers"])})


def _place(row: Mapping[str, Any]) -> tuple[AgentKey, str]:
    key = AgentKey(namespace=row["namespace"], agent_id=row["agent_id"], instance=row["instance"])
    return key, row["exchange_id"]
