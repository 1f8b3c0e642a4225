"""Generations that no promise covers go with all that only they showed; what is kept stays as it was, bit for bit."""

from __future__ import annotations

import random
from datetime import timedelta

import pytest
from tests.store import building, retaining
from tests.store.branching import fork
from tests.store.building import version
from tests.store.retaining import LONG, NOW, generations, retain

from anabranch.model.errors import GoneError, NotFoundError
from anabranch.store import branches, diffs, events, lines, manifests, pruning, publish, records, restoring, trie

KEYS = 90


@pytest.fixture
async def line(db):
    line = await building.new_line(db)
    await building.import_records(db, line, {f"k{number}": number for number in range(KEYS)})
    return line


async def publish_some(db, line, count, *, seed=1):
    chance = random.Random(seed)
    for number in range(count):
        await building.publish_versions(db, line, *retaining.some_versions(chance, keys=KEYS, run=number))


async def test_the_newest_generations_are_kept_however_old_they_are(db, line):
    await publish_some(db, line, 9)
    async with db.connection() as conn:
        await retaining.set_back(conn, line, by=LONG)
    await retain(db, line, generations=4)
    assert await generations(db, line) == [7, 8, 9, 10]


async def test_a_generation_is_kept_for_its_age_after_another_took_its_place(db, line):
    await publish_some(db, line, 5)
    async with db.connection() as conn:
        await retaining.set_back(conn, line, by=timedelta(days=2))
        # Generation 4 was replaced a moment ago, however long it had been the head.
        await conn.execute("UPDATE manifests SET created_at = now() WHERE line = $1 AND generation >= 5", line)
    await retain(db, line, age=timedelta(days=1))
    assert await generations(db, line) == [4, 5, 6]
    async with db.connection() as conn:
        await retaining.set_back(conn, line, by=timedelta(days=2))
    await retain(db, line, age=timedelta(days=1))
    assert await generations(db, line) == [5, 6]  # previous and current


async def test_current_previous_and_pinned_stay(db, line):
    await publish_some(db, line, 6)
    await building.move(db, line, to=3, kind="rollback", pinned=3)
    await retain(db, line)
    assert await generations(db, line) == [3, 7]  # pinned and current; the head, which was current before

    await building.move(db, line, to=7, kind="resumed", pinned=None)
    await publish_some(db, line, 1)
    await retain(db, line)
    assert await generations(db, line) == [7, 8]


@pytest.mark.parametrize(
    ("end", "kept"),
    [
        ("SELECT 1", True),
        ("UPDATE branches SET phase = 'Stale'", True),
        ("UPDATE branches SET phase = 'Completed', finished_at = now()", False),
        ("UPDATE branches SET phase = 'Denied', finished_at = now()", False),
        ("UPDATE branches SET phase = 'Expired', finished_at = now()", False),
        ("UPDATE branches SET deleted_at = now()", False),
    ],
)
async def test_the_parent_of_a_live_run_stays_and_that_of_another_goes(db, line, end, kept):
    async with db.connection() as conn:
        branch = await fork(conn, line)
    await publish_some(db, line, 4)
    async with db.connection() as conn:
        await conn.execute(end)
    await retain(db, line, completed_runs=LONG)
    assert (1 in await generations(db, line)) is kept
    async with db.connection() as conn:
        found = await branches.get(conn, branch.branch_id)
    # What a run says of its parent does not depend on it.
    assert (found.parent_baseline_id, found.parent_manifest_hash) == (
        branch.parent_baseline_id,
        branch.parent_manifest_hash,
    )


async def test_a_run_whose_parent_is_gone_does_not_live_again(db, line):
    async with db.connection() as conn:
        branch = await fork(conn, line)
        await branches.set_phase(conn, line=line, branch_id=branch.branch_id, phase="Denied")
    await publish_some(db, line, 4)
    async with db.connection() as conn:
        assert await branches.set_phase(conn, line=line, branch_id=branch.branch_id, phase="Active")
        await branches.set_phase(conn, line=line, branch_id=branch.branch_id, phase="Denied")
    await retain(db, line, completed_runs=LONG)
    async with db.connection() as conn:
        assert not await branches.set_phase(conn, line=line, branch_id=branch.branch_id, phase="Active")
        assert await branches.set_phase(conn, line=line, branch_id=branch.branch_id, phase="Expired")


