"""Baselines: their import, what a changed source proposes, pins, restores, and what their conditions tell."""

from __future__ import annotations

import asyncio
import io
from datetime import UTC, datetime

import pytest
from tests.store.world import AUTOMATIC, TEAM, World, decisions

from anabranch.archive import ArchiveHeader, ArchiveManifest, ArchiveRecord, ArchiveWriter
from anabranch.baselines import changes, imports, pinning
from anabranch.baselines.reconcile import forget
from anabranch.domain.facts import Fact
from anabranch.model.canonical import hash_text, sha256
from anabranch.model.errors import UnavailableError
from anabranch.store import archives, lines, records

FROM_MAP = {"import": {"configMap": {"name": "facts"}}}
TEXTS = {"a": "first", "b": "first", "c": "first"}


@pytest.fixture
async def world(db):
    return World(db)


async def fact(world, line, key):
    async with world.db.connection() as conn:
        _, record = await records.read(conn, line=line, key=key, scopes=None)
    return Fact.parse(record.fact_body)


# ---------------------------------------------------------------------------------------------------- from ConfigMaps


async def test_a_config_map_becomes_generation_1_with_locators_by_digest(world):
    state = await world.import_documents(TEXTS)

    assert (state.head.head_generation, state.head.current_generation, state.line.observed_generation) == (1, 1, 1)
    assert state.line.conditions == []
    assert await world.contents(state.line.line) == {"a": '"first"', "b": '"first"', "c": '"first"'}
    digest = hash_text(sha256(b'"first"'))
    assert await fact(world, state.line.line, "a") == Fact(source_locators=(f"import:a.json@{digest}",))
    await world.check_roots(state.line.line)


async def test_a_reconcile_that_is_repeated_or_doubled_imports_once(world):
    world.config_maps_of("facts", TEXTS)

    await asyncio.gather(world.apply_baseline(**FROM_MAP), world.apply_baseline(**FROM_MAP))
    state = await world.apply_baseline(**FROM_MAP)

    assert (state.head.head_generation, state.line.conditions) == (1, [])
    assert await world.jobs() == []


async def test_keys_choose_from_a_config_map(world):
    world.config_maps_of("facts", TEXTS)
    state = await world.apply_baseline(**{"import": {"configMap": {"name": "facts", "keys": ["b.json"]}}})

    assert await world.contents(state.line.line) == {"b": '"first"'}


async def test_a_config_map_that_is_missing_or_not_whole_is_waited_for(world):
    state = await world.apply_baseline(**FROM_MAP)
    assert await world.conditions(state.line.line) == {"Reconciling": "ConfigMapMissing"}
    assert state.line.due_at is not None

    world.config_maps_of("facts", TEXTS)
    state = await world.apply_baseline(**{"import": {"configMap": {"name": "facts", "keys": ["z.json"]}}})
    assert await world.conditions(state.line.line) == {"Reconciling": "ConfigMapMissing"}
    assert state.head.head_generation == 0

    state = await world.apply_baseline(**FROM_MAP)
    assert (state.head.head_generation, state.line.conditions) == (1, [])


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        ({"a.json": "{"}, "InvalidInput"),
        ({"a.exe": "x"}, "InvalidInput"),
        ({"a.json": "1", "a.yaml": "1"}, "InvalidInput"),
    ],
)
async def test_a_source_that_is_not_as_it_should_be_stalls_and_imports_nothing(world, files, reason):
    world.kube.config_maps["facts"] = files

    state = await world.apply_baseline(**FROM_MAP)

    assert await world.conditions(state.line.line) == {"Stalled": reason}
    assert (state.head.head_generation, await world.contents_of_table(state.line.line)) == (0, 0)


async def test_what_a_document_keeps_private_is_not_imported(world):
    world.kube.config_maps["facts"] = {
        "a.json": '[{"key": "open", "content": 1}, {"key": "own", "content": 2, "visibility": "private"}]'
    }
    state = await world.apply_baseline(**FROM_MAP)

    assert (await world.contents(state.line.line)).keys() == {"open"}


