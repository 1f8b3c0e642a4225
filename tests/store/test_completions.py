"""Completions: a run closes once, when every batch before its end is in."""

from __future__ import annotations

import asyncio

import pytest
from tests.store.branching import digest, new_branch, receive, receive_all

from anabranch.model.errors import ConflictError, ForbiddenError, GoneError, NotFoundError
from anabranch.model.ids import new_branch_id
from anabranch.store import branches, completions


async def submit(conn, branch, last: int, *, text: str = "completion") -> completions.CompletionRow:
    return await completions.submit(
        conn,
        line=branch.line,
        branch_id=branch.branch_id,
        run_id=branch.run_id,
        content_hash=digest(text),
        body=text.encode(),
        last_submitted_sequence=last,
    )


async def phase(db, branch) -> str:
    async with db.connection() as conn:
        found = await branches.get(conn, branch.branch_id)
    assert found is not None
    return found.phase


async def test_a_run_whose_batches_are_in_closes_at_once(db):
    branch = await new_branch(db)
    await receive_all(db, branch, 1, 2)
    async with db.connection() as conn:
        row = await submit(conn, branch, 2)
        found = await branches.get(conn, branch.branch_id)
    assert row.closed_at is not None
    assert (row.body, row.last_submitted_sequence, row.contiguous_through) == (b"completion", 2, 2)
    assert found is not None
    assert (found.phase, found.final_sequence) == ("Completed", 2)
    assert found.finished_at is not None
    assert found.version > branch.version


async def test_a_run_without_batches_closes(db):
    branch = await new_branch(db)
    async with db.connection() as conn:
        assert (await submit(conn, branch, 0)).closed_at is not None


async def test_a_completion_that_overtook_its_batches_waits_for_the_last_gap(db):
    branch = await new_branch(db)
    await receive_all(db, branch, 1, 3)
    where = {"line": branch.line, "branch_id": branch.branch_id}
    async with db.connection() as conn:
        row = await submit(conn, branch, 3)
        assert (row.closed_at, row.contiguous_through) == (None, 1)
        assert not await completions.close(conn, **where)
        assert await phase(db, branch) == "Active"
        await receive(conn, branch, 2)
        assert await completions.close(conn, **where)
        assert not await completions.close(conn, **where), "a run closes once"
        closed = await completions.get(conn, **where)
    assert closed is not None
    assert closed.closed_at is not None
    assert await phase(db, branch) == "Completed"


async def test_a_sweep_closes_what_a_crash_left_open(db):
    ready, waiting = await new_branch(db), await new_branch(db, name="run-2")
    async with db.connection() as conn:
        for branch in (ready, waiting):
            await submit(conn, branch, 2)
            await receive(conn, branch, 2)
        await receive(conn, ready, 1)
        assert await completions.close_ready(conn, limit=10) == 1
        assert await completions.close_ready(conn, limit=10) == 0
    assert await phase(db, ready) == "Completed"
    assert await phase(db, waiting) == "Active"


async def test_the_same_completion_again_changes_nothing_and_another_is_a_conflict(db):
    branch = await new_branch(db)
    async with db.connection() as conn:
        first = await submit(conn, branch, 0)
        assert await submit(conn, branch, 0) == first
        with pytest.raises(ConflictError) as caught:
            await submit(conn, branch, 0, text="other")
    assert set(caught.value.extra) == {"received", "submitted"}


async def test_two_that_submit_different_completions_at_once_cannot_both_win(db):
    branch = await new_branch(db)

    async def once(text: str) -> completions.CompletionRow:
        async with db.connection() as conn:
            return await submit(conn, branch, 0, text=text)

    answers = await asyncio.gather(*(once(f"text {n % 2}") for n in range(8)), return_exceptions=True)
    won = {answer.content_hash for answer in answers if isinstance(answer, completions.CompletionRow)}
    assert len(won) == 1
    assert sum(isinstance(answer, ConflictError) for answer in answers) == 4


async def test_a_completion_cannot_leave_out_batches_that_are_in(db):
    branch = await new_branch(db)
    await receive_all(db, branch, 1, 4)
    async with db.connection() as conn:
        with pytest.raises(ConflictError) as caught:
            await submit(conn, branch, 3)
        assert await completions.get(conn, line=branch.line, branch_id=branch.branch_id) is None
        with pytest.raises(ConflictError):
            await submit(conn, branch, 3)
        assert (await submit(conn, branch, 4)).closed_at is None
    assert caught.value.extra == {"last_submitted_sequence": 3, "received_through": 4}


async def test_a_branch_that_was_denied_has_expired_or_never_was_cannot_complete(db):
    branch = await new_branch(db)
    async with db.connection() as conn:
        for name, error in (("Denied", ForbiddenError), ("Expired", GoneError)):
            await branches.set_phase(conn, line=branch.line, branch_id=branch.branch_id, phase=name)
            with pytest.raises(error):
                await submit(conn, branch, 0)
        with pytest.raises(NotFoundError):
            await completions.submit(
                conn,
                line=branch.line,
                branch_id=new_branch_id(branch.line),
                run_id="run",
                content_hash=digest("x"),
                body=b"x",
                last_submitted_sequence=0,
            )
