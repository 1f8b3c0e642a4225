"""Manifests: the numbered, immutable states of a line.

A generation that is absent either never was or was pruned; these are different answers (404 and 410), and which it is
follows from the head.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Final

from anabranch.model.errors import AnabranchError, GoneError, NotFoundError
from anabranch.model.ids import BaselineId, LineId, is_id
from anabranch.store import queries

if TYPE_CHECKING:
    from collections.abc import Collection
    from datetime import datetime

    from anabranch.store.database import Connection

_sql: Final = queries.load("manifests")

_NUMBER: Final = re.compile(r"0|[1-9][0-9]{0,17}")
_AFTER_ALL: Final = (1 << 63) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestRow:
    """One state of a line.

    Attributes:
        line: The line.
        generation: Its number, from 1.
        baseline_id: Its own id.
        schema_version: Of the record descriptors.
        parent_generation: The one before it; 0 for the first.
        manifest_hash: Root of the trie, 32 bytes.
        records: Live records; tombstones are not counted.
        revision: The line's revision that it brought.
        origin: What made it: ``{kind: import | publication | restore, …}`` (JSON).
        feed_watermark: Sequence of its last event.
        created_at: When it was committed, nearly.
    """

    line: LineId
    generation: int
    baseline_id: BaselineId
    schema_version: int
    parent_generation: int
    manifest_hash: bytes
    records: int
    revision: int
    origin: dict[str, Any]
    feed_watermark: int
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestName:
    """What names a manifest, whether it is still there or not.

    Attributes:
        generation: Its number.
        baseline_id: Its own id.
        manifest_hash: Root of the trie, 32 bytes.
        revision: The line's revision that it brought.
    """

    generation: int
    baseline_id: BaselineId
    manifest_hash: bytes
    revision: int


async def get(conn: Connection, *, line: str, generation: int) -> ManifestRow | None:
    """The manifest of a generation, or None."""
    row = await _sql.get(conn, line=line, generation=generation)
    return None if row is None else from_row(row)


async def named(conn: Connection, *, line: str, generation: int) -> ManifestName | None:
    """What a manifest is or was called; None when there never was one, or so long ago that nobody remembers."""
    row = await _sql.named(conn, line=line, generation=generation)
    return None if row is None else ManifestName(**row)


async def hold(conn: Connection, *, line: str, generation: int) -> ManifestRow | None:
    """The manifest of a generation, or None; it cannot be pruned until the transaction ends."""
    row = await _sql.hold(conn, line=line, generation=generation)
    return None if row is None else from_row(row)


async def by_baseline_id(conn: Connection, *, line: str, baseline_id: str) -> ManifestRow | None:
    """The manifest with an id, or None."""
    row = await _sql.by_baseline_id(conn, line=line, baseline_id=baseline_id)
    return None if row is None else from_row(row)


async def standing(conn: Connection, *, line: str, generation: int) -> BaselineId | None:
    """The id of a generation's manifest; None where it was pruned or never was, or the line has no Baseline."""
    baseline_id: BaselineId | None = await _sql.standing(conn, line=line, generation=generation)
    return baseline_id


async def has(conn: Connection, *, line: str, baseline_ids: Collection[str]) -> bool:
    """Whether all of some manifests, each named once, are here."""
    return bool(await _sql.has(conn, line=line, baseline_ids=list(baseline_ids)))


async def resolve(conn: Connection, *, line: str, ref: str | int) -> ManifestRow:
    """The manifest that a reference names.

    Args:
        conn: A connection.
        line: The line.
        ref: ``current``, ``head``, a generation (as number or decimal text), or a baseline id.

    Raises:
        GoneError: If the generation was pruned.
        NotFoundError: If there never was such a manifest.
    """
    if isinstance(ref, str) and is_id("bl", ref):
        if (found := await by_baseline_id(conn, line=line, baseline_id=ref)) is not None:
            return found
        if (generation := await _sql.pruned(conn, line=line, baseline_id=ref)) is not None:
            raise missing(generation, head_generation=generation)
        raise NotFoundError(f"There is no manifest {ref}.", hint="List the baseline's manifests.")
    named = ref in ("current", "head")
    if not named and not is_number(str(ref)):
        raise NotFoundError(
            f"{str(ref)[:80]!r} names no manifest.", hint="Use current, head, a generation or a baseline id."
        )
    row = await _sql.at(conn, line=line, ref=str(ref) if named else "", generation=None if named else int(ref))
    if row is None:
        raise NotFoundError(f"There is no line {line!r}.", hint="Check the id.")
    if row["generation"] is None:
        raise missing(row["wanted_generation"], head_generation=row["head_generation"])
    return from_row(row)


def is_number(text: str) -> bool:
    """Whether a text is a number that a generation may have, written in the one way: ``01`` is none."""
    return _NUMBER.fullmatch(text) is not None


async def page(conn: Connection, *, line: str, before: int | None = None, limit: int) -> list[ManifestRow]:
    """Retained manifests older than ``before``, newest first.

    Args:
        conn: A connection.
        line: The line.
        before: A generation; None begins with the newest.
        limit: How many at most.
    """
    before = _AFTER_ALL if before is None else before
    return await queries.rows(_sql.page(conn, line=line, before=before, limit=limit), from_row)


async def history(conn: Connection, line: str, limit: int) -> list[ManifestRow]:
    """The newest manifests, newest first."""
    return await page(conn, line=line, limit=limit)


def missing(generation: int, *, head_generation: int) -> AnabranchError:
    """The error for a generation that has no manifest: whether it was pruned or never was.

    Args:
        generation: The one that was asked for.
        head_generation: The newest one of the line; 0 if it has none.
    """
    if head_generation == 0:
        return NotFoundError("The baseline has no manifest yet.", hint="Wait until its import is done.")
    if 0 < generation <= head_generation:
        return GoneError(
            f"Generation {generation} was removed by retention.", hint="Use current, or list the retained manifests."
        )
    return NotFoundError(
        f"There is no generation {generation}; the newest is {head_generation}.", hint="List the baseline's manifests."
    )


FIELDS: Final = tuple(field.name for field in fields(ManifestRow))
"""Columns of a manifest."""


def from_row(row: Any) -> ManifestRow:
    """A manifest of a row that has all its columns."""
    return ManifestRow(**{name: row[name] for name in FIELDS})
