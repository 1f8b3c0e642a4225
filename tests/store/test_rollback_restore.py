"""A restore of any size stops nobody: what is large comes before the head's lock, and publications are put off."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
from tests.store import branching, building
from tests.store.building import version
from tests.store.world import AUTOMATIC, World

from anabranch.consolidation import schedule, work
from anabranch.model.errors import UnavailableError
from anabranch.store import branches, events, leases, lines, manifests, publish, records, restoring, tombstones, trie

FROM_MAP = {"import": {"configMap": {"name": "facts"}}}
KEYS = 400


@pytest.fixture
async def line(db):
    """A line of which everything has changed since its import."""
    line = await building.new_line(db)
    await building.import_records(db, line, {f"key-{number}": number for number in range(KEYS)})
    await building.publish_versions(db, line, *(version(f"key-{number}", -number) for number in range(KEYS)))
    return line


class Pause:
    """Stops a restore where it has written everything and has not taken the head's lock."""

    def __init__(self, monkeypatch):
        self.reached, self.go_on = asyncio.Event(), asyncio.Event()
        self._patch, self._lock = monkeypatch, lines.lock_head
        self.tasks = []

    async def of(self, db, line, **restore):
        self._patch.setattr(restoring.lines, "lock_head", self._wait_first)
        self.tasks.append(asyncio.create_task(restoring.restore(db, line=line, **restore)))
        await self.reached.wait()
        # From here on others take the lock as ever.
        self._patch.setattr(restoring.lines, "lock_head", self._lock)
        return self.tasks[-1]

    async def _wait_first(self, conn, line):
        self.reached.set()
        await self.go_on.wait()
        return await self._lock(conn, line)


@pytest.fixture
async def pause(db, monkeypatch):
    made = Pause(monkeypatch)
    yield made
    for task in made.tasks:  # of a test that failed; the database could not be closed under it
        task.cancel()
    await asyncio.gather(*made.tasks, return_exceptions=True)


async def test_nothing_under_the_lock_grows_with_what_is_restored(db, line, monkeypatch):
    said = []

    async def lock(conn, of):
        head = await lock_head(conn, of)
        conn.add_query_logger(lambda record: said.append(record.query))
        return head

    lock_head = lines.lock_head
    monkeypatch.setattr(restoring.lines, "lock_head", lock)
    await restoring.restore(db, line=line, generation=1, restore_id="all")
    large = ("stage_versions", "stage_nodes", "record_versions", "trie_nodes")
    assert [statement for statement in said if any(table in statement for table in large)] == []
    assert [statement for statement in said if "INSERT INTO manifests" in statement]


async def test_while_a_restore_is_written_the_head_is_free_for_pins_forks_and_readers(db, line, pause):
    restore = await pause.of(db, line, generation=1, restore_id="back")
    async with asyncio.timeout(30):
        await building.move(db, line, to=1, kind="rollback", pinned=1)
        async with db.transaction() as conn:
            branch = await branching.fork(conn, line, generation=2)
        assert (await building.snapshot(db, line))["key-7"] == 7
        await building.move(db, line, to=2, kind="resumed", pinned=None)
    pause.go_on.set()
    row = await restore
    assert (row.generation, branch.parent_generation) == (3, 2)
    assert (await building.snapshot(db, line))["key-7"] == 7
    async with db.connection() as conn:
        page = await events.after(conn, line=line, after_sequence=0, limit=1_000, scopes=[])
    assert [event.kind for event in page.events] == ["rollback", "resumed", "restored"]


async def test_a_publication_meanwhile_is_told_to_come_back_and_does_not_wait(db, line, pause):
    restore = await pause.of(db, line, generation=1, restore_id="back")
    async with asyncio.timeout(30):
        with pytest.raises(publish.RestoreUnderWayError):
            await building.publish_versions(db, line, version("key-1", "meanwhile"))
    pause.go_on.set()
    await restore
    await building.publish_versions(db, line, version("key-1", "afterwards"))
    assert (await building.snapshot(db, line))["key-1"] == "afterwards"
    async with db.transaction() as conn:
        manifest = await manifests.resolve(conn, line=line, ref="head")
        assert await trie.recompute_root(conn, line=line, generation=4) == manifest.manifest_hash
        assert await records.count(conn, line=line, generation=4, scopes=None) == manifest.records


async def test_tombstones_are_taken_out_another_time(db, line, pause):
    await building.publish_versions(db, line, version("key-1"))
    async with db.connection() as conn:
        parent = await manifests.resolve(conn, line=line, ref="head")
        delta = await trie.plan(conn, manifest=parent, changes={})
    planned = tombstones.Purge(parent=parent, revision=parent.revision + 1, keys=["key-1"], delta=delta)
    restore = await pause.of(db, line, generation=1, restore_id="back")
    async with asyncio.timeout(30):
        with pytest.raises(publish.RestoreUnderWayError):
            async with db.transaction() as conn:
                await tombstones.purge(conn, planned=planned)
    pause.go_on.set()
    await restore


async def test_a_restore_waits_for_a_publication_that_has_begun_and_stages_anew(db, line):
    async with db.transaction() as conn:
        head = await lines.lock_head(conn, line)
        async with db.connection() as other:
            prepared = await publish.prepare(other, head=head, versions=[version("late", 1)])
        await publish.write_generation(conn, head=head, prepared=prepared, events=(), origin={"kind": "publication"})
        restore = asyncio.create_task(restoring.restore(db, line=line, generation=1, restore_id="back"))
        await branching.blocked(db, restore)
    assert (await restore).generation == 4
    assert "late" not in await building.snapshot(db, line)


