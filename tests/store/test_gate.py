"""Commits wait for a standby that is not there: writes are refused, and all else goes on as if it were."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time

import asyncpg
import httpx
import pytest
from tests import pairs
from tests.pace import allowed
from tests.store.served import serving
from tests.store.world import AGENTS, AUTOMATIC, TEAM, World

from anabranch.controllers.reach import Reach
from anabranch.model.canonical import hash_text, sha256
from anabranch.model.errors import UnavailableError
from anabranch.store import durability, evidence, notices
from anabranch.store.durability import RefusedError, UnsettledError

pytestmark = pytest.mark.outages

EVERY_SECONDS = 0.2
AWAY_SECONDS = 4.0


async def run_of(db, name="ada"):
    world = World(db)
    await world.import_documents({"a": "one"}, **AUTOMATIC)
    return await world.apply_branch(name)


async def put(db, branch, body):
    async with db.connection() as conn:
        where = {"line": branch.line, "branch_id": branch.branch_id}
        return await evidence.put(conn, **where, digest=sha256(body), media_type="text/plain", body=body)


async def count(conn):
    return await conn.fetchval("SELECT count(*) FROM evidence")


async def until(holds, seconds=30):
    async with asyncio.timeout(seconds):
        while not holds():  # noqa: ASYNC110  (only looking tells)
            await asyncio.sleep(0.01)


class Steady:
    """Does something again and again, whatever becomes of it, and knows how long each took."""

    def __init__(self, do):
        self._do = do
        self.done = []  # when it began, how long it took, what came of it

    async def run(self):
        async with asyncio.TaskGroup() as group:
            for number in itertools.count():
                group.create_task(self._once(number))
                await asyncio.sleep(EVERY_SECONDS)

    async def _once(self, number):
        began = time.monotonic()
        outcome = await self._do(number)
        self.done.append((began, time.monotonic() - began, outcome))

    def since(self, moment):
        return [(took, outcome) for began, took, outcome in self.done if began >= moment]

    def longest(self, begin, end):
        return max(took for began, took, _ in self.done if begin <= began < end)


@contextlib.asynccontextmanager
async def meanwhile(*running):
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(each.run()) for each in running]
        yield
        for task in tasks:
            task.cancel()


async def test_reads_and_signs_of_life_go_on_while_writes_are_refused_and_writes_when_the_standby_is_back(
    synchronous, opened
):
    """Five writes a second to an API, and five to an operator, are more than their connections bear for long."""
    operator = await opened(synchronous.dsn("operator"), max_size=20)
    async with serving(operator, synchronous.dsn("api")) as served, httpx.AsyncClient(timeout=60) as http:
        await served.world.import_documents({"a": "one"}, **AUTOMATIC)
        branch, other = [await served.world.apply_branch(name) for name in ("ada", "bob")]
        space = f"{served.url}/v1/namespaces"
        record = f"{space}/{TEAM}/baselines/facts/manifests/1/records/a"
        token = {"Authorization": "Bearer ada"}

        async def write(number):
            body = b"log %d" % number
            where = f"{space}/{AGENTS}/branches/{branch.branch_id}/evidence/{hash_text(sha256(body))}"
            return await http.put(where, content=body, headers={**token, "Content-Type": "text/plain"})

        async def work(number):
            try:
                await put(operator, other, b"work %d" % number)
            except UnavailableError as error:
                return error

        async def read(_number):
            return (await http.get(record, headers=token)).status_code

        async def ready(_number):
            return (await http.get(f"{served.url}/readyz")).json()

        reach = Reach(operator, patience=allowed(6))
        writes, works, reads, probes = Steady(write), Steady(work), Steady(read), Steady(ready)
        async with meanwhile(writes, works, reads, probes, reach):
            await until(lambda: len(writes.done) > 3 and reach.lately())
            pairs.freeze(synchronous.standby)
            known = time.monotonic() + allowed(2)
            while time.monotonic() < known + AWAY_SECONDS:
                assert reach.lately()
                await asyncio.sleep(0.05)
            pairs.freeze(synchronous.standby, pairs.signal.SIGCONT)
            back = time.monotonic()
            await until(lambda: any(outcome.is_success for _, outcome in writes.since(back)), allowed(2))
            await until(lambda: any(outcome is None for _, outcome in works.since(back)), allowed(2))
            settled = time.monotonic()
            await until(lambda: len(writes.since(settled)) > 3)

    assert {outcome for _, _, outcome in reads.done} == {200}
    assert max(steady.longest(known, back) for steady in (reads, probes)) < allowed(1)
    assert max(steady.longest(0, back) for steady in (reads, probes)) < allowed(3)  # nobody knew of it yet
    assert {outcome["status"] for _, _, outcome in probes.done} == {"ok"}
    assert all("commits" in outcome["checks"] for began, _, outcome in probes.done if known < began < back - 1)
    refused = [(took, outcome) for began, took, outcome in writes.done if known < began < back - 1]
    assert refused
    for took, outcome in refused:
        assert (outcome.status_code, outcome.headers["Retry-After"]) == (503, "1")
        assert "synchronous standby" in outcome.json()["detail"]
        assert took < allowed(1)
    assert {type(outcome) for began, _, outcome in works.done if known < began < back - 1} == {RefusedError}
    assert all(outcome.is_success for _, outcome in writes.since(settled))
    kept = [outcome for _, _, outcome in writes.done if outcome.is_success]
    assert await synchronous.ask(synchronous.primary, "SELECT count(*) FROM evidence") >= len(kept)


@pytest.mark.parametrize("agents", [("ada", "bob", "eve"), ("ada", "ada", "ada")], ids=["commits", "locks"])
async def test_what_waits_is_let_go_when_somebody_needs_its_connection(synchronous, opened, agents):
    """A burst takes them all before anybody knows that there is no standby; with writes of one agent by its lock."""
    operator = await opened(synchronous.dsn("operator"))
    branch = {name: await run_of(operator, name) for name in sorted(set(agents))}
    api = await opened(synchronous.dsn("api"), max_size=3)
    pairs.freeze(synchronous.standby)
    writes = [asyncio.create_task(put(api, branch[name], b"log %d" % n)) for n, name in enumerate(agents)]
    await until(lambda: api.use()["used"] == 3)
    began = time.monotonic()
    async with api.connection() as conn:
        assert time.monotonic() - began < allowed(2)
        assert await count(conn) <= 3
    outcomes = await asyncio.gather(*writes, return_exceptions=True)  # those that nobody needs any more wait on
    assert time.monotonic() - began < allowed(2 + durability.PATIENCE_SECONDS)
    assert {type(outcome) for outcome in outcomes} - {UnavailableError} == {UnsettledError}


async def test_a_commit_whose_connection_nobody_needs_waits_on_and_is_acknowledged(synchronous, opened):
    branch = await run_of(await opened(synchronous.dsn("operator")))
    api = await opened(synchronous.dsn("api"))
    pairs.freeze(synchronous.standby)
    write = asyncio.create_task(put(api, branch, b"a log"))
    await until(lambda: api.commits_wait)
    with pytest.raises(RefusedError):
        await put(api, branch, b"another")
    pairs.freeze(synchronous.standby, pairs.signal.SIGCONT)
    assert await write
    await until(lambda: not api.commits_wait)
    assert await put(api, branch, b"another")


async def test_a_long_statement_is_not_a_long_wait(synchronous, opened, monkeypatch):
    """It has worked for as long as a commit may wait, and then waits for a moment."""
    monkeypatch.setattr(durability, "PATIENCE_SECONDS", 3.0)
    branch = await run_of(await opened(synchronous.dsn("operator")))
    api = await opened(synchronous.dsn("api"))
    pairs.freeze(synchronous.standby)

    async def write():
        async with api.connection() as conn:
            digest = sha256(b"a log")
            statement = """
                WITH long AS MATERIALIZED (SELECT pg_sleep(3.3))
                INSERT INTO evidence (line, branch_id, digest, size, media_type, body)
                SELECT $1, $2, $3, 5, 'text/plain', 'a log' FROM long
            """
            await conn.execute(statement, branch.line, branch.branch_id, digest)

    writing = asyncio.create_task(write())
    waits = "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE wait_event = 'SyncRep')"
    async with asyncio.timeout(30):
        while not await synchronous.ask(synchronous.primary, waits):  # noqa: ASYNC110  (only looking tells)
            await asyncio.sleep(0.02)
    await asyncio.sleep(0.4)
    assert not api.commits_wait
    pairs.freeze(synchronous.standby, pairs.signal.SIGCONT)
    await writing


async def test_while_commits_wait_all_that_reads_do_can_be_done(synchronous, opened):
    operator = await opened(synchronous.dsn("operator"))
    await run_of(operator)
    pairs.freeze(synchronous.standby)
    operator._gate.close()
    async with operator.connection() as conn, conn.transaction(readonly=True, isolation="repeatable_read"):
        assert await count(conn) == 0
    for isolation in (None, "read_committed", "repeatable_read", "serializable"):
        async with operator.transaction(isolation=isolation) as conn:
            assert await count(conn) == 0
        with pytest.raises(RefusedError):
            async with operator.transaction(isolation=isolation) as conn:
                await conn.execute("DELETE FROM evidence")

    async def in_two_steps():
        async with operator.connection() as conn:
            with contextlib.suppress(asyncpg.ReadOnlySQLTransactionError):
                await conn.execute("DELETE FROM evidence")
            await count(conn)

    with pytest.raises(RefusedError):
        await in_two_steps()
    with pytest.raises(RefusedError):
        async with operator.connection() as conn:
            await durability.settle(conn)
    async with operator.listen() as topics:
        heard = aiter(topics)
        assert await anext(heard) == notices.EVERYTHING
        operator.notify("a line")
        async with asyncio.timeout(allowed(3)):  # nobody waits for a standby to have that
            assert await anext(heard) == "a line"


async def test_signs_of_life_have_a_connection_of_their_own(opened, database):
    db = await opened(database.api, max_size=1)
    async with db.connection(), asyncio.timeout(allowed(2)), db.answers() as conn:
        assert await conn.fetchval("SELECT 1") == 1
    used = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND usename = current_user"
    async with db.connection() as conn:
        assert await conn.fetchval(used) == 2


async def test_a_process_that_holds_a_connection_for_long_refuses_nothing(opened, database, monkeypatch):
    monkeypatch.setattr(durability, "LONG_SECONDS", 0.1)
    db = await opened(database.operator, max_size=1)
    branch = await run_of(db)
    async with db.connection():
        waits = asyncio.create_task(put(db, branch, b"a log"))
        await asyncio.sleep(1)
        assert not db.commits_wait
    assert await waits


async def test_a_server_that_is_gone_keeps_the_gate_as_it_is(synchronous, opened):
    """And what becomes of it is found out at the one that is promoted."""
    branch = await run_of(await opened(synchronous.dsn("operator")))
    api = await opened(synchronous.dsn("api"))
    await put(api, branch, b"a log")
    pairs.freeze(synchronous.standby)
    write = asyncio.create_task(put(api, branch, b"another"))
    await until(lambda: api.commits_wait)
    pairs.kill(synchronous.primary)
    with pytest.raises(UnavailableError):
        await write
    pairs.freeze(synchronous.standby, pairs.signal.SIGCONT)
    await synchronous.promote()
    await until(lambda: not api.commits_wait)
    assert not await put(api, branch, b"a log")
