"""What a run's agent sees of a record: what its parent says, what it has taken over since, and what it knows itself.

Three layers lie over each other: the parent manifest, the updates that the agent has followed, and the private overlay.
The middle one shows a record as it was current at the place in the feed that the run has saved, and only where that
differs from the parent. It lies over the parent for a run that applies what it follows, and beside it for one that
holds: there the agent may look at it, and its view stays.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from anabranch.domain.facts import Fact
from anabranch.feed.expiry import CursorExpiredError
from anabranch.model.answers import ViewedRecord
from anabranch.model.canonical import content_hash, hash_text
from anabranch.model.errors import GoneError, NotFoundError
from anabranch.model.stored import with_content
from anabranch.store import followers, private, records

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anabranch.model.wire import Layer
    from anabranch.store.branches import BranchRow
    from anabranch.store.database import Connection, Database
    from anabranch.store.private import PrivateRow
    from anabranch.store.records import RecordRow


@dataclass(frozen=True, slots=True)
class _Taken:
    """What a run has taken over of a key: another version than the parent's, or that there is none any more."""

    record: RecordRow | None


async def view(db: Database, branch: BranchRow, key: str, *, layer: Layer, scopes: Sequence[str]) -> bytes:
    """A record as the branch sees it, a `ViewedRecord` in JSON.

    Args:
        db: The store.
        branch: The branch.
        key: The record's key.
        layer: ``base``: the parent manifest. ``shared``: what the followed updates say otherwise. ``private``: the
            overlay. ``merged``: all of them, the latter ones over the former.
        scopes: Those that the agent may read now, for what comes from the Baseline.

    Raises:
        NotFoundError: If the layer has none, or none in these scopes.
        GoneError: If the manifest that it would be read from was pruned.
    """
    async with db.connection() as conn:
        if layer in ("private", "merged"):
            own = await private.get(conn, line=branch.line, branch_id=branch.branch_id, key=key)
            if own is not None:
                return _own(own)
        if layer == "shared" or (layer == "merged" and branch.follow == "Apply"):
            base, taken = await _followed(conn, branch, key, scopes)
            if taken is not None:
                return _shared(key, taken.record, base)
            found = base if layer == "merged" else None
        else:
            found = None if layer == "private" else await _base_of(conn, branch, key, scopes)
    if found is not None:
        return _wire("base", key, found)
    raise NotFoundError(
        f"The branch has no record {key!r} in the layer {layer}, or you may not read it.",
        hint="Check the key, or ask for `read` on its scope.",
    )


async def beneath(conn: Connection, branch: BranchRow, key: str, *, scopes: Sequence[str]) -> int:
    """The revision that the agent sees of a key beneath its own overlay; 0 for none: what it writes is based on that.

    Args:
        conn: A connection.
        branch: The branch.
        key: The record's key.
        scopes: Those that the agent may read now.

    Raises:
        GoneError: If the parent manifest was pruned, as it may be once the run is over.
    """
    record = await _base_of(conn, branch, key, scopes)
    if branch.follow == "Apply":
        # Where nobody knows any more what was taken over, the parent's is the older one: that can only find conflicts.
        with contextlib.suppress(GoneError):
            _, taken = await _followed(conn, branch, key, scopes)
            record = record if taken is None else taken.record
    return 0 if record is None else record.revision


async def _followed(
    conn: Connection, branch: BranchRow, key: str, scopes: Sequence[str]
) -> tuple[RecordRow | None, _Taken | None]:
    """What the parent says of a key, and what the run has taken over otherwise."""
    base = await _base_of(conn, branch, key, scopes)
    shown = await followers.shown_of(conn, line=branch.line, branch_id=branch.branch_id, key=key)
    if shown is None or shown.generation == shown.parent_generation:
        return base, None
    if shown.expired or shown.generation is None:
        raise CursorExpiredError(
            "Nobody knows any more what was current at the place that the run has saved.",
            hint="Follow the feed, and save the place that it leads to.",
        )
    _, record = await records.read(conn, line=branch.line, generation=shown.generation, key=key, scopes=scopes)
    same = (base and base.revision) == (record and record.revision)
    return base, None if same else _Taken(record)


async def _base_of(conn: Connection, branch: BranchRow, key: str, scopes: Sequence[str]) -> RecordRow | None:
    _, record = await records.read(conn, line=branch.line, generation=branch.parent_generation, key=key, scopes=scopes)
    return record


def _own(row: PrivateRow) -> bytes:
    record = ViewedRecord.model_construct(
        layer="private",
        key=row.key,
        revision=str(row.revision),
        scope=row.scope,
        visibility=row.visibility,
        content=None,
        content_hash=hash_text(row.content_hash),
        base_revision=str(row.base_revision),
        tombstone=False,
        state="claim",
        source_locators=(),
        retracted_sources=(),
        validated_at=None,
    )
    return with_content(record, row.body)


def _shared(key: str, record: RecordRow | None, base: RecordRow | None) -> bytes:
    """What was taken over; a record that a rollback or a restore has taken away shows as deleted, at no revision."""
    if record is not None:
        return _wire("shared", key, record)
    gone = ViewedRecord.model_construct(
        layer="shared",
        key=key,
        revision="0",
        scope=base.scope if base is not None else "shared",
        visibility="shareable",
        content=None,
        content_hash=content_hash(None),
        base_revision="0",
        tombstone=True,
        state="reviewed",
        source_locators=(),
        retracted_sources=(),
        validated_at=None,
    )
    return gone.model_dump_json().encode()


def _wire(layer: Literal["base", "shared"], key: str, row: RecordRow) -> bytes:
    origin = Fact() if row.fact_body is None else Fact.parse(row.fact_body)
    record = ViewedRecord.model_construct(
        layer=layer,
        key=key,
        revision=str(row.revision),
        scope=row.scope,
        visibility="shareable",
        content=None,
        content_hash=hash_text(row.content_hash),
        base_revision=str(row.revision),
        tombstone=row.tombstone,
        state=origin.state,
        source_locators=origin.source_locators,
        retracted_sources=origin.retracted_sources,
        validated_at=origin.validated_at,
    )
    return with_content(record, row.body or b"null")