@pytest.mark.parametrize("limits", [{"records": 2}, {"scopes": 1}])
async def test_a_source_beyond_the_baselines_limits_stalls(world, limits):
    world.kube.config_maps["facts"] = {
        "a.json": '[{"key": "a", "content": 1}, {"key": "b", "content": 1, "scope": "x"}, {"key": "c", "content": 1}]'
    }
    state = await world.apply_baseline(limits=limits, **FROM_MAP)
    assert await world.conditions(state.line.line) == {"Stalled": "LimitExceeded"}

    state = await world.apply_baseline(generation=2, **FROM_MAP)
    assert (state.head.head_generation, state.line.conditions) == (1, [])


async def test_a_baseline_without_an_import_says_what_is_missing(world):
    state = await world.apply_baseline()

    assert await world.conditions(state.line.line) == {"Reconciling": "ImportUnset"}


async def test_an_outage_is_no_condition(world):
    async def away(*_, **__):
        raise UnavailableError("The API server is away.")

    world.kube.find = away
    with pytest.raises(UnavailableError):
        await world.apply_baseline(**FROM_MAP)

    async with world.db.connection() as conn:
        state = await lines.find(conn, namespace=TEAM, name="facts")
    assert (state.line.conditions, state.line.observed_generation) == ([], 0)


# ------------------------------------------------------------------------------------------------------ from archives


def an_archive(contents, **record):
    target = io.BytesIO()
    with ArchiveWriter(target, ArchiveHeader(kind="import", created_by="a test")) as writer:
        for key in sorted(contents):
            writer.write(ArchiveRecord.of(key=key, scope="shared", content=contents[key], **record))
    return target.getvalue()


async def upload(world, line, body):
    async def pieces():
        for start in range(0, len(body), 1000):
            yield body[start : start + 1000]

    await archives.save(world.db, line=line, digest=sha256(body), uploaded_by="ada", chunks=pieces())


def from_archive(body):
    return {"import": {"archive": {"digest": hash_text(sha256(body))}}}


async def test_an_archive_is_applied_first_and_uploaded_later(world):
    body = an_archive({f"k{n:04}": {"n": n} for n in range(2_000)}, source_locators=("https://example.org/k",))
    state = await world.apply_baseline(**from_archive(body))
    line = state.line.line
    assert await world.conditions(line) == {"Reconciling": "ArchiveMissing"}

    await upload(world, line, body)
    state = await world.apply_baseline(**from_archive(body))

    assert (state.head.head_generation, state.line.conditions) == (1, [])
    assert len(await world.contents(line)) == 1_000  # the first page
    assert await fact(world, line, "k0042") == Fact(source_locators=("https://example.org/k",))
    async with world.db.connection() as conn:
        assert await records.count(conn, line=line, generation=1, scopes=None) == 2_000
    await world.check_roots(line)


async def test_an_archive_that_is_torn_leaves_nothing(world):
    body = an_archive({f"k{n:04}": "x" * 100 for n in range(2_000)})
    torn = body[:-20]
    line = (await world.apply_baseline(**from_archive(torn))).line.line
    await upload(world, line, torn)

    state = await world.apply_baseline(**from_archive(torn))

    assert (await world.conditions(line))["Stalled"] in ("ArchiveTorn", "ArchiveMalformed")
    assert (state.head.head_generation, await world.contents_of_table(line)) == (0, 0)


async def test_of_an_export_the_live_records_come_with_their_provenance(world):
    target = io.BytesIO()
    manifest = ArchiveManifest(baseline_id="another", generation=7, manifest_hash=hash_text(b"\0" * 32))
    history = {"revision": 9, "fact_hash": hash_text(b"\0" * 32), "scope": "team/build"}
    with ArchiveWriter(target, ArchiveHeader(kind="export", created_by="a test", manifest=manifest)) as writer:
        writer.write(
            ArchiveRecord(
                key="alive",
                body=b"1",
                content_hash=hash_text(sha256(b"1")),
                source_locators=("https://example.org/k",),
                origin_runs=("run",),
                supersedes=(4,),
                validated_at="2026-01-02T03:04:05Z",
                **history,
            )
        )
        writer.write(
            ArchiveRecord(key="gone", body=b"null", content_hash=hash_text(sha256(b"null")), tombstone=True, **history)
        )
    body = target.getvalue()
    line = (await world.apply_baseline(**from_archive(body))).line.line
    await upload(world, line, body)

    await world.apply_baseline(**from_archive(body))

    async with world.db.connection() as conn:
        page = await records.page(conn, line=line, limit=9, scopes=None, tombstones=True)
    assert [(record.key, record.revision, record.scope) for record in page.records] == [("alive", 1, "team/build")]
    assert await fact(world, line, "alive") == Fact(
        source_locators=("https://example.org/k",),
        origin_runs=("run",),
        validated_at=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
    )