async def test_readers_of_what_is_gone_are_told_so_and_what_to_do(db, line):
    await publish_some(db, line, 4)
    async with db.connection() as conn:
        gone = await manifests.resolve(conn, line=line, ref=2)
    await retain(db, line)
    async with db.connection() as conn:
        for reading in (
            lambda: records.read(conn, line=line, generation=2, key="k1", scopes=None),
            lambda: records.page(conn, line=line, generation=2, limit=10, scopes=None),
            lambda: records.count(conn, line=line, generation=2, scopes=None),
            lambda: diffs.page(conn, line=line, from_generation=2, to_generation=5, limit=10, scopes=None),
            lambda: trie.prove(conn, line=line, generation=2, key="k1"),
            lambda: manifests.resolve(conn, line=line, ref="2"),
            lambda: manifests.resolve(conn, line=line, ref=gone.baseline_id),
            lambda: fork(conn, line, generation=2),
        ):
            with pytest.raises(GoneError) as error:
                await reading()
            assert error.value.detail.startswith("Generation 2 was ")
            assert "retained" in error.value.hint
        with pytest.raises(NotFoundError):
            await manifests.resolve(conn, line=line, ref=6)
        with pytest.raises(NotFoundError):
            await manifests.resolve(
                conn, line=line, ref=gone.baseline_id[:-1] + ("0" if gone.baseline_id[-1] != "0" else "1")
            )
        assert (await manifests.named(conn, line=line, generation=2)).baseline_id == gone.baseline_id


@pytest.mark.parametrize("seed", range(6))
async def test_what_is_kept_stays_as_it_was_and_nothing_else_is_left(db, line, seed):
    """Puts, deletions, restores, pins and runs at random; then prunes that leave other generations each time."""
    chance = random.Random(seed)
    for step in range(24):
        head = await retaining.head_of(db, line)
        match chance.choice(["publish", "publish", "publish", "restore", "pin", "unpin", "fork", "end", "retain"]):
            case "publish":
                await building.publish_versions(db, line, *retaining.some_versions(chance, keys=KEYS, run=step))
            case "restore":
                target = chance.choice(await generations(db, line))
                await restoring.restore(db, line=line, generation=target, restore_id=f"r{step}")
            case "pin":
                target = chance.choice(await generations(db, line))
                await building.move(db, line, to=target, kind="rollback", pinned=target)
            case "unpin":
                await building.move(db, line, to=head.head_generation, kind="resumed", pinned=None)
            case "fork":
                async with db.connection() as conn:
                    await fork(conn, line, name=f"run-{step}", generation=chance.choice(await generations(db, line)))
            case "end":
                async with db.connection() as conn:
                    await conn.execute("UPDATE branches SET phase = 'Completed' WHERE random() < 0.5")
            case _:
                await retain_and_compare(db, line, generations=chance.randint(1, 4))
    await retain_and_compare(db, line, generations=2)


async def retain_and_compare(db, line, **promised):
    contents = {generation: await building.snapshot(db, line, generation) for generation in await generations(db, line)}
    differing = await retaining.differences(db, line)
    await retain(db, line, **promised, completed_runs=LONG, tombstones=NOW)
    kept = await generations(db, line)
    assert {generation: await building.snapshot(db, line, generation) for generation in kept} == {
        generation: content for generation, content in contents.items() if generation in kept
    } | {generation: await building.snapshot(db, line, generation) for generation in kept if generation not in contents}
    now = await retaining.differences(db, line)
    assert {pair: now[pair] for pair in now if pair in differing} == {
        pair: rows for pair, rows in differing.items() if pair in now
    }
    await retaining.check(db, line)
    assert await retaining.rubbish(db, line) == {}


async def test_a_restore_to_before_a_deletion_brings_back_what_a_purge_has_taken_out(db, line):
    """The tombstone of a record that a kept generation shows must stay: the restore finds the record by it."""
    async with db.connection() as conn:
        await fork(conn, line, generation=1)
    await building.publish_versions(db, line, version("k1"))
    await publish_some(db, line, 3, seed=3)
    before = await building.snapshot(db, line, 1)
    await retain(db, line, tombstones=NOW)
    await publish_some(db, line, 3, seed=4)
    await retain(db, line, tombstones=NOW)
    await restoring.restore(db, line=line, generation=1, restore_id="back")
    assert await building.snapshot(db, line) == before
    await retaining.check(db, line)


