"""Receipts: durable once, in any order, and the same answer for the same bytes."""

from __future__ import annotations

import asyncio
import json
import random
from dataclasses import replace

import pytest
from tests.store.branching import (
    blocked,
    digest,
    fork,
    line_with_records,
    new_branch,
    open_automatic,
    receive,
    receive_all,
    register,
)

from anabranch.model.canonical import hash_text
from anabranch.model.errors import ConflictError, ForbiddenError, GoneError, InvalidInputError, NotFoundError
from anabranch.model.ids import new_branch_id
from anabranch.store import batches, branches, completions, receipts


async def complete(conn, branch, last: int) -> completions.CompletionRow:
    return await completions.submit(
        conn,
        line=branch.line,
        branch_id=branch.branch_id,
        run_id=branch.run_id,
        content_hash=digest("completion"),
        body=b"{}",
        last_submitted_sequence=last,
    )


async def test_the_same_batch_gets_the_same_receipt_and_is_not_written_again(db):
    branch = await new_branch(db)
    rows = "SELECT b.xmin, b.xmax, b.ctid, r.xmin, r.xmax, r.ctid FROM batches b, branches r"
    async with db.connection() as conn:
        first = await receive(conn, branch, 1)
        before = await conn.fetchrow(rows)
        again = await receive(conn, branch, 1)
        after = await conn.fetchrow(rows)
    assert not first.duplicate
    assert again.duplicate
    assert (again.receipt_id, again.received_at) == (first.receipt_id, first.received_at)
    assert before == after


async def test_another_batch_in_the_same_place_is_a_conflict_that_names_both(db):
    branch = await new_branch(db)
    async with db.connection() as conn:
        await receive(conn, branch, 1, text="one")
        with pytest.raises(ConflictError) as caught:
            await receive(conn, branch, 1, text="other")
        kept = await batches.get(conn, line=branch.line, branch_id=branch.branch_id, sequence=1)
    assert caught.value.extra["received"] == hash_text(digest("one 1"))
    assert caught.value.extra["submitted"] == hash_text(digest("other 1"))
    assert kept is not None
    assert kept.body == b"one 1"


async def test_sixteen_at_once_get_one_receipt(db):
    branch = await new_branch(db)

    async def once() -> receipts.ReceiptRow:
        async with db.connection() as conn:
            return await receive(conn, branch, 1)

    receipts = await asyncio.gather(*(once() for _ in range(16)))
    assert len({receipt.receipt_id for receipt in receipts}) == 1
    assert [receipt.duplicate for receipt in receipts].count(False) == 1


async def test_of_different_batches_at_once_one_is_kept(db):
    branch = await new_branch(db)

    async def once(text: str) -> receipts.ReceiptRow:
        async with db.connection() as conn:
            return await receive(conn, branch, 1, text=text)

    answers = await asyncio.gather(*(once(f"text {n}") for n in range(8)), return_exceptions=True)
    kept = [answer for answer in answers if isinstance(answer, receipts.ReceiptRow)]
    assert len(kept) == 1
    assert all(
        isinstance(answer, ConflictError) and answer.extra["received"] == hash_text(kept[0].content_hash)
        for answer in answers
        if answer is not kept[0]
    )


async def test_a_batch_that_another_transaction_commits_meanwhile_is_recognized(db):
    """ON CONFLICT DO NOTHING then shows no row to the statement that waited: it is asked again."""
    branch = await new_branch(db)
    async with db.connection() as first, db.connection() as second:
        transaction = first.transaction()
        await transaction.start()
        receipt = await receive(first, branch, 1)
        task = asyncio.create_task(receive(second, branch, 1))
        await blocked(db, task)
        await transaction.commit()
        again = await task
    assert (again.receipt_id, again.duplicate) == (receipt.receipt_id, True)


async def test_a_copy_of_the_batch_that_completes_a_run_is_recognized(db):
    """What the other way brought was the last one that was missing: the run is over, and has this batch."""
    branch = await new_branch(db)
    async with db.connection() as first, db.connection() as second:
        await complete(first, branch, 1)
        transaction = first.transaction()
        await transaction.start()
        receipt = await receive(first, branch, 1)
        await completions.close(first, line=branch.line, branch_id=branch.branch_id)
        task = asyncio.create_task(receive(second, branch, 1))
        await blocked(db, task)
        await transaction.commit()
        again = await task
        with pytest.raises(ConflictError, match="completed"):
            await receive(second, branch, 2)
    assert (again.receipt_id, again.duplicate) == (receipt.receipt_id, True)