# --------------------------------------------------------------------------------------------------- a changed source


async def a_changed_source(world, texts, **policy):
    """Import TEXTS, let an agent change `b`, then change the source; the line and the job of it."""
    line = (await world.import_documents(TEXTS, **AUTOMATIC)).line.line
    branch = await world.apply_branch("run")
    await world.submit(branch, 1, {"key": "b", "content": "an agent's", "base": 1}, {"key": "own", "content": 1})
    await world.work()
    world.config_maps_of("facts", texts)
    await world.apply_baseline(**FROM_MAP, **AUTOMATIC)
    await world.work()
    return line, next((job for job in await world.jobs() if job.origin == "Import"), None)


async def test_a_changed_source_proposes_what_it_changed_and_nothing_else(world):
    line, job = await a_changed_source(world, {"a": "second", "b": "first", "new": "first"})

    assert (job.state, job.branch_id) == ("awaiting_review", None)
    assert await world.conditions(line) == {"ImportChanged": "AwaitingReview"}
    rows = {row.key: row for row in await world.candidates(job)}
    # b says what it said before, so the agent's finding stands; own was never the source's.
    assert {(key, row.op, row.conflicting) for key, row in rows.items()} == {
        ("a", "put", False),
        ("c", "tombstone", False),
        ("new", "put", False),
    }
    assert {source["status"] for row in rows.values() for source in row.sources} == {"verified"}


async def test_where_both_have_changed_it_is_a_conflict(world):
    _, job = await a_changed_source(world, TEXTS | {"b": "the source's"})

    (row,) = await world.candidates(job)
    assert (row.key, row.conflicting, row.base_revision, row.canonical_revision) == ("b", True, 1, 2)


async def test_accepted_changes_are_published_and_the_condition_goes(world):
    line, job = await a_changed_source(world, {"a": "second", "b": "first"})
    await world.apply_job(
        job.name,
        origin="Import",
        reviews=[{"reviewer": "ada", "decisions": decisions(await world.candidates(job))}],
    )
    await world.work()

    assert await world.contents(line) == {"a": '"second"', "b": '"an agent\'s"', "own": "1"}
    async with world.db.connection() as conn:
        due = await lines.claim_due(conn, limit=10, hold=imports._LOOK_AGAIN)
    assert [row.line for row in due] == [line]
    await world.apply_baseline(**FROM_MAP, **AUTOMATIC)
    assert await world.conditions(line) == {}
    await world.check_roots(line)


async def test_the_next_change_is_compared_with_the_last_one(world):
    line, job = await a_changed_source(world, TEXTS | {"a": "second"})
    await world.apply_job(
        job.name,
        origin="Import",
        reviews=[{"reviewer": "ada", "decisions": decisions(await world.candidates(job))}],
    )
    await world.work()
    branch = await world.apply_branch("later")
    await world.submit(branch, 1, {"key": "a", "content": "an agent's", "base": 3})
    await world.work()

    world.config_maps_of("facts", TEXTS | {"a": "second", "c": "second"})
    await world.apply_baseline(**FROM_MAP, **AUTOMATIC)
    await world.work()

    (job,) = [job for job in await world.jobs() if job.origin == "Import" and job.state != "published"]
    assert [row.key for row in await world.candidates(job)] == ["c"]
    assert (await world.contents(line))["a"] == '"an agent\'s"'


