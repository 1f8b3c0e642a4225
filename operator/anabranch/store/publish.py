"""Writes a new generation: versions, nodes, manifest, events and head, in one transaction under the head's lock.

The lock is held for a few milliseconds, so what can be computed before is: `prepare` fetches the trie's nodes and
hashes the new ones against the head that it saw, and `write_generation` refuses (`HeadMovedError`) when another
publication came in between. The caller then prepares again. Nothing here decides what is published.

Thousands of changes take a second to write alone. `write_ahead` does that before the lock, so that a rollback does not
wait for it, and keeps other publications out instead, as a restore does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from anabranch.model.errors import ConflictError, GoneError, NotReadyError, TooLargeError, UnavailableError
from anabranch.model.ids import new_baseline_id
from anabranch.model.limits import LINE_RECORDS
from anabranch.store import lines, manifests, queries, trie, versions
from anabranch.store.events import EventKind, NewEvent
from anabranch.store.events import append as append_events
from anabranch.store.versions import NewVersion

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from anabranch.domain.trie import TrieDelta
    from anabranch.store.database import Connection
    from anabranch.store.lines import HeadRow
    from anabranch.store.manifests import ManifestRow

__all__ = [
    "EventKind",
    "HeadMovedError",
    "NewEvent",
    "NewVersion",
    "Prepared",
    "RestoreUnderWayError",
    "check_head",
    "enter",
    "move_current",
    "prepare",
    "seal",
    "write_ahead",
    "write_generation",
]

_sql: Final = queries.load("publish")


class HeadMovedError(ConflictError):
    """Another generation came in between; prepare again and retry."""

    code = "HeadMoved"


class RestoreUnderWayError(UnavailableError):
    """A restore, or a large publication, writes the line's records just now."""

    code = "RestoreUnderWay"


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A generation that only needs the lock.

    Attributes:
        parent: The manifest that it goes on from.
        revision: The revision that it brings.
        versions: Its new versions.
        delta: The change of the trie.
    """

    parent: ManifestRow
    revision: int
    versions: Sequence[NewVersion]
    delta: TrieDelta


async def prepare(conn: Connection, *, head: HeadRow, versions: Sequence[NewVersion]) -> Prepared:
    """Do what the next generation needs before its lock.

    Args:
        conn: A connection; no lock is needed, nothing is written.
        head: The head as it was read when the versions were decided on.
        versions: New versions, one a key.

    Raises:
        ConflictError: If two versions are for one key.
        NotReadyError: If the line has no manifest yet.
        HeadMovedError: If others have published so much since that the head which was read is pruned.
    """
    if not head.head_generation:
        raise NotReadyError("The baseline has no manifest yet.", hint="Wait until its import is done.")
    revision = head.revision + 1
    changes = dict(version.pair(revision) for version in versions)
    if len(changes) != len(versions):
        raise ConflictError("Two new versions are for one key.", hint="Publish one of them.")
    try:
        parent = await manifests.resolve(conn, line=head.line, ref=head.head_generation)
        delta = await trie.plan(conn, manifest=parent, changes=changes)
    except GoneError:
        raise HeadMovedError(
            f"Generation {head.head_generation} is not the head any more, and pruned.", hint="Prepare again and retry."
        ) from None
    return Prepared(parent=parent, revision=revision, versions=versions, delta=delta)


async def write_ahead(conn: Connection, *, prepared: Prepared) -> int:
    """Write the records of a prepared generation before the head's lock; others are kept from publishing meanwhile.

    Args:
        conn: Inside the transaction that is going to call `write_generation`.
        prepared: What `prepare` gave.

    Returns:
        How many live records there are more.

    Raises:
        HeadMovedError: If the head is not the one that was prepared for; nothing was written.
        UnavailableError: If the content of a version is not stored, or others publish for too long.
    """
    line = prepared.parent.line
    await _sql.keep_others_out(conn, line=line)
    # Nobody moves it on any more: what it is now, it is going to be under its lock.
    check_head(await lines.head(conn, line), parent=prepared.parent, revision=prepared.revision)
    return await _write_records(conn, prepared)


async def _write_records(conn: Connection, prepared: Prepared) -> int:
    """Write versions and nodes; how many live records there are more."""
    line, generation = prepared.parent.line, prepared.parent.generation + 1
    live = await versions.write(
        conn, line=line, generation=generation, revision=prepared.revision, new=prepared.versions
    )
    await versions.write_nodes(conn, line=line, generation=generation, delta=prepared.delta)
    return live


async def write_generation(  # noqa: PLR0913  (a generation has that many parts)
    conn: Connection,
    *,
    head: HeadRow,
    prepared: Prepared,
    events: Sequence[NewEvent],
    origin: Mapping[str, Any],
    ahead: int | None = None,
) -> ManifestRow:
    """Write a prepared generation and make it the head; current too, unless another generation is pinned.

    Args:
        conn: Inside the transaction that took ``head`` by `lines.lock_head`.
        head: The locked head.
        prepared: What `prepare` gave.
        events: The feed's entries for it, in order.
        origin: What made it: ``{kind: import | publication | restore, …}`` (JSON).
        ahead: What `write_ahead` gave, where it was called before the lock.

    Raises:
        HeadMovedError: If the head is not the one that was prepared for; nothing was written.
        TooLargeError: If the line would have too many records or scopes.
        UnavailableError: If the content of a version is not stored, or a restore is being written.
    """
    await enter(conn, head=head, parent=prepared.parent, revision=prepared.revision)
    live = await _write_records(conn, prepared) if ahead is None else ahead
    await lines.add_scopes(conn, line=head.line, scopes={version.scope for version in prepared.versions})
    return await seal(
        conn,
        head=head,
        root=prepared.delta.root,
        records=prepared.parent.records + live,
        events=events,
        origin=origin,
    )


def check_head(head: HeadRow, *, parent: ManifestRow, revision: int) -> None:
    """Check that a head is still the one that a generation was prepared for.

    Raises:
        HeadMovedError: If it is not.
    """
    if (head.head_generation, head.revision + 1) != (parent.generation, revision):
        raise HeadMovedError(
            f"Generation {head.head_generation} came after {parent.generation}.", hint="Prepare again and retry."
        )


async def enter(conn: Connection, *, head: HeadRow, parent: ManifestRow, revision: int) -> None:
    """Begin to write a generation: check the head, and keep restores out until the transaction ends.

    A restore writes before it takes the head's lock, so the lock does not keep it away from the same rows; so does a
    large publication. Whoever holds the lock must not wait for them: it is told to come back.

    Args:
        conn: Inside the transaction that took ``head`` by `lines.lock_head`.
        head: The locked head.
        parent: The manifest that the generation was prepared to follow.
        revision: The revision that it was prepared to bring.

    Raises:
        HeadMovedError: If the head is another one.
        RestoreUnderWayError: If a restore is being written.
    """
    check_head(head, parent=parent, revision=revision)
    if not await _sql.enter(conn, line=head.line):
        raise RestoreUnderWayError(
            "A restore, or a large publication, of the baseline is being written.", hint="Try again in a moment."
        )


async def seal(  # noqa: PLR0913  (a generation has that many parts)
    conn: Connection,
    *,
    head: HeadRow,
    root: bytes,
    records: int,
    events: Sequence[NewEvent],
    origin: Mapping[str, Any],
) -> ManifestRow:
    """Write the manifest over versions and nodes that are written already, its events, and move the head.

    Args:
        conn: Inside the transaction that holds the head's lock.
        head: The locked head.
        root: The trie's new root hash.
        records: Live records.
        events: As in `write_generation`.
        origin: As in `write_generation`.

    Raises:
        TooLargeError: If there are too many records.
    """
    if records > LINE_RECORDS:
        raise TooLargeError(
            f"The line would have {records:,} records; {LINE_RECORDS:,} are the limit.",
            hint="Split the baseline, or delete records first.",
        )
    line, generation, revision = head.line, head.head_generation + 1, head.revision + 1
    sequence = head.event_sequence + len(events)
    row = await _sql.add_manifest(
        conn,
        line=line,
        generation=generation,
        baseline_id=new_baseline_id(line),
        parent_generation=head.head_generation,
        manifest_hash=root,
        records=records,
        revision=revision,
        origin=dict(origin),
        feed_watermark=sequence,
    )
    manifest = manifests.from_row(row)
    await append_events(conn, head=head, events=events, manifest=manifest, revision=revision)
    await _sql.advance_head(conn, line=line, generation=generation, revision=revision, event_sequence=sequence)
    await lines.touch(conn, line)
    return manifest


async def move_current(
    conn: Connection,
    *,
    head: HeadRow,
    to_generation: int,
    kind: Literal["rollback", "resumed"],
    pinned_generation: int | None,
) -> ManifestRow:
    """Let readers see another generation, and tell the feed by one event; the head stays.

    Args:
        conn: Inside the transaction that took ``head`` by `lines.lock_head`.
        head: The locked head.
        to_generation: What becomes current.
        kind: The event: ``rollback`` for a pin, ``resumed`` when it is taken away.
        pinned_generation: The pin from now on; None for none.

    Raises:
        GoneError: If the generation was pruned.
        NotFoundError: If there never was such a generation.
    """
    manifest = await manifests.hold(conn, line=head.line, generation=to_generation)
    if manifest is None:
        raise manifests.missing(to_generation, head_generation=head.head_generation)
    await append_events(conn, head=head, events=[NewEvent(kind=kind)], manifest=manifest, revision=None)
    await _sql.move_current(
        conn,
        line=head.line,
        generation=to_generation,
        pinned_generation=pinned_generation,
        event_sequence=head.event_sequence + 1,
    )
    await lines.touch(conn, head.line)
    return manifest
