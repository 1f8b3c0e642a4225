"""Forks: one row that pins a manifest, once for each resource."""

from __future__ import annotations

import asyncio

import asyncpg
import pytest
from tests.store import building
from tests.store.branching import AGENTS, blocked, fork, line_with_records, new_branch

from anabranch.model.errors import GoneError, InvalidInputError, NotFoundError
from anabranch.store import branches


async def test_a_fork_pins_the_manifest_that_is_current(db):
    line = await line_with_records(db)
    second = await building.publish_versions(db, line, building.version("b", {"text": "second"}))
    async with db.connection() as conn:
        branch = await fork(conn, line)
        older = await fork(conn, line, name="run-2", generation=1)
    assert (branch.parent_generation, branch.parent_baseline_id) == (2, second.baseline_id)
    assert branch.parent_manifest_hash == second.manifest_hash
    assert (branch.baseline_namespace, branch.baseline_name) == ("team", "facts")
    assert branch.sharing_policy == {"default": "private"}
    assert older.parent_generation == 1


async def test_the_same_resource_forks_once_though_the_line_moves_on(db):
    line = await line_with_records(db)
    async with db.connection() as conn:
        branch = await fork(conn, line)
    await building.publish_versions(db, line, building.version("b", {"text": "second"}))
    async with db.connection() as conn:
        again = await fork(conn, line)
        assert await conn.fetchval("SELECT count(*) FROM branches") == 1
    assert again == branch


async def test_eight_operators_that_fork_for_one_resource_make_one_branch(db):
    line = await line_with_records(db)

    async def once() -> str:
        async with db.connection() as conn:
            return (await fork(conn, line)).branch_id

    assert len(set(await asyncio.gather(*(once() for _ in range(8))))) == 1


async def test_a_fork_that_meets_another_before_its_commit_gives_that_one(db):
    line = await line_with_records(db)
    async with db.connection() as first, db.connection() as second:
        transaction = first.transaction()
        await transaction.start()
        branch = await fork(first, line)
        task = asyncio.create_task(fork(second, line))
        await blocked(db, task)
        await transaction.commit()
        assert (await task).branch_id == branch.branch_id


async def test_a_line_without_a_manifest_cannot_be_forked(db):
    line = await building.new_line(db)
    async with db.connection() as conn:
        with pytest.raises(NotFoundError, match="no manifest yet"):
            await fork(conn, line)


async def test_a_generation_that_never_was_is_not_found_and_a_pruned_one_is_gone(db):
    line = await line_with_records(db)
    await building.publish_versions(db, line, building.version("b", {"text": "second"}))
    async with db.connection() as conn:
        with pytest.raises(NotFoundError, match="Generation 3"):
            await fork(conn, line, generation=3)
        await conn.execute("DELETE FROM manifests WHERE generation = 1")
        with pytest.raises(GoneError, match="Generation 1"):
            await fork(conn, line, generation=1)


async def test_a_fork_that_races_with_a_prune_is_told_so(db):
    line = await line_with_records(db)
    await building.publish_versions(db, line, building.version("b", {"text": "second"}))
    async with db.connection() as pruning, db.connection() as forking:
        transaction = pruning.transaction()
        await transaction.start()
        await pruning.execute("DELETE FROM manifests WHERE generation = 1")
        task = asyncio.create_task(fork(forking, line, generation=1))
        await blocked(db, task)
        await transaction.commit()
        with pytest.raises(GoneError):
            await task


async def test_a_prune_that_races_with_a_fork_fails(db):
    line = await line_with_records(db)
    await building.publish_versions(db, line, building.version("b", {"text": "second"}))
    async with db.connection() as pruning, db.connection() as forking:
        transaction = forking.transaction()
        await transaction.start()
        await fork(forking, line, generation=1)
        task = asyncio.create_task(pruning.execute("DELETE FROM manifests WHERE generation = 1"))
        await blocked(db, task)
        await transaction.commit()
        with pytest.raises(asyncpg.ForeignKeyViolationError):
            await task


async def test_a_branch_is_found_by_id_name_and_uid_until_its_resource_is_deleted(db):
    branch = await new_branch(db)
    async with db.connection() as conn:
        assert await branches.get(conn, branch.branch_id) == branch
        assert await branches.by_name(conn, namespace=AGENTS, name="run-1") == branch
        await branches.mark_deleted(conn, line=branch.line, branch_id=branch.branch_id)
        assert await branches.by_name(conn, namespace=AGENTS, name="run-1") is None
        assert await branches.list_by_namespace(conn, namespace=AGENTS, limit=10) == []
        gone = await branches.by_uid(conn, namespace=AGENTS, name="run-1", uid=branch.uid)
        again = await fork(conn, branch.line, uid="another")
        assert await branches.by_name(conn, namespace=AGENTS, name="run-1") == again
    assert gone is not None
    assert gone.branch_id == branch.branch_id
    assert gone.deleted_at is not None


async def test_a_text_that_is_no_id_is_refused(db):
    async with db.connection() as conn:
        with pytest.raises(InvalidInputError):
            await branches.get(conn, "br_nonsense")


async def test_branches_are_listed_by_name_in_pages(db):
    line = await line_with_records(db)
    async with db.connection() as conn:
        for name in ("c", "a", "b"):
            await fork(conn, line, name=name)
        first = await branches.list_by_namespace(conn, namespace=AGENTS, limit=2)
        second = await branches.list_by_namespace(conn, namespace=AGENTS, after=first[-1].name, limit=2)
    assert [branch.name for branch in (*first, *second)] == ["a", "b", "c"]


async def test_an_older_resource_does_not_undo_a_newer_one(db):
    branch = await new_branch(db)

    async def save(generation: int, task: str) -> bool:
        async with db.connection() as conn:
            return await branches.update_spec(
                conn,
                line=branch.line,
                branch_id=branch.branch_id,
                observed_generation=generation,
                task=task,
                sharing_policy={"default": "shareable"},
            )

    assert await save(3, "newer")
    assert not await save(3, "newer"), "nothing changed, so no status is to be written"
    assert not await save(2, "older")
    async with db.connection() as conn:
        found = await branches.get(conn, branch.branch_id)
    assert found is not None
    assert (found.task, found.observed_generation, found.version) == ("newer", 3, branch.version + 1)
    assert found.sharing_policy == {"default": "shareable"}


async def test_a_completed_branch_keeps_its_phase(db):
    branch = await new_branch(db)
    where = {"line": branch.line, "branch_id": branch.branch_id}
    async with db.connection() as conn:
        assert await branches.set_phase(conn, **where, phase="Stale")
        assert not await branches.set_phase(conn, **where, phase="Stale")
        assert await branches.set_phase(conn, **where, phase="Denied")
        denied = await branches.get(conn, branch.branch_id)
        await conn.execute("UPDATE branches SET phase = 'Completed'")
        assert not await branches.set_phase(conn, **where, phase="Expired")
    assert denied is not None
    assert denied.finished_at is not None