async def test_a_source_that_changes_back_proposes_nothing_new(world):
    line, _ = await a_changed_source(world, TEXTS | {"a": "second"})

    world.config_maps_of("facts", TEXTS)
    await world.apply_baseline(**FROM_MAP, **AUTOMATIC)

    jobs = [job for job in await world.jobs() if job.origin == "Import"]
    assert len(jobs) == 1
    assert (await world.contents(line))["a"] == '"first"'


async def test_two_operators_make_one_job_of_a_change(world):
    line = (await world.import_documents(TEXTS)).line.line
    world.config_maps_of("facts", TEXTS | {"a": "second"})

    await asyncio.gather(*(world.apply_baseline(**FROM_MAP) for _ in range(3)))
    await world.work()

    (job,) = await world.jobs()
    assert [row.key for row in await world.candidates(job)] == ["a"]
    assert (await world.state(line)).head.head_generation == 1


async def test_a_source_that_differs_too_much_is_not_proposed(world, monkeypatch):
    monkeypatch.setattr(changes, "BATCH_CHANGES", 1)
    line = (await world.import_documents(TEXTS)).line.line
    world.config_maps_of("facts", TEXTS | {"a": "second", "b": "second"})

    state = await world.apply_baseline(**FROM_MAP)

    assert await world.conditions(line) == {"Stalled": "ImportTooDifferent"}
    assert await world.jobs() == []
    assert state.head.current_generation == 1


# ------------------------------------------------------------------------------------------------------ pin, restore


async def three_generations(world):
    line = (await world.import_documents(TEXTS, **AUTOMATIC)).line.line
    branch = await world.apply_branch("run")
    for sequence, text in ((1, "second"), (2, "third")):
        await world.submit(branch, sequence, {"key": "a", "content": text, "base": sequence})
        await world.work()
    return line


async def apply(world, generation, **spec):
    return await world.apply_baseline(generation=generation, **FROM_MAP, **AUTOMATIC, **spec)


async def test_a_pin_moves_what_readers_see_and_the_head_stays(world):
    line = await three_generations(world)

    state = await apply(world, 2, pin={"generation": 2})
    again = await apply(world, 2, pin={"generation": 2})

    head = state.head
    assert (head.current_generation, head.previous_generation, head.head_generation) == (2, 3, 3)
    assert head == again.head
    assert (await world.contents(line))["a"] == '"second"'
    assert (await world.events(line))[-1] == ("rollback", None, None)
    assert await world.conditions(line) == {"ConsolidationPaused": "Pinned"}


async def test_several_operators_roll_back_once(world):
    line = await three_generations(world)

    await asyncio.gather(*(apply(world, 2, pin={"generation": 2}) for _ in range(4)))

    assert [kind for kind, _, _ in await world.events(line)].count("rollback") == 1
    assert (await world.state(line)).head.previous_generation == 3


async def test_a_pin_may_name_the_manifest_and_may_move(world):
    line = await three_generations(world)
    async with world.db.connection() as conn:
        baseline_id = await conn.fetchval("SELECT baseline_id FROM manifests WHERE generation = 1")

    await apply(world, 2, pin={"baselineId": baseline_id})
    state = await apply(world, 3, pin={"generation": 2})

    assert (state.head.pinned_generation, state.head.previous_generation) == (2, 1)
    assert [kind for kind, _, _ in await world.events(line)][-2:] == ["rollback", "rollback"]


async def test_removing_a_pin_returns_to_the_head(world):
    line = await three_generations(world)
    await apply(world, 2, pin={"generation": 1})

    state = await apply(world, 3)

    assert (state.head.current_generation, state.head.pinned_generation) == (3, None)
    assert (await world.events(line))[-1] == ("resumed", None, None)
    assert await world.conditions(line) == {}


async def test_a_pin_to_the_head_pauses_too(world):
    line = await three_generations(world)

    state = await apply(world, 2, pin={"generation": 3})

    assert (state.head.current_generation, state.head.paused) == (3, True)
    assert (await world.events(line))[-1] == ("rollback", None, None)


