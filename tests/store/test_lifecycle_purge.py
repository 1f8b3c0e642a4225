"""A Baseline is deleted with its data: all of it, and only it, in pieces, whoever dies or comes in between."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
from tests.store import building, test_consolidation_crashes
from tests.store.branching import blocked, fill_namespace
from tests.store.building import version
from tests.store.world import AGENTS, AUTOMATIC, TEAM, World, decisions

from anabranch.consolidation import deriving, merging, retracting, schedule, work
from anabranch.identity import Caller
from anabranch.model.canonical import sha256
from anabranch.model.errors import GoneError, NotFoundError
from anabranch.model.requests import RetractionRequest
from anabranch.quality import counting
from anabranch.search import indexing
from anabranch.store import (
    archives,
    branches,
    checkpoints,
    completions,
    followers,
    importing,
    jobs,
    leases,
    lines,
    presence,
    private,
    proposals,
    purging,
    restoring,
    waiting,
)

UID = "uid-of-facts"
HOLD = timedelta(minutes=1)


@pytest.fixture
async def world(db):
    return World(db)


async def rows(db, line):
    """How many rows each table has of a line, whichever tables there are."""
    async with db.connection() as conn:
        tables = await conn.fetch(
            """
            SELECT c.relname AS name FROM pg_attribute AS a JOIN pg_class AS c ON c.oid = a.attrelid
            WHERE c.relnamespace = 'public'::regnamespace AND c.relkind = 'r' AND a.attname = 'line'
              AND NOT a.attisdropped
            """
        )
        return {
            table["name"]: await conn.fetchval(f"SELECT count(*) FROM {table['name']} WHERE line = $1", line)
            for table in tables
        }


async def condemn(db, *, uid=UID, name="facts"):
    async with db.transaction() as conn:
        return await purging.condemn(conn, uid=uid, namespace=TEAM, name=name)


async def archive(db, line):
    async def pieces():
        yield b"bytes"

    await archives.save(db, line=line, digest=sha256(b"bytes"), uploaded_by="ada", chunks=pieces())


async def a_life(world, *, name="facts", run="run"):
    """A line with something in every table: its id, its branch, and a job that waits for a review."""
    line = (await world.import_documents({"a": "first", "b": "first"}, name=name, **AUTOMATIC)).line.line
    branch = await world.apply_branch(run, baseline=name)
    where = {"line": line, "branch_id": branch.branch_id}
    await world.submit(branch, 1, {"key": "a", "content": "second", "base": 1})
    await world.work()
    await world.submit(branch, 2, {"key": "a", "content": "against it", "base": 1})
    await world.work()
    held = next(job for job in await world.jobs() if job.line == line and job.state == "awaiting_review")
    (row,) = await world.candidates(held)
    await merging.propose(
        world.db, job=held, author="mia", body=b"1", inputs=[row.candidate_id], base_revision=1, with_record=True
    )
    async with world.db.connection() as conn:
        asked = proposals.Question(
            line=line, job_id=held.job_id, kind="merge", key="a", inputs=(row.candidate_id,), record_revision=1
        )
        await proposals.begin(conn, asked, model="small", tokens=1, hold=timedelta())
    reviews = [{"reviewer": "ada", "decisions": decisions([row], "reject")}]
    world.guard.missing.clear()
    held = await world.apply_job(
        held.name,
        origin=held.origin,
        branchRef={"namespace": AGENTS, "name": run},
        batches={"from": held.from_sequence, "through": held.through_sequence},
        reviews=reviews,
    )
    await fill_namespace(world.db, branch)
    async with world.db.connection() as conn:
        await private.put(
            conn, key="own", scope="shared", visibility="private", content_hash=sha256(b"1"), body=b"1",
            base_revision=0, expected=None, **where,
        )  # fmt: skip
        await completions.submit(
            conn, run_id=branch.run_id, content_hash=sha256(b"c"), body=b"c", last_submitted_sequence=3, **where
        )
        await presence.renew(conn, leaving=False, task=None, observed=None, **where)
        await followers.save(conn, epoch=1, sequence=1, cursor="c", **where)
        await checkpoints.add(conn, checkpoint_id="one", session_id="s", content_hash=sha256(b"p"), body=b"p", **where)
    await restoring.restore(world.db, line=line, generation=1, restore_id="back")
    await world.apply_branch(run, baseline=name, generation=2, rebase={"toGeneration": 2})
    async with world.db.connection() as conn:  # what retention leaves when it is killed half-way
        await conn.execute("INSERT INTO pruned_manifests VALUES ($1, 9, 'bl', 'root', 9, now())", line)
        await conn.execute("INSERT INTO released_hashes VALUES ($1, 'hash')", line)
        await conn.execute("INSERT INTO import_base VALUES ($1, 'a', 'shared', 'hash', 1)", line)
        await conn.execute("INSERT INTO agent_outbox VALUES ($1, 'one', 'run.completed', $2, '{}')", line, run)
        await conn.execute("INSERT INTO recall_gates VALUES ($1, 'questions', 5, 0, 0)", line)
        await conn.execute(
            """
            INSERT INTO recall_results (line, generation, digest, k, tasks, recall, recall_at_1, worse, recalls)
            VALUES ($1, 1, 'hash', 5, 1, 1, 1, '{}', '{}')
            """,
            line,
        )
        await conn.execute(
            """
            INSERT INTO recall_holds
                (line, job_id, reason, generation, digest, k, recall, change, low, high, failing, reviews_through)
            VALUES ($1, 'job', 'RecallRegressed', 1, 'hash', 5, 0, -1, -1, -1, '{}', 0)
            """,
            line,
        )
        await conn.execute("INSERT INTO backup_turns (line, target, max_age) VALUES ($1, 'vault', '1d')", line)
        await conn.execute(
            "INSERT INTO backups (line, taken_at, target, place, generation, baseline_id, manifest_hash)"
            " VALUES ($1, now(), 'vault', 'there', 1, 'bl', '')",
            line,
        )
        await conn.execute("INSERT INTO derivations VALUES ($1, 'a', 1, 'b', 2, 'shared', 'hash')", line)
    await archive(world.db, line)
    every = timedelta()
    while await indexing.turn(world.db) or await deriving.turn(world.db) or await counting.turn(world.db, every=every):
        pass
    async with world.db.connection() as conn:
        await conn.execute(
            "INSERT INTO search_vectors SELECT line, segment, 'model', now(), 'signs', 'codes' FROM search_segments "
            "WHERE line = $1",
            line,
        )
    asked = RetractionRequest(key="b", reason="it is wrong")
    await retracting.request(world.db, line=line, scopes=["shared"], caller=Caller("eve"), body=asked)
    return line, branch, held


async def test_every_table_that_a_line_has_rows_in_is_known(db):
    assert (await rows(db, "none")).keys() == purging.TABLES


async def test_all_of_a_line_goes_and_nothing_of_another(world):
    other, *_ = await a_life(world, name="other", run="another")
    line, *_ = await a_life(world)
    before = await rows(world.db, other)
    assert {table for table, count in (await rows(world.db, line)).items() if not count} == set()

    assert await condemn(world.db) == line
    await purging.purge(world.db, line=line)

    assert set((await rows(world.db, line)).values()) == {0}
    assert await rows(world.db, other) == before
    await world.check_roots(other)


async def test_what_goes_at_once_is_bounded(world, monkeypatch):
    line, *_ = await a_life(world)
    await condemn(world.db)
    deleted = []
    delete = purging._delete

    async def count(db, **what):
        deleted.append(await delete(db, **what))
        return deleted[-1]

    monkeypatch.setattr(purging, "_TABLES", dict.fromkeys(purging._TABLES, 1))
    monkeypatch.setattr(purging, "_delete", count)
    await purging.purge(world.db, line=line)
    assert (max(deleted), set((await rows(world.db, line)).values())) == (1, {0})


@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
async def test_whoever_is_killed_at_any_step_leaves_a_line_that_the_next_one_ends(world, before):
    steps, killed = 0, True
    while killed:
        steps += 1
        name = f"facts-{steps}"
        line = await building.new_line(world.db, name=name, namespace=TEAM, uid=name)
        await building.import_records(world.db, line, {"a": 1})
        await condemn(world.db, uid=name, name=name)
        dying = test_consolidation_crashes.DyingDatabase(world.db, at=steps, before=before)
        try:
            await purging.purge(dying, line=line)
            killed = False
        except test_consolidation_crashes.KilledError:
            async with world.db.connection() as conn:
                found = await purging.claim(conn, hold=timedelta())
            # After the last step nothing is left to be found.
            assert found is None or found.line == line
            await purging.purge(world.db, line=line)
        assert set((await rows(world.db, line)).values()) == {0}
    assert steps > len(purging._TABLES)


async def test_a_condemned_line_is_found_by_nobody_and_given_to_one_at_a_time(world):
    line, branch, held = await a_life(world)
    await condemn(world.db)

    async with world.db.connection() as conn:
        assert await lines.find(conn, namespace=TEAM, name="facts") is None
        assert await lines.list_by_namespace(conn, TEAM) == []
        assert await branches.by_name(conn, namespace=AGENTS, name=branch.name) is None
        assert await jobs.unborn(conn, limit=10) == []
        assert (await leases.claim(conn, holder="another", limit=10)).jobs == []
        assert await lines.claim_due(conn, limit=10, hold=HOLD) == []
        assert await purging.claim(conn, hold=HOLD) == purging.Condemned(line, TEAM, "facts")
        assert await purging.claim(conn, hold=HOLD) is None
    assert held.line == line


async def test_a_namesake_that_comes_meanwhile_begins_anew(world):
    line, *_ = await a_life(world)
    await condemn(world.db)
    state = await world.apply_baseline(uid="made again", **{"import": {"configMap": {"name": "facts"}}})
    assert state.line.line != line
    assert state.head.head_generation == 1

    await purging.purge(world.db, line=line)
    assert await world.contents(state.line.line) == {"a": '"first"', "b": '"first"'}


async def test_no_batch_is_acknowledged_that_would_go_with_the_line(world):
    _, branch, _ = await a_life(world)
    await condemn(world.db)
    with pytest.raises(GoneError):
        await world.submit(branch, 3, {"key": "late", "content": 1})


@pytest.mark.parametrize("gone", [False, True], ids=["condemned", "gone"])
async def test_a_job_under_way_publishes_nothing_any_more(world, gone):
    line = (await world.import_documents({"a": "first"}, **AUTOMATIC)).line.line
    branch = await world.apply_branch("run")
    await world.submit(branch, 1, {"key": "a", "content": "second", "base": 1})
    await schedule.make_jobs(world.db)
    async with world.db.connection() as conn:
        (job,) = (await leases.claim(conn, holder="a worker", limit=1)).jobs
    await condemn(world.db)
    if gone:
        await purging.purge(world.db, line=line)
    with pytest.raises(leases.FencedError):
        await work.advance(world.services, job)
    await purging.purge(world.db, line=line)
    assert set((await rows(world.db, line)).values()) == {0}


async def test_what_was_begun_before_is_deleted_too(world):
    """An upload that commits while the line goes: the foreign key makes the end wait, and begin again."""
    line = (await world.import_documents({"a": "first"})).line.line
    await condemn(world.db)
    async with world.db.transaction() as late:
        await late.execute(
            "INSERT INTO archives (line, digest, size, uploaded_by) VALUES ($1, $2, 1, 'ada')", line, b"digest"
        )
        purge = asyncio.create_task(purging.purge(world.db, line=line))
        await blocked(world.db, purge)
    await purge
    assert set((await rows(world.db, line)).values()) == {0}


async def test_who_writes_the_line_afterwards_is_told_that_there_is_none(world):
    line, *_ = await a_life(world)
    await condemn(world.db)
    await purging.purge(world.db, line=line)
    with pytest.raises(NotFoundError):
        await building.publish_versions(world.db, line, version("a", 1))
    with pytest.raises(NotFoundError):
        await restoring.restore(world.db, line=line, generation=1, restore_id="again")

    async def none():
        return
        yield

    with pytest.raises(NotFoundError):
        await importing.import_first(world.db, line=line, records=none(), origin={}, import_digest=None)


async def test_the_baseline_of_another_uid_or_place_is_not_meant(world):
    line, *_ = await a_life(world)
    assert await condemn(world.db, uid="another's") is None
    assert await condemn(world.db, name="other") is None
    assert (await world.state(line)).line.deleted_at is None


async def test_condemning_twice_is_once_and_a_line_that_is_gone_is_none(world):
    line, *_ = await a_life(world)
    assert await condemn(world.db) == await condemn(world.db) == line
    await asyncio.gather(*(purging.purge(world.db, line=line) for _ in range(3)))
    assert await condemn(world.db) is None
    await purging.purge(world.db, line=line)


async def test_the_resources_that_stood_on_it_say_so(world):
    _, branch, held = await a_life(world)
    await condemn(world.db)
    async with world.db.connection() as conn:
        of_branch = await waiting.get(conn, namespace=AGENTS, kind="Branch", name=branch.name)
        of_job = await waiting.get(conn, namespace=TEAM, kind="ConsolidationJob", name=held.name)
    for row, uid in ((of_branch, branch.uid), (of_job, held.uid)):
        assert (row.condition, row.reason, row.uid, row.due_at) == ("Stalled", "BaselineDeleted", uid, None)
        assert "platform/facts was deleted together with its data" in row.message
