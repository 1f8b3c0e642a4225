"""Records of a branch's key-value namespaces: bytes, and each a record of the private overlay too.

A record is one row of the overlay, under ``kv/<namespace>/<key>``, and beside it one row of what the overlay does not
know: the bytes as they came, the namespace's revision, the labels of a structured memory. Both are written by one
statement, and whether a record is there, and until when, is said by the overlay's row alone. Whoever writes holds the
namespace's lock (`kv_namespaces`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from anabranch.store import queries

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from anabranch.store.database import Connection
    from anabranch.store.kv_namespaces import Place, Usage

_sql = queries.load("kv")


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """What is under a key, as its namespace counts it.

    Attributes:
        size: Bytes of the value.
        expired: Whether nobody sees it any more.
        is_memory: Whether it is a structured memory.
    """

    revision: int
    size: int
    expired: bool | None
    is_memory: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Labels:
    """By what a structured memory is found.

    Attributes:
        text: Its content, of which the words are indexed.
    """

    topic: str | None
    tags: Sequence[str]
    occurred_at_ms: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """A value to write, in both its forms.

    Attributes:
        raw: The bytes as they came.
        body: Canonical JSON for the overlay.
        content_hash: Of the body, 32 bytes.
        media_type: Which the bytes are read under.
        labels: Of a structured memory.
    """

    raw: bytes
    body: bytes
    content_hash: bytes
    media_type: str
    labels: Labels | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """A write that is done."""

    revision: int
    written_at: datetime
    expires_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class KvRow:
    """A record.

    Attributes:
        value: The bytes as they came.
        size: How many they are.
        occurred_at_ms: Of a structured memory; None: it is none.
    """

    key: str
    revision: int
    size: int
    media_type: str
    value: bytes
    written_at: datetime
    expires_at: datetime | None
    occurred_at_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class KvInfo:
    """A record without its value; attributes as `KvRow` has them."""

    key: str
    revision: int
    size: int
    expires_at: datetime | None


async def held(conn: Connection, place: Place, key: str) -> Held | None:
    """What is under a key, for who holds the namespace's lock; what has expired and still counts too."""
    row = await _sql.held(
        conn,
        line=place.line,
        branch_id=place.branch_id,
        namespace=place.namespace,
        key=key,
        private_key=place.private_key(key),
    )
    return row and Held(**row)


async def put(  # noqa: PLR0913  (all but the place and the key by keyword)
    conn: Connection,
    place: Place,
    key: str,
    *,
    value: Value,
    usage: Usage,
    visibility: str,
    base_revision: int,
    ttl_seconds: int | None,
) -> Written:
    """Write a record, for who holds the namespace's lock.

    Args:
        conn: Inside the transaction of the lock.
        place: The namespace.
        key: The record's.
        value: What to keep.
        usage: What the namespace holds with it; its revision becomes the record's.
        visibility: Of the overlay's record.
        base_revision: Of the record beneath the overlay that it is based on; kept from its first write on.
        ttl_seconds: Until nobody sees it any more; None: for ever.
    """
    labels = value.labels
    row = await _sql.put(
        conn,
        line=place.line,
        branch_id=place.branch_id,
        namespace=place.namespace,
        key=key,
        private_key=place.private_key(key),
        revision=usage.revision,
        entries=usage.entries,
        bytes=usage.bytes,
        visibility=visibility,
        content_hash=value.content_hash,
        body=value.body,
        raw=None if value.raw == value.body else value.raw,
        size=len(value.raw),
        media_type=value.media_type,
        base_revision=base_revision,
        ttl_seconds=ttl_seconds,
        topic=labels and labels.topic,
        tags=labels and list(labels.tags),
        occurred_at_ms=labels and labels.occurred_at_ms,
        text=labels and labels.text,
    )
    return Written(revision=usage.revision, **row)


async def remove(conn: Connection, place: Place, key: str, *, usage: Usage) -> None:
    """Take a record out, for who holds the namespace's lock; ``usage`` is what the namespace holds without it."""
    await _sql.remove(
        conn,
        line=place.line,
        branch_id=place.branch_id,
        namespace=place.namespace,
        key=key,
        private_key=place.private_key(key),
        entries=usage.entries,
        bytes=usage.bytes,
    )


async def get(conn: Connection, place: Place, key: str) -> KvRow | None:
    """A record, or None when it is absent, deleted or expired."""
    row = await _sql.get(
        conn,
        line=place.line,
        branch_id=place.branch_id,
        namespace=place.namespace,
        key=key,
        private_key=place.private_key(key),
    )
    return row and KvRow(**row)


async def page(conn: Connection, place: Place, *, prefix: str, after: str, limit: int) -> list[KvInfo]:
    """The records whose keys begin with a prefix, by key, beginning after one."""
    found = _sql.page(
        conn,
        line=place.line,
        branch_id=place.branch_id,
        namespace=place.namespace,
        prefix=prefix,
        until=_behind(prefix),
        after=after,
        low=place.low,
        limit=limit,
    )
    return await queries.rows(found, lambda row: KvInfo(**row))


def _behind(prefix: str) -> str | None:
    """The least text behind all that begin with a prefix, by code points; None: there is none."""
    while prefix and prefix[-1] == "\U0010ffff":
        prefix = prefix[:-1]
    if not prefix:
        return None
    last = ord(prefix[-1]) + 1
    return prefix[:-1] + chr(0xE000 if last == 0xD800 else last)  # no text has a surrogate