async def test_a_batch_whose_first_sender_rolls_back_is_received(db):
    branch = await new_branch(db)
    async with db.connection() as first, db.connection() as second:
        transaction = first.transaction()
        await transaction.start()
        await receive(first, branch, 1)
        task = asyncio.create_task(receive(second, branch, 1))
        await blocked(db, task)
        await transaction.rollback()
        assert not (await task).duplicate


@pytest.mark.parametrize("seed", range(3))
async def test_every_receipt_tells_how_far_the_batches_are_gap_free(db, seed):
    branch = await new_branch(db)
    order = random.Random(seed).sample(range(1, 121), 120)
    received: set[int] = set()
    async with db.connection() as conn:
        for sequence in order:
            received.add(sequence)
            expected = next(n for n in range(122) if n + 1 not in received)
            assert (await receive(conn, branch, sequence)).contiguous_through == expected
            found = await branches.contiguous_through(conn, line=branch.line, branch_id=branch.branch_id)
            assert found == expected


async def test_batches_received_at_once_are_all_counted_by_the_next_look(db):
    branch = await new_branch(db)

    async def some(sequences: list[int]) -> None:
        await receive_all(db, branch, *sequences)

    await asyncio.gather(*(some(list(range(first, 81, 8))) for first in range(1, 9)))
    async with db.connection() as conn:
        assert await branches.contiguous_through(conn, line=branch.line, branch_id=branch.branch_id) == 80


async def test_a_batch_may_run_1024_ahead_of_the_gap_free_run_and_no_further(db):
    branch = await new_branch(db)
    async with db.connection() as conn:
        await receive(conn, branch, 1)
        assert (await receive(conn, branch, 1_025)).contiguous_through == 1
        with pytest.raises(InvalidInputError, match="1024 ahead of 1") as caught:
            await receive(conn, branch, 1_026)
    assert caught.value.extra == {"limit": 1_024, "contiguous_through": 1}


async def test_the_batch_that_fills_the_gap_reaches_over_the_whole_window(db):
    branch = await new_branch(db)
    async with db.connection() as conn:
        await conn.execute(
            "INSERT INTO batches (line, branch_id, sequence, receipt_id, content_hash, body, changes, prefix)"
            " SELECT $1, $2, n, 'r' || n, '\\x00', '\\x00', 1, 0 FROM generate_series(2, 1024) AS n",
            branch.line,
            branch.branch_id,
        )
        assert (await receive(conn, branch, 1)).contiguous_through == 1_024
        assert (await receive(conn, branch, 1_025)).contiguous_through == 1_025