async def test_other_lines_are_not_concerned(db, line, pause):
    other = await building.new_line(db, name="other")
    await building.import_records(db, other, {"a": 1})
    restore = await pause.of(db, line, generation=1, restore_id="back")
    async with asyncio.timeout(30):
        await building.publish_versions(db, other, version("a", 2))
    pause.go_on.set()
    await restore


# ------------------------------------------------------------------------------------------ jobs and branches around it


async def a_claimed_job(world, name, sequence=1):
    branch = await world.apply_branch(name)
    await world.submit(branch, sequence, {"key": "a", "content": f"{name} says so", "base": 1})
    await schedule.make_jobs(world.db)
    async with world.db.connection() as conn:
        (job,) = (await leases.claim(conn, holder=world.holder, limit=1)).jobs
    return branch, job


async def test_a_job_that_publishes_meanwhile_loses_no_attempt_and_goes_on_afterwards(db, pause):
    world = World(db)
    line = (await world.import_documents({"a": "first", "b": "first"}, **AUTOMATIC)).line.line
    _, job = await a_claimed_job(world, "run")
    restore = await pause.of(db, line, generation=1, restore_id="back")
    with pytest.raises(UnavailableError):  # an outage to the worker, which lets go of the job and counts nothing
        await work.advance(world.services, job)
    pause.go_on.set()
    await restore

    async with db.connection() as conn:
        await leases.release(conn, job=job, due_in=timedelta())
    await world.work()
    assert (await world.job(job.name)).attempt == 0
    assert (await world.job(job.name)).state == "published"
    assert (await world.contents(line))["a"] == '"run says so"'
    assert [kind for kind, _, _ in await world.events(line)] == ["restored", "published"]


async def test_branches_forked_before_during_and_after_keep_their_parents(db, pause):
    world = World(db)
    line = (await world.import_documents({"a": "first"}, **AUTOMATIC)).line.line
    first = await world.apply_branch("first")
    await world.submit(first, 1, {"key": "a", "content": "second", "base": 1})
    await world.work()
    before = await world.apply_branch("before")
    restore = await pause.of(db, line, generation=1, restore_id="back")
    during = await world.apply_branch("during")
    pause.go_on.set()
    await restore
    after = await world.apply_branch("after")

    assert [branch.parent_generation for branch in (before, during, after)] == [2, 2, 3]
    contents = [await world.contents(line, branch.parent_generation) for branch in (before, during, after)]
    assert contents == [{"a": '"second"'}, {"a": '"second"'}, {"a": '"first"'}]
    # What they find is compared with the restored record, whose revision none of the older ones has seen.
    for branch in (before, during):
        await world.submit(branch, 1, {"key": "a", "content": branch.name, "base": 2})
    await world.submit(after, 1, {"key": "a", "content": "after", "base": 3})
    await world.work()
    found = [row for job in await world.jobs() for row in await world.candidates(job)]
    states = {row.branch_id: (row.state, row.conflicting) for row in found}
    assert states[after.branch_id] == ("published", False)
    assert states[before.branch_id] == states[during.branch_id] == ("waiting", True)
    async with db.connection() as conn:
        assert (await branches.get(conn, before.branch_id)).parent_generation == 2


async def test_a_restore_that_stays_in_git_never_repeats(db):
    world = World(db)
    line = (await world.import_documents({"a": "first"}, **AUTOMATIC)).line.line
    branch = await world.apply_branch("run")
    spec = {**FROM_MAP, **AUTOMATIC, "restore": {"generation": 1, "id": "2030-01-01"}}
    for sequence in (1, 2, 3):
        await world.submit(branch, sequence, {"key": f"k{sequence}", "content": sequence})
        await world.work()
        for _ in range(2):
            state = await world.apply_baseline(generation=2, **spec)
    # Once, after the first finding, however often it was looked at since.
    assert [kind for kind, _, _ in await world.events(line)] == ["published", "restored", "published", "published"]
    assert state.head.head_generation == 5
    # Not even on a namesake that takes the line up.
    state = await world.apply_baseline(uid="made again", **spec)
    assert state.head.head_generation == 5


async def test_a_pin_that_gives_way_to_a_restore_shows_nothing_between(db, monkeypatch):
    world = World(db)
    line = (await world.import_documents({"a": "first"}, **AUTOMATIC)).line.line
    branch = await world.apply_branch("run")
    await world.submit(branch, 1, {"key": "a", "content": "false", "base": 1})
    await world.work()
    await world.apply_baseline(generation=2, **FROM_MAP, **AUTOMATIC, pin={"generation": 1})
    restore, seen = restoring.restore, []

    async def watched(*args, **kwargs):
        seen.append(await world.contents(line))
        try:
            return await restore(*args, **kwargs)
        finally:
            seen.append(await world.contents(line))

    monkeypatch.setattr(restoring, "restore", watched)
    spec = {**FROM_MAP, **AUTOMATIC, "restore": {"generation": 1, "id": "back"}}
    state = await world.apply_baseline(generation=3, **spec)
    assert (state.head.current_generation, state.head.pinned_generation) == (3, None)
    assert [*seen, await world.contents(line)] == [{"a": '"first"'}] * 3
    assert [kind for kind, _, _ in await world.events(line)][-3:] == ["rollback", "restored", "resumed"]


async def test_a_restore_that_cannot_be_had_does_not_keep_the_pin(db):
    world = World(db)
    line = (await world.import_documents({"a": "first"}, **AUTOMATIC)).line.line
    await world.apply_baseline(generation=2, **FROM_MAP, **AUTOMATIC, pin={"generation": 1})
    spec = {**FROM_MAP, **AUTOMATIC, "restore": {"generation": 7, "id": "never"}}
    state = await world.apply_baseline(generation=3, **spec)
    assert state.head.pinned_generation is None
    assert (await world.conditions(line))["Stalled"] == "RestoreTargetUnknown"