async def test_a_generation_that_many_live_runs_hold_does_not_hide_the_others(db, line, monkeypatch):
    monkeypatch.setattr("anabranch.baselines.retention._GENERATIONS", 2)
    for number in range(4):
        async with db.connection() as conn:
            await fork(conn, line, name=f"run-{number}")
        await publish_some(db, line, 1, seed=number)
    await publish_some(db, line, 5)
    await retain(db, line)
    assert await generations(db, line) == [1, 2, 3, 4, 9, 10]
    assert await retaining.rubbish(db, line) == {}


async def test_content_that_a_finding_still_proposes_stays(db, line):
    await building.publish_versions(db, line, version("k1", "proposed again"), version("k2", "not"))
    async with db.connection() as conn:
        await conn.execute(
            """
            INSERT INTO candidates (line, candidate_id, job_id, origin_job, ordinal, author, op, key, scope, visibility,
                                    content_hash, base_revision, observed_at)
            VALUES ($1, 'c', 'j', 'j', 0, 'a', 'put', 'k3', 'shared', 'shareable', $2, 0, now())
            """,
            line,
            building.digest("proposed again"),
        )
    await building.publish_versions(db, line, version("k1", 1), version("k2", 2))
    await publish_some(db, line, 3)
    await retain(db, line)
    async with db.connection() as conn:
        stored = await conn.fetch("SELECT body FROM contents WHERE line = $1 AND body LIKE '%prop%'", line)
        assert [row["body"] for row in stored] == [b'"proposed again"']
        assert await conn.fetch("SELECT FROM contents WHERE line = $1 AND body = '\"not\"'", line) == []


async def test_the_status_is_written_again_only_when_a_manifest_that_it_lists_goes(db, line):
    async def version_of_status():
        async with db.connection() as conn:
            return (await lines.get(conn, line)).line.version

    await publish_some(db, line, 9)
    before = await version_of_status()
    await retain(db, line, generations=5)
    assert await generations(db, line) == [6, 7, 8, 9, 10]
    assert await version_of_status() == before
    await retain(db, line, generations=3)
    assert await version_of_status() == before + 1


async def test_what_a_removed_manifest_was_called_is_forgotten_in_the_end(db, line):
    await publish_some(db, line, 3)
    await retain(db, line, tombstones=timedelta(days=100))
    async with db.connection() as conn:
        await retaining.set_back(conn, line, by=timedelta(days=99))
    await retain(db, line, tombstones=timedelta(days=100))
    async with db.connection() as conn:
        assert await manifests.named(conn, line=line, generation=2) is not None
        await retaining.set_back(conn, line, by=timedelta(days=2))
    await retain(db, line, tombstones=timedelta(days=100))
    async with db.connection() as conn:
        assert await manifests.named(conn, line=line, generation=2) is None
        assert await manifests.named(conn, line=line, generation=4) is not None


async def test_a_publication_that_was_prepared_for_a_head_that_is_pruned_is_prepared_again(db, line):
    """Others may publish so much meanwhile that the generation it was planned for, and its nodes, are gone."""
    head = await retaining.head_of(db, line)
    await publish_some(db, line, 3)
    await retain(db, line)
    async with db.connection() as conn:
        with pytest.raises(publish.HeadMovedError):
            await publish.prepare(conn, head=head, versions=[version("k1", "late")])


async def test_nodes_that_are_missing_since_their_generation_was_pruned_are_no_corruption(db, line, monkeypatch):
    fetch = trie.nodes
    fetched = []

    async def fetch_and_prune(conn, **what):
        if fetched:
            await retain(db, line)
        fetched.append(what["paths"])
        # As if the first query had been of another depth: what is missing is fetched by a second one.
        return {path: body for path, body in (await fetch(conn, **what)).items() if fetched[1:] or not path}

    head = await retaining.head_of(db, line)
    for number in range(3):
        await building.publish_versions(db, line, version("k1", f"changed {number}"))
    monkeypatch.setattr(trie, "nodes", fetch_and_prune)
    async with db.connection() as conn:
        with pytest.raises(publish.HeadMovedError):
            await publish.prepare(conn, head=head, versions=[version("k1", "late")])
    assert len(fetched) == 2


async def test_the_events_of_what_is_gone_are_still_told(db, line):
    await publish_some(db, line, 4)
    await retain(db, line, events=LONG)
    async with db.connection() as conn:
        page = await events.after(conn, line=line, after_sequence=0, limit=1_000, scopes=None)
    assert (page.floor, page.events[0].sequence) == (0, 1)


async def test_a_generation_whose_rows_were_swept_is_not_swept_again(db, line):
    await publish_some(db, line, 4)
    await retain(db, line)
    async with db.connection() as conn:
        assert await pruning.unswept(conn, line) == []