async def test_a_receipt_reads_no_more_of_a_long_branch_than_of_a_short_one(db):
    branch = await new_branch(db)
    where = (branch.line, branch.branch_id)
    async with db.connection() as conn:
        await conn.execute(
            "INSERT INTO batches (line, branch_id, sequence, receipt_id, content_hash, body, changes, prefix)"
            " SELECT $1, $2, n, 'r' || n, '\\x00', repeat('x', 500)::bytea, 1, n FROM generate_series(1, 3000) AS n",
            *where,
        )
        columns = ((branch.line,), (branch.branch_id,), (3_001,), ("r",), (b"",), (b"",), (1,), (False,))
        receive_args = (*columns, (None,), 1_000, 1_024)
        plans = [
            await conn.fetchval(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {query.sql}", *args)
            for query, args in ((receipts._sql.receive, receive_args), (branches._sql.contiguous_through, where))
        ]
    assert [json.loads(plan)[0]["Plan"]["Shared Hit Blocks"] < 60 for plan in plans] == [True, True], plans


async def test_a_branch_that_does_not_exist_receives_nothing(db):
    line = await line_with_records(db)
    async with db.connection() as conn:
        branch = await fork(conn, line)
        with pytest.raises(NotFoundError):
            await receive(conn, replace(branch, branch_id=new_branch_id(line)), 1)
        for phase, error in (("Denied", ForbiddenError), ("Expired", GoneError)):
            await branches.set_phase(conn, line=line, branch_id=branch.branch_id, phase=phase)
            with pytest.raises(error):
                await receive(conn, branch, 1)


async def test_a_stale_branch_receives(db):
    branch = await new_branch(db)
    async with db.connection() as conn:
        await branches.set_phase(conn, line=branch.line, branch_id=branch.branch_id, phase="Stale")
        assert (await receive(conn, branch, 1)).contiguous_through == 1


async def test_a_completed_run_receives_only_what_it_has(db):
    branch = await new_branch(db)
    async with db.connection() as conn:
        receipt = await receive(conn, branch, 1)
        await complete(conn, branch, 1)
        assert (await receive(conn, branch, 1)).receipt_id == receipt.receipt_id
        with pytest.raises(ConflictError) as caught:
            await receive(conn, branch, 2)
        with pytest.raises(ConflictError) as changed:
            await receive(conn, branch, 1, text="changed")
    assert caught.value.extra["reason"] == "RunCompleted"
    assert "submitted" in changed.value.extra


async def test_a_receipt_waits_for_a_completion_that_is_being_submitted(db):
    branch = await new_branch(db)
    async with db.connection() as completing, db.connection() as receiving:
        await receive(receiving, branch, 1)
        transaction = completing.transaction()
        await transaction.start()
        await complete(completing, branch, 1)
        task = asyncio.create_task(receive(receiving, branch, 2))
        await blocked(db, task)
        await transaction.commit()
        with pytest.raises(ConflictError) as caught:
            await task
        assert await receiving.fetchval("SELECT count(*) FROM batches") == 1
    assert caught.value.extra["reason"] == "RunCompleted"


async def test_a_completion_waits_for_a_receipt_that_is_under_way(db):
    branch = await new_branch(db)
    async with db.connection() as completing, db.connection() as receiving:
        transaction = receiving.transaction()
        await transaction.start()
        await receive(receiving, branch, 1)
        task = asyncio.create_task(complete(completing, branch, 0))
        await blocked(db, task)
        await transaction.commit()
        with pytest.raises(ConflictError, match="batch 1 was received"):
            await task


async def test_the_last_missing_batch_is_told_to_complete_the_run(db):
    branch = await new_branch(db)
    async with db.connection() as conn:
        await complete(conn, branch, 2)
        assert not (await receive(conn, branch, 2)).completes
        assert (await receive(conn, branch, 1)).completes
        assert (await receive(conn, branch, 1)).completes, "its first sender may have died before it could"
        assert await completions.close(conn, line=branch.line, branch_id=branch.branch_id)
        assert not (await receive(conn, branch, 1)).completes


async def test_the_api_may_receive_and_complete(db, api_db):
    branch = await new_branch(db)
    async with api_db.connection() as conn:
        await receive(conn, branch, 1)
        assert (await complete(conn, branch, 1)).closed_at is not None


async def test_batches_are_read_in_order(db):
    branch = await new_branch(db)
    await receive_all(db, branch, 2, 3, 1)
    where = {"line": branch.line, "branch_id": branch.branch_id}
    async with db.connection() as conn:
        bodies = [b.body for b in await batches.of_range(conn, **where, from_sequence=1, through_sequence=2)]
        page = await batches.page(conn, **where, after=1, limit=5)
        assert await batches.get(conn, **where, sequence=9) is None
    assert bodies == [b"finding 1", b"finding 2"]
    assert [header.sequence for header in page] == [2, 3]


async def unassigned(db) -> list[str]:
    async with db.connection() as conn:
        return [found.branch_id for found in await batches.unassigned(conn, limit=10)]


async def test_branches_with_free_batches_are_found_until_a_job_has_them(db):
    ready, idle = await new_branch(db), await new_branch(db, name="idle")
    await receive_all(db, ready, 1, 2)
    assert await unassigned(db) == [ready.branch_id]
    async with db.connection() as conn:
        await open_automatic(conn, ready)
        assert await unassigned(db) == []
        await receive(conn, ready, 3)
        await receive(conn, idle, 2)
    assert await unassigned(db) == [], "one job a branch at a time, and no batch beyond a gap"


@pytest.mark.parametrize(
    "pause",
    [
        "UPDATE line_heads SET suspended = true",
        "UPDATE line_heads SET pinned_generation = 1",
        "UPDATE lines SET deleted_at = now()",
    ],
)
async def test_a_paused_line_has_no_free_batches(db, pause):
    branch = await new_branch(db)
    await receive_all(db, branch, 1)
    async with db.connection() as conn:
        await conn.execute(pause)
    assert await unassigned(db) == []


async def test_batches_of_a_reserved_range_are_found_when_all_are_there(db):
    branch = await new_branch(db)
    async with db.connection() as conn:
        await register(conn, branch, 1, 2)
        await receive(conn, branch, 1)
        assert await unassigned(db) == []
        await receive(conn, branch, 2)
        assert await unassigned(db) == [branch.branch_id]
