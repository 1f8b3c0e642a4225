"""Envelopes: an agent reads what it remembers, and writes it section by section.

Who calls is known to be the agent: these functions are about its own memory, and there are none for anybody else's.
"""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, TypeVar

from anabranch.memory import writable
from anabranch.model.canonical import hash_text
from anabranch.model.errors import NotFoundError, PreconditionFailedError
from anabranch.model.limits import IN_LOOP_BYTES
from anabranch.model.memory import (
    ITEMIZED,
    SYSTEM_EXCHANGES,
    WRITABLE,
    FormerContent,
    MemoryEnvelope,
    MemorySection,
    MemorySections,
    SectionHistory,
    SystemExchange,
    SystemExchanges,
)
from anabranch.store import envelopes, exchanges, sections
from anabranch.store.sections import SectionRow
from anabranch.telemetry import tracing

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from anabranch.model.memory import AgentKey, PutSection
    from anabranch.store.database import Connection, Database
    from anabranch.store.exchanges import ExchangeRow
    from anabranch.store.sections import FormerRow, SectionState

_Row = TypeVar("_Row", bound=SectionRow)
_Made = TypeVar("_Made")


async def read(db: Database, who: AgentKey) -> MemoryEnvelope:
    """All that an instance remembers, at one moment. Nothing counts as seen by it."""
    async with db.transaction(readonly=True, isolation="repeatable_read") as conn:
        envelope = await envelopes.get(conn, who)
        own = await sections.of_envelope(conn, who)
        shared = await sections.of_envelope(conn, who.whole)
        noted = await exchanges.of_envelope(conn, who)
    written = await _made(_section, [*shared, *own])
    return MemoryEnvelope(
        agent_id=who.agent_id,
        instance=who.instance,
        revision=str(envelope.revision),
        last_seen_revision=str(envelope.last_seen_revision),
        sections=written,
        system_exchanges=_exchanges(envelope.revision, noted),
    )


async def read_section(  # noqa: PLR0913  (all but the store and the agent by keyword)
    db: Database,
    who: AgentKey,
    *,
    section: str,
    item: str | None = None,
    siblings: bool = False,
    shown: bool = True,
) -> MemorySection | MemorySections | SystemExchanges:
    """A section of an instance's memory.

    Reading ``system_exchanges`` marks what is read as seen.

    Args:
        db: The store.
        who: Who reads.
        section: Any that there is.
        item: Of ``daily`` and ``relationships``; None: all of the section.
        siblings: What the agent's other instances let it see of the section, instead of its own.
        shown: Whether what is read reaches the agent; else nothing is marked.

    Raises:
        InvalidInputError: If there is no such section, or it has no such items.
        NotFoundError: If nothing was written to it.
    """
    if section == SYSTEM_EXCHANGES:
        if item or siblings:
            raise writable.unknown(f"{section}/{item or 'siblings'}")
        return await _read_exchanges(db, who, shown=shown)
    if section not in WRITABLE:
        raise writable.unknown(section)
    name = writable.item_of(section, item, needed=False)
    several = section in ITEMIZED and not name
    async with db.connection() as conn:
        if siblings:
            rows, total = await sections.of_siblings(conn, who, section=section, item=name or None)
            return MemorySections(section=section, items=await _made(_section, rows), omitted=total - len(rows))
        if several:
            rows = await sections.of_envelope(conn, who, section=section)
            return MemorySections(section=section, items=await _made(_section, rows))
        row = await sections.get(conn, writable.envelope_of(who, section), section=section, item=name)
    if row is None:
        raise _absent(section, name)
    return _section(row)


async def history(db: Database, who: AgentKey, *, section: str, item: str | None = None) -> SectionHistory:
    """What a section, or an item of it, said before it was overwritten or left out of a sync; newest first.

    Raises:
        InvalidInputError: If there is no such section that agents write, or it has no such items.
    """
    if section not in WRITABLE:
        raise writable.unknown(section)
    name = writable.item_of(section, item, needed=False)
    async with db.connection() as conn:
        rows, total = await sections.history(
            conn, writable.envelope_of(who, section), section=section, item=name or None
        )
    former = await _made(_former, rows)
    return SectionHistory(section=section, former=former, omitted=total - len(rows))


