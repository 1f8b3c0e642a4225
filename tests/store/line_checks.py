"""What must hold of a line after anything that was done to it, by its model."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import pytest
from tests.store import building
from tests.store.line_users import Follower

from anabranch.domain.facts import Fact
from anabranch.model.canonical import canonical_bytes
from anabranch.model.errors import GoneError, NotFoundError
from anabranch.store import lines, manifests, records, trie

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from tests.store.line_model import LineModel

    from anabranch.store.database import Database
    from anabranch.store.manifests import ManifestRow

IMPORT: Final = "the import"
"""The run that stands for the provenance of an imported record."""


async def check(db: Database, line: str, model: LineModel, *, changed: Iterable[int]) -> None:
    """The head, the manifests, and all records of the generations that a step made or may have changed."""
    async with db.connection() as conn:
        head = await lines.head(conn, line)
        found = {row.generation: row for row in await manifests.history(conn, line, 100_000)}
        twice = await conn.fetchval(_REVISIONS_TWICE, line)
    assert (head.head_generation, head.current_generation, head.previous_generation, head.pinned_generation) == (
        model.head, model.current, model.previous, model.pinned,
    )  # fmt: skip
    assert (head.revision, head.event_sequence, head.event_floor) == (
        model.revision, len(model.told), model.floor,
    )  # fmt: skip
    assert set(found) == model.retained
    assert all(row.revision == row.generation for row in found.values())
    assert twice == 0
    for generation in model.retained.intersection(changed):
        await _check_generation(db, line, model, found[generation])
    await _check_absent(db, line, model, {*sorted(model.pruned)[-2:], model.head + 1})


async def _check_generation(db: Database, line: str, model: LineModel, manifest: ManifestRow) -> None:
    """Every record, its provenance, and the root over them."""
    generation = manifest.generation
    async with db.transaction() as conn:
        page = await records.page(conn, line=line, generation=generation, limit=1_000, scopes=None, tombstones=True)
        team = await records.page(conn, line=line, generation=generation, limit=1_000, scopes=["team"])
        root = await trie.recompute_root(conn, line=line, generation=generation)
    expected = model.history[generation]
    assert {row.key: (row.revision, row.scope, row.body, row.fact_hash) for row in page.records} == {
        key: (
            entry.revision,
            entry.scope,
            canonical_bytes(entry.content) if entry.live else None,
            _fact(key, entry.run).hash,
        )
        for key, entry in expected.items()
    }
    live = model.live(generation)
    assert building.keys(team.records) == sorted(key for key, entry in live.items() if entry.scope == "team")
    assert manifest.records == len(live)
    assert manifest.manifest_hash == root


async def _check_absent(db: Database, line: str, model: LineModel, generations: Iterable[int]) -> None:
    """Whoever asks for a generation that is gone is told so, whatever they ask; and never gets a part of it."""
    for generation in generations:
        error = GoneError if generation in model.pruned else NotFoundError
        async with db.connection() as conn:
            at = {"line": line, "generation": generation}
            for asked in (
                records.page(conn, **at, limit=10, scopes=None),
                records.read(conn, **at, key="k00", scopes=None),
                records.current_of(conn, **at, keys=["k00"]),
                records.count(conn, **at, scopes=None),
                manifests.resolve(conn, line=line, ref=generation),
            ):
                with pytest.raises(error):
                    await asked


async def check_followers(db: Database, line: str, model: LineModel, followers: Collection[Follower]) -> None:
    """Each of them, wherever it is, and one that is new, ends with what is current."""
    current = {key: building.digest(entry.content) for key, entry in model.live(model.current).items()}
    for follower in [*followers, Follower(db, line)]:
        ahead = replace(follower, copy=dict(follower.copy))
        while await ahead.look(1_000):
            pass
        assert ahead.copy == current, f"a follower from {follower.cursor} on ends elsewhere"


def _fact(key: str, run: str | None) -> Fact:
    """The provenance that a run stands for."""
    if run == IMPORT:
        return Fact(source_locators=(f"import:{key}.md@sha256:{'0' * 64}",))
    return Fact(origin_runs=() if run is None else (run,))


_REVISIONS_TWICE: Final = """
    SELECT count(*) - count(DISTINCT (key, revision)) FROM record_versions WHERE line = $1
"""