async def test_an_unknown_or_pruned_target_moves_nothing(world):
    line = await three_generations(world)
    await apply(world, 2, pin={"generation": 2})

    state = await apply(world, 3, pin={"generation": 9})
    assert await world.conditions(line) == {"Stalled": "PinTargetUnknown", "ConsolidationPaused": "Pinned"}
    assert (state.head.current_generation, state.line.observed_generation) == (2, 3)

    async with world.db.connection() as conn:
        await conn.execute("UPDATE branches SET parent_generation = 2; DELETE FROM manifests WHERE generation = 1")
    state = await apply(world, 4, pin={"generation": 1})
    assert (await world.conditions(line))["Stalled"] == "PinTargetPruned"
    assert state.head.current_generation == 2


async def test_a_restore_acts_once_for_each_id(world):
    line = await three_generations(world)

    state = await apply(world, 2, restore={"generation": 1, "id": "back"})
    again = await apply(world, 3, restore={"generation": 1, "id": "back"})

    assert state.head.head_generation == again.head.head_generation == 4
    assert (await world.contents(line))["a"] == '"first"'
    assert (await world.events(line))[-1] == ("restored", None, None)
    state = await apply(world, 4, restore={"generation": 2, "id": "further"})
    assert (state.head.head_generation, (await world.contents(line))["a"]) == (5, '"second"')


async def test_a_restore_of_what_is_not_there_stalls(world):
    line = await three_generations(world)

    state = await apply(world, 2, restore={"generation": 9, "id": "back"})

    assert await world.conditions(line) == {"Stalled": "RestoreTargetUnknown"}
    assert state.head.head_generation == 3


async def test_nothing_is_restored_or_imported_while_suspended(world):
    line = await three_generations(world)
    world.config_maps_of("facts", TEXTS | {"a": "other"})

    state = await apply(world, 2, suspend=True, restore={"generation": 1, "id": "back"})

    assert state.head.head_generation == 3
    assert await world.conditions(line) == {"Reconciling": "Suspended", "ConsolidationPaused": "Suspended"}
    assert all(job.origin == "Branch" for job in await world.jobs())


async def test_what_waits_for_review_is_compared_anew_after_a_restore(world):
    line = await three_generations(world)
    branch = await world.apply_branch("late")
    await world.submit(branch, 1, {"key": "a", "content": "mine", "base": 1})
    await world.work()

    await apply(world, 2, restore={"generation": 1, "id": "back"})
    await world.work()

    held = next(job for job in await world.jobs() if job.branch_id == branch.branch_id)
    (row,) = await world.candidates(held)
    assert (row.canonical_revision, row.canonical_hash) == (4, sha256(b'"first"'))
    assert row.conflicting
    assert line == held.line


# -------------------------------------------------------------------------------------------------------- the resource


async def test_a_deleted_baseline_keeps_its_line_for_a_namesake(world):
    line = await three_generations(world)
    await forget(world.db, namespace=TEAM, name="facts", uid="another's")
    assert (await world.state(line)).line.deleted_at is None
    await forget(world.db, namespace=TEAM, name="facts", uid="uid-of-facts")
    assert (await world.state(line)).line.deleted_at is not None

    state = await world.apply_baseline(uid="made again", **FROM_MAP, **AUTOMATIC)

    assert (state.line.line, state.head.head_generation, state.line.deleted_at) == (line, 3, None)


async def test_missing_admission_policies_are_told(world):
    world.guard.missing.append("The policy is missing.")

    state = await world.import_documents(TEXTS)

    assert await world.conditions(state.line.line) == {"ReviewGuardMissing": "PolicyMissing"}


async def test_a_spec_counts_as_observed_only_with_its_conditions(world, monkeypatch):
    await world.import_documents(TEXTS)
    seen = []

    async def look(db, **_):
        async with db.connection() as conn:
            seen.append((await lines.find(conn, namespace=TEAM, name="facts")).line.observed_generation)
        return []

    monkeypatch.setattr(pinning, "follow_pin", look)
    state = await world.apply_baseline(generation=2, **FROM_MAP)

    assert (seen, state.line.observed_generation) == ([1], 2)
