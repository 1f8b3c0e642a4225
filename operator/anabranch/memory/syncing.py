"""Sync: a runtime brings what it has of an agent's memory, and what is the same already costs nothing.

A runtime syncs whenever a session ends, so most syncs bring what is there. The same sync on the same day changes
nothing, unless something was written in between. What the platform notes for the agent is no such write, and no sync
touches it.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from anabranch.memory import writable
from anabranch.model.canonical import canonical_bytes, sha256
from anabranch.model.errors import InvalidInputError
from anabranch.model.memory import MemorySynced
from anabranch.store import envelopes, sections
from anabranch.telemetry import tracing

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import date

    from anabranch.model.memory import AgentKey, MemorySync
    from anabranch.store.database import Connection, Database
    from anabranch.store.envelopes import HeldEnvelope
    from anabranch.store.sections import NewContent, SectionState


async def sync(db: Database, who: AgentKey, body: MemorySync) -> MemorySynced:
    """Bring an instance's memory to what a runtime has of it.

    Args:
        db: The store.
        who: Whose memory it is, and who syncs.
        body: ``full`` removes what is not given, but for the section that all instances share; ``patch`` removes
            nothing.

    Raises:
        SectionNotWritableError: If a section is given that the platform alone writes.
        InvalidInputError: If a section, an item or a content is none that can be kept, or one is given twice.
        TooLargeError: If a content is larger than 256 KiB.
        QuotaExceededError: If the memory would be larger than 4 MiB, or have more than 1,000 items.
    """
    given = await asyncio.to_thread(_contents, body)
    own = [content for content in given if content.section != writable.SHARED]
    shared = [content for content in given if content.section == writable.SHARED]

    async def work(conn: Connection) -> MemorySynced:
        of_all = await envelopes.hold(conn, who.whole) if shared else None
        held = await envelopes.hold(conn, who)
        key = _key(held.today, body, given)
        if held.last_sync_key == key and held.last_sync_shared_revision == (of_all and of_all.revision):
            return MemorySynced(deduplicated=True, revision=str(held.revision), written=0, removed=0)
        written, removed = await _write_own(conn, who, held, own, body)
        changed = written + removed > 0
        shared_written, shared_revision = 0, None
        if of_all is not None:
            shared_written, shared_revision = await _write_shared(conn, who, of_all, shared, body)
        revision = held.revision + changed
        await envelopes.note_sync(conn, who, revision=revision, sync_key=key, shared_revision=shared_revision)
        return MemorySynced(
            deduplicated=False, revision=str(revision), written=written + shared_written, removed=removed
        )

    with tracing.span("sync memory") as span:
        synced = await db.run(work)
        span.set(deduplicated=synced.deduplicated, written=synced.written, removed=synced.removed)
    return synced


async def _write_own(
    conn: Connection, who: AgentKey, held: HeldEnvelope, own: Sequence[NewContent], body: MemorySync
) -> tuple[int, int]:
    """Write what is other than before; how many items were written, and how many removed."""
    have = await sections.states(conn, who)
    changed = _changed(have, own)
    removed = have.keys() - {(content.section, content.item) for content in own} if body.mode == "full" else set()
    writable.check_room(have, written=changed, removed=removed)
    if removed:
        await sections.remove(conn, who, sorted(removed))
    if changed:
        await sections.write(conn, who, changed, revision=held.revision + 1, source=body.runtime)
    return len(changed), len(removed)


async def _write_shared(
    conn: Connection, who: AgentKey, held: HeldEnvelope, shared: Sequence[NewContent], body: MemorySync
) -> tuple[int, int]:
    """Write what all instances share, if it is other than before; how many items, and its envelope's revision."""
    changed = _changed(await sections.states(conn, who.whole), shared)
    if not changed:
        return 0, held.revision
    revision = await envelopes.raised(conn, who.whole)
    await sections.write(conn, who.whole, changed, revision=revision, source=body.runtime)
    return len(changed), revision


def _changed(have: Mapping[tuple[str, str], SectionState], given: Sequence[NewContent]) -> list[NewContent]:
    """What says something else than is there, or to others."""

    def same(content: NewContent) -> bool:
        state = have.get((content.section, content.item))
        return state is not None and (state.content_hash, state.visibility) == (
            content.content_hash,
            content.visibility,
        )

    return [content for content in given if not same(content)]


def _contents(body: MemorySync) -> list[NewContent]:
    """What a sync brings, in the form in which it is kept.

    Raises:
        InvalidInputError: As `sync`, and so do the others.
    """
    given: dict[tuple[str, str], NewContent] = {}
    for number, each in enumerate(body.sections):
        content = writable.content(
            each.section,
            each.item,
            content=each.content,
            visibility=each.visibility,
            field=f"sections[{number}].content",
        )
        place = (content.section, content.item)
        if place in given:
            raise InvalidInputError(
                f"sections[{number}] is {'/'.join(filter(None, place))} a second time.", hint="Give each item once."
            )
        given[place] = content
    return list(given.values())


def _key(today: date, body: MemorySync, given: Sequence[NewContent]) -> bytes:
    """What names a sync: its day, its runtime, and all that it says, in whatever order."""
    said = sorted([each.section, each.item, each.visibility, each.content_hash.hex()] for each in given)
    return sha256(canonical_bytes([today.isoformat(), body.runtime, body.mode, said]))