async def put(  # noqa: PLR0913  (all but the store and the agent by keyword)
    db: Database, who: AgentKey, *, section: str, item: str | None, body: PutSection, expected: int | None
) -> MemorySection:
    """Write a section, or an item of it.

    Args:
        db: The store.
        who: Whose memory it is, and who writes.
        section: One that agents write.
        item: Of ``daily`` and ``relationships``.
        body: What to write.
        expected: The revision that the agent saw; 0: it must be absent; None: whatever is there.

    Raises:
        SectionNotWritableError: If the platform alone writes the section.
        InvalidInputError: If section, item or content are none that can be kept.
        TooLargeError: If the content is larger than 256 KiB.
        PreconditionFailedError: If the item is not at the expected revision; ``revision`` is the one that it is at.
        QuotaExceededError: If the memory would be larger than 4 MiB, or have more than 1,000 items.
    """
    content = await asyncio.to_thread(writable.content, section, item, content=body.content, visibility=body.visibility)
    key = writable.envelope_of(who, section)

    async def work(conn: Connection) -> SectionRow:
        revision = await envelopes.raised(conn, key)
        have = await sections.states(conn, key)
        _check(expected, have.get((content.section, content.item)))
        writable.check_room(have, written=[content])
        (row,) = await sections.write(conn, key, [content], revision=revision, source=body.source)
        return row

    with tracing.span("write memory", section=section, bytes=len(content.body)):
        return _section(await db.run(work))


async def delete(db: Database, who: AgentKey, *, section: str, item: str | None, expected: int | None) -> int:
    """Forget a section, or an item of it, together with what it said before; the envelope's revision.

    Raises:
        SectionNotWritableError: If the platform alone writes the section.
        InvalidInputError: If there is no such section, or it has no such items.
        NotFoundError: If nothing was written to it.
        PreconditionFailedError: If the item is not at the expected revision.
    """
    writable.check_section(section)
    name = writable.item_of(section, item)
    key = writable.envelope_of(who, section)

    async def work(conn: Connection) -> int:
        revision = await envelopes.raised(conn, key)
        row = await sections.get(conn, key, section=section, item=name)
        if row is None:
            raise _absent(section, name)
        _check(expected, row)
        await sections.forget(conn, key, section=section, item=name)
        return revision

    with tracing.span("forget memory", section=section):
        return await db.run(work)


async def _read_exchanges(db: Database, who: AgentKey, *, shown: bool) -> SystemExchanges:
    async with db.connection() as conn:
        rows = await (exchanges.read if shown else exchanges.of_envelope)(conn, who)
        envelope = await envelopes.get(conn, who)
    return _exchanges(envelope.revision, rows)


def _check(expected: int | None, found: SectionRow | SectionState | None) -> None:
    at = 0 if found is None else found.revision
    if expected is None or expected == at:
        return
    wanted = "be absent" if expected == 0 else f"be at revision {expected}"
    raise PreconditionFailedError(
        f"The section should {wanted}, and {f'is at revision {at}' if at else 'is absent'}.",
        hint="Read it again, and repeat the change on what is there now.",
        revision=str(at),
    )


def _absent(section: str, item: str) -> NotFoundError:
    named = f"{section}/{item}" if item else section
    return NotFoundError(f"Nothing is written down in {named}.", hint="Read the envelope to see what there is.")


async def _made(make: Callable[[_Row], _Made], rows: Sequence[_Row]) -> tuple[_Made, ...]:
    """What rows are on the wire: beside the event loop, where they are so much that it would be held up."""
    if sum(row.size for row in rows) <= IN_LOOP_BYTES:
        return tuple(map(make, rows))
    return await asyncio.to_thread(lambda: tuple(map(make, rows)))


def _section(row: SectionRow) -> MemorySection:
    return MemorySection(
        section=row.section,
        item=row.item or None,
        instance=row.instance or None,
        content=json.loads(row.body),
        visibility=row.visibility,
        bytes=row.size,
        revision=str(row.revision),
        content_hash=hash_text(row.content_hash),
        source=row.source,
        updated_at=row.updated_at,
    )


def _former(row: FormerRow) -> FormerContent:
    return FormerContent(
        item=row.item or None,
        content=json.loads(row.body),
        visibility=row.visibility,
        bytes=row.size,
        revision=str(row.revision),
        content_hash=hash_text(row.content_hash),
        source=row.source,
        updated_at=row.updated_at,
        replaced_at=row.replaced_at,
    )


def _exchanges(revision: int, rows: Sequence[ExchangeRow]) -> SystemExchanges:
    return SystemExchanges(
        revision=str(revision),
        entries=tuple(
            SystemExchange(
                kind=row.kind,
                surface_pod_id=row.surface_pod_id,
                surface_label=row.surface_label,
                peers=row.peers,
                takeaway=row.takeaway,
                ts=row.ts,
                revision=str(row.revision),
                seen=row.seen,
            )
            for row in rows
        ),
    )
