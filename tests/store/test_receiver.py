"""Batches that arrive together: one statement for all, and each with an answer of its own."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from tests.store.branching import arrival, fork, line_with_records, new_branch, receive_all

from anabranch.model.errors import ConflictError, InvalidInputError, NotFoundError, TooLargeError, UnavailableError
from anabranch.model.ids import new_branch_id
from anabranch.store import batches, receipts, receiver
from anabranch.store.receiver import Receiver


@pytest.fixture
def statements(monkeypatch):
    """How many batches each statement was given."""
    given = []
    receive = receipts.receive

    async def counted(conn, arrivals):
        given.append(len(arrivals))
        return await receive(conn, arrivals)

    monkeypatch.setattr(receiver.receipts, "receive", counted)
    return given


async def branches_of_a_line(db, count):
    line = await line_with_records(db)
    async with db.transaction() as conn:
        return [await fork(conn, line, name=f"run-{number}") for number in range(count)]


async def test_batches_of_many_branches_that_arrive_at_once_go_together(db, statements):
    branches = await branches_of_a_line(db, 5)
    receiving = Receiver(db)
    answers = await asyncio.gather(*(receiving.receive([arrival(branch, 1)]) for branch in branches))
    assert [answer.contiguous_through for (answer,) in answers] == [1] * 5
    assert statements == [5]


async def test_batches_of_two_lines_never_share_a_transaction(db, statements):
    branches = [await new_branch(db, name=f"run-{number}") for number in range(2)]
    receiving = Receiver(db)
    answers = await asyncio.gather(*(receiving.receive([arrival(branch, n)]) for branch in branches for n in (1, 2)))
    assert all(answer.contiguous_through for (answer,) in answers)
    assert statements == [2, 2]


async def test_each_batch_of_a_statement_is_received_or_refused_by_itself(db):
    branch, other = await branches_of_a_line(db, 2)
    await receive_all(db, branch, 1)
    async with db.connection() as conn:
        await conn.execute('UPDATE lines SET policy = \'{"limits": {"batchBytes": 100}}\' WHERE line = $1', branch.line)
    given = [
        arrival(branch, 1),  # a duplicate
        arrival(branch, 1, text="altered"),
        arrival(branch, 2),
        arrival(branch, 3, text="x" * 100),  # too large: what comes after it makes no prefix
        arrival(branch, 4),
        arrival(branch, 2_000),
        replace(arrival(branch, 1), branch_id=new_branch_id(branch.line)),
        arrival(other, 3),
        arrival(other, 1),
        arrival(other, 2),
    ]
    answers = await Receiver(db).receive(given)
    first, altered, second, large, fourth, far, nowhere, *others = answers
    assert (first.duplicate, first.contiguous_through) == (True, 2)
    assert [type(one) for one in (altered, large, far, nowhere)] == [
        ConflictError,
        TooLargeError,
        InvalidInputError,
        NotFoundError,
    ]
    assert [(one.duplicate, one.contiguous_through) for one in (second, fourth)] == [(False, 2), (False, 2)]
    assert [one.contiguous_through for one in others] == [3, 3, 3]
    async with db.connection() as conn:
        stored = await batches.page(conn, line=branch.line, branch_id=branch.branch_id, limit=10)
    assert [one.sequence for one in stored] == [1, 2, 4]


async def test_one_place_twice_in_a_statement_is_taken_once(db):
    branch = await new_branch(db)
    same, again, altered = arrival(branch, 1), arrival(branch, 1), arrival(branch, 1, text="altered")
    answers = await Receiver(db).receive([same, again, altered])
    assert [answers[0].duplicate, answers[1].duplicate] == [False, True]
    assert answers[0].receipt_id == answers[1].receipt_id
    assert isinstance(answers[2], ConflictError)


async def test_what_one_branch_waits_for_fails_no_other_one(db, statements):
    """A branch that stays locked costs its own agent an error; who came along with it is received."""
    locked, free = await branches_of_a_line(db, 2)
    async with db.transaction() as holder:
        await holder.execute("SELECT FROM branches WHERE branch_id = $1 FOR UPDATE", locked.branch_id)
        impatient = Receiver(Impatient(db))
        refused, answers = await asyncio.gather(
            impatient.receive([arrival(locked, 1)]), impatient.receive([arrival(free, 1)]), return_exceptions=True
        )
    assert isinstance(refused, UnavailableError)
    assert answers[0].contiguous_through == 1
    assert sorted(statements) == [1, 1, 2]
    assert (await Receiver(db).receive([arrival(locked, 1)]))[0].contiguous_through == 1


async def test_who_hangs_up_keeps_nobody_from_an_answer(db):
    branches = await branches_of_a_line(db, 3)
    receiving = Receiver(db)
    tasks = [asyncio.create_task(receiving.receive([arrival(branch, 1)])) for branch in branches]
    await asyncio.sleep(0)
    tasks[0].cancel()
    answers = await asyncio.gather(*tasks[1:])
    assert [answer.contiguous_through for (answer,) in answers] == [1, 1]
    assert (await receiving.receive([arrival(branches[0], 1)]))[0].contiguous_through == 1


class Impatient:
    """The same database, for whom a lock is not worth a wait."""

    def __init__(self, db):
        self._db = db

    def connection(self):
        return _ImpatientConnection(self._db)


class _ImpatientConnection:
    def __init__(self, db):
        self._held = db.connection()

    async def __aenter__(self):
        conn = await self._held.__aenter__()
        await conn.execute("SET lock_timeout = '100ms'")
        return conn

    async def __aexit__(self, *error):
        return await self._held.__aexit__(*error)
