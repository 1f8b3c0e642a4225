"""A database that hangs: nobody waits for another store's for long, and whoever waits for any can be let go."""

from __future__ import annotations

import asyncio
import contextlib
import time
from urllib.parse import urlsplit, urlunsplit

import pytest
from tests.chaos.wires import Wire
from tests.pace import allowed
from tests.store.world import AUTOMATIC, World

from anabranch.model.errors import UnavailableError
from anabranch.store import remote
from anabranch.store.durability import RefusedError
from anabranch.store.remote import Remote
from anabranch.store.severable import Severable


@pytest.fixture
async def wire(database):
    address = urlsplit(database.operator)
    wire = Wire("default", lambda: address.port or 5432)
    await wire.open()
    yield wire
    await wire.close()


@contextlib.asynccontextmanager
async def over(wire, database, kind):
    """The test's database over a wire that may go silent."""
    address = urlsplit(database.operator)
    host = f"{address.username}:{address.password}@127.0.0.1:{wire.port}"
    dsn = urlunsplit(address._replace(netloc=host))
    opened = await kind.open(dsn, application_name="test far", min_size=0, max_size=2)
    try:
        yield opened
    finally:
        wire.heal()
        await opened.close()


@pytest.fixture
async def far(database, wire, monkeypatch):
    monkeypatch.setattr(remote, "ANSWER_SECONDS", allowed(1.0))  # in which a connection may have to be opened
    monkeypatch.setattr(remote, "REST_SECONDS", 0.5)
    async with over(wire, database, Remote) as opened:
        yield opened


async def ask(db):
    async with db.connection() as conn:
        return await conn.fetchval("SELECT 1")


async def again(db, *, within):
    """Ask until there is an answer."""
    async with asyncio.timeout(allowed(within)):
        while True:
            try:
                return await ask(db)
            except UnavailableError:
                await asyncio.sleep(0.05)


async def test_a_server_that_hangs_is_felt_for_a_moment_and_then_not_at_all(far, wire):
    assert await ask(far) == 1
    wire.silence()
    began = time.monotonic()
    answers = await asyncio.gather(*(ask(far) for _ in range(8)), return_exceptions=True)
    assert {type(answer) for answer in answers} == {UnavailableError}
    assert time.monotonic() - began < allowed(3.0)
    with pytest.raises(UnavailableError, match="not answered lately"):
        await ask(far)


async def test_while_it_hangs_one_at_a_time_finds_out_whether_it_does_still(far, wire):
    wire.silence()
    with pytest.raises(UnavailableError, match="within"):
        await ask(far)
    await asyncio.sleep(remote.REST_SECONDS)
    answers = await asyncio.gather(*(ask(far) for _ in range(8)), return_exceptions=True)
    assert sorted("lately" in str(answer) for answer in answers) == [False, *[True] * 7]


@pytest.mark.parametrize("wrong", [ValueError("of the caller's"), RefusedError()])
async def test_what_is_wrong_with_the_question_says_nothing_of_the_server(far, wire, wrong):
    wire.silence()
    with pytest.raises(UnavailableError, match="within"):
        await ask(far)
    wire.heal()
    await asyncio.sleep(remote.REST_SECONDS)
    with pytest.raises(type(wrong)):
        async with far.connection():
            raise wrong
    assert await ask(far) == 1


async def test_it_is_used_again_once_it_answers(far, wire):
    wire.silence()
    with pytest.raises(UnavailableError):
        await ask(far)
    wire.heal()
    assert await again(far, within=5.0) == 1
    assert await asyncio.gather(*(ask(far) for _ in range(8))) == [1] * 8


async def test_a_run_under_a_new_agents_id_waits_for_the_other_store_and_holds_up_no_other(db, far, wire):
    world = World(db, ids=far)
    await world.import_documents({"a": "one"}, **AUTOMATIC)
    known = await world.apply_branch("before", account="ada")
    wire.silence()
    began = time.monotonic()
    with pytest.raises(UnavailableError):
        await world.apply_branch("new", account="eve")
    assert (await world.apply_branch("after", account="ada")).line == known.line
    assert time.monotonic() - began < allowed(3.0)


async def test_who_waits_for_a_database_that_hangs_is_told_once_it_is_let_go(database, wire):
    async with over(wire, database, Severable) as db:
        assert await ask(db) == 1
        wire.silence()
        waiting = asyncio.gather(*(ask(db) for _ in range(2)), return_exceptions=True)
        done, _ = await asyncio.wait([waiting], timeout=0.3)
        assert not done, "the server takes what it is sent"
        severed = db.sever()
        wire.heal()
        answers = await asyncio.wait_for(waiting, allowed(5.0))
        assert severed == 1, "the other one waits to be connected"
        assert [type(answer) for answer in answers].count(UnavailableError) == 1
        assert db.sever() == 0
        assert await ask(db) == 1
