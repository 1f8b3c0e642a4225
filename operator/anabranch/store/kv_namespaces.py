"""Key-value namespaces of a branch: where their records are in the private overlay, and what they hold together.

A namespace has one counter of revisions and its sums. Who writes holds its row, so a revision is never given twice, and
the limits hold however many write. Records that have expired are seen by nobody from that moment on; the next who
writes to the namespace takes them out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from anabranch.model.errors import QuotaExceededError
from anabranch.model.limits import KV_BYTES, KV_ENTRIES, KV_NAMESPACES
from anabranch.store import branches, queries

if TYPE_CHECKING:
    from anabranch.store.database import Connection

_sql = queries.load("kv_namespaces")

PREFIX: Final = "kv/"
"""What the overlay's keys of all namespaces begin with."""

_SWEPT: Final = 1_000
"""Expired records that one write takes out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A namespace of a branch."""

    line: str
    branch_id: str
    namespace: str

    @property
    def low(self) -> str:
        """What the overlay's keys of this namespace begin with."""
        return f"{PREFIX}{self.namespace}/"

    @property
    def high(self) -> str:
        """The least text behind all of them."""
        return f"{PREFIX}{self.namespace}0"

    def private_key(self, key: str) -> str:
        """The key that a record has in the overlay."""
        return self.low + key


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What a namespace holds.

    Attributes:
        revision: Of the newest write.
        entries: Records.
        bytes: Of keys and values.
    """

    revision: int = 0
    entries: int = 0
    bytes: int = 0

    def with_more(self, *, writes: int, entries: int, size: int) -> Usage:
        """What it holds after a change.

        Raises:
            QuotaExceededError: If that is more than a namespace may hold.
        """
        changed = Usage(revision=self.revision + writes, entries=self.entries + entries, bytes=self.bytes + size)
        grows = entries > 0 or size > 0
        for name, value, limit in (("records", changed.entries, KV_ENTRIES), ("bytes", changed.bytes, KV_BYTES)):
            if grows and value > limit:
                raise QuotaExceededError(
                    f"The namespace would hold {value} {name}, the limit is {limit}.",
                    hint="Delete what is no longer needed, or let it expire by ttl_seconds.",
                    limit=limit,
                )
        return changed


async def lock(conn: Connection, place: Place) -> Usage:
    """What a namespace holds, for who will write to it in this transaction. It is made if it is not there.

    The run is kept from ending until the transaction does.

    Raises:
        ConflictError: If the run is over.
        ReclaimedError: If retention has removed what it brought, or there is no such branch.
        QuotaExceededError: If the branch has as many namespaces as it may.
    """
    where = {"line": place.line, "branch_id": place.branch_id, "namespace": place.namespace}
    bounds = {"low": place.low, "high": place.high}
    await branches.hold_live(conn, line=place.line, branch_id=place.branch_id)
    found = await _sql.lock(conn, **where, **bounds)
    if found is None:
        await _sql.lock_branch(conn, line=place.line, branch_id=place.branch_id)
        await _sql.open(conn, **where, most=KV_NAMESPACES)
        found = await _sql.lock(conn, **where, **bounds)
    if found is None:
        raise QuotaExceededError(
            f"The branch has {KV_NAMESPACES} namespaces, which is the limit.",
            hint="Use one that is there: keys may begin with any prefix.",
            limit=KV_NAMESPACES,
        )
    if found["has_expired"]:
        await _sql.sweep(conn, **where, **bounds, most=_SWEPT)
        found = await _sql.lock(conn, **where, **bounds)
    return Usage(revision=found["revision"], entries=found["entries"], bytes=found["bytes"])


async def stats(conn: Connection, place: Place) -> Usage:
    """What a namespace holds; nothing, if it has never been written to."""
    row = await _sql.stats(
        conn,
        line=place.line,
        branch_id=place.branch_id,
        namespace=place.namespace,
        low=place.low,
        high=place.high,
    )
    return Usage() if row is None else Usage(**row)
