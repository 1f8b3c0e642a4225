"""Sections of an envelope: what an agent writes down, item by item, and a little of what it wrote before.

A section has one content, or one for each date or instance: an item, of which the name is empty in the first case.
Every write here belongs to a transaction that holds the envelope's row (`envelopes.raised`, `envelopes.hold`), so what
a writer has read in it is still so when it writes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from anabranch.model.limits import LOOK_BYTES, LOOK_ITEMS, MEMORY_HISTORY, MEMORY_HISTORY_OF_REMOVED
from anabranch.store import queries

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection, Mapping, Sequence
    from datetime import datetime

    from anabranch.model.memory import AgentKey, MemoryVisibility
    from anabranch.store.database import Connection

_sql: Final = queries.load("sections")


@dataclass(frozen=True, slots=True, kw_only=True)
class SectionRow:
    """An item of a section.

    Attributes:
        instance: Whose; empty: of all the agent's.
        item: Empty, where the section has one content.
        revision: Of the envelope when it was written.
        body: Canonical JSON.
        size: Bytes of the body.
        content_hash: Of the body, 32 bytes.
        source: Who wrote it; empty: not said.
    """

    instance: str
    section: str
    item: str
    revision: int
    body: bytes
    size: int
    content_hash: bytes
    visibility: MemoryVisibility
    source: str
    updated_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class FormerRow(SectionRow):
    """What an item said before; attributes as `SectionRow` has them.

    Attributes:
        replaced_at: When it was overwritten or removed.
    """

    replaced_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class SectionState:
    """What an envelope has of an item; attributes as `SectionRow` has them."""

    revision: int
    content_hash: bytes
    visibility: MemoryVisibility
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NewContent:
    """What is to be written; attributes as `SectionRow` has them."""

    section: str
    item: str
    body: bytes
    content_hash: bytes
    visibility: MemoryVisibility


async def get(conn: Connection, key: AgentKey, *, section: str, item: str) -> SectionRow | None:
    """An item, or None if there is none."""
    row = await _sql.get(conn, **key.columns, section=section, item=item)
    return row and _from_row(row)


async def of_envelope(conn: Connection, key: AgentKey, *, section: str | None = None) -> list[SectionRow]:
    """The items of an envelope, or of one section of it, by section and item."""
    return await queries.rows(_sql.of_envelope(conn, **key.columns, section=section), _from_row)


async def of_siblings(
    conn: Connection, key: AgentKey, *, section: str, item: str | None
) -> tuple[list[SectionRow], int]:
    """What an agent's other instances let this one see of a section.

    Args:
        conn: A connection.
        key: Who looks.
        section: Its name.
        item: Only that one; None: any.

    Returns:
        As many items as one look gives, by instance and item, and how many there are.
    """
    found = _sql.of_siblings(conn, **key.columns, section=section, item=item, limit=LOOK_ITEMS, most_bytes=LOOK_BYTES)
    rows, total = await _counted(found)
    return [SectionRow(**row) for row in rows], total


async def states(conn: Connection, key: AgentKey) -> dict[tuple[str, str], SectionState]:
    """What an envelope has, by section and item."""
    return dict(
        await queries.rows(
            _sql.states(conn, **key.columns),
            lambda row: (
                (row["section"], row["item"]),
                SectionState(
                    revision=row["revision"],
                    content_hash=row["content_hash"],
                    visibility=_known(row["visibility"]),
                    size=row["size"],
                ),
            ),
        )
    )


async def write(
    conn: Connection, key: AgentKey, contents: Sequence[NewContent], *, revision: int, source: str
) -> list[SectionRow]:
    """Write items, for who holds the envelope. What they said before becomes history, if it was something else.

    Args:
        conn: Inside the transaction that holds the envelope.
        key: Whose envelope.
        contents: Each item once.
        revision: Of the envelope with this write.
        source: Who writes.
    """
    found = _sql.write(
        conn,
        **key.columns,
        revision=revision,
        source=source,
        sections=[content.section for content in contents],
        items=[content.item for content in contents],
        bodies=[content.body for content in contents],
        content_hashes=[content.content_hash for content in contents],
        visibilities=[content.visibility for content in contents],
    )
    written = await queries.rows(found, _from_row)
    await _trim(conn, key)
    return written


async def remove(conn: Connection, key: AgentKey, items: Collection[tuple[str, str]]) -> None:
    """Take items out, by section and item, for who holds the envelope. What they said becomes history."""
    sections, names = zip(*items, strict=True)
    await _sql.remove(conn, **key.columns, sections=list(sections), items=list(names))
    await _trim(conn, key)


async def forget(conn: Connection, key: AgentKey, *, section: str, item: str) -> None:
    """Take an item out, and all that it said before, for who holds the envelope."""
    await _sql.forget(conn, **key.columns, section=section, item=item)


async def history(conn: Connection, key: AgentKey, *, section: str, item: str | None) -> tuple[list[FormerRow], int]:
    """What a section, or an item of it, said before.

    Returns:
        As much as one look gives, newest first, and how much there is.
    """
    found = _sql.history(conn, **key.columns, section=section, item=item, limit=LOOK_ITEMS, most_bytes=LOOK_BYTES)
    rows, total = await _counted(found)
    return [FormerRow(**row) for row in rows], total


async def _trim(conn: Connection, key: AgentKey) -> None:
    await _sql.trim(conn, **key.columns, keep=MEMORY_HISTORY, keep_removed=MEMORY_HISTORY_OF_REMOVED)


def _known(visibility: str | None) -> MemoryVisibility:
    """A visibility as this program knows it. What a newer one wrote, or nobody, is private."""
    return "instances" if visibility == "instances" else "private"


def _from_row(row: Mapping[str, Any]) -> SectionRow:
    return SectionRow(**_columns(row))


async def _counted(found: AsyncIterator[Any]) -> tuple[list[dict[str, Any]], int]:
    """The columns of rows that each say how many there are in all, and that number."""
    rows = await queries.rows(found, _columns)
    return rows, max((row.pop("total") for row in rows), default=0)


def _columns(row: Mapping[str, Any]) -> dict[str, Any]:
    return dict(row) | {"visibility": _known(row["visibility"])}
