"""Connections that break, transactions that lose, and notifications that get lost."""

from __future__ import annotations

import asyncio
import sys
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import pytest
from tests.deaf import deafen

from anabranch.model.errors import UnavailableError
from anabranch.store import pools
from anabranch.store.database import Database, now
from anabranch.store.durability import UnsettledError
from anabranch.store.notices import EVERYTHING

TOPIC_SECONDS = 60


@pytest.fixture
async def admin(database):
    conn = await asyncpg.connect(database.admin)
    await conn.execute("CREATE TABLE scratch (id int PRIMARY KEY, n int NOT NULL)")
    await conn.execute("INSERT INTO scratch VALUES (1, 0), (2, 0)")
    await conn.execute("GRANT ALL ON scratch TO anabranch_operator")
    yield conn
    await conn.close()


async def kill(admin, application_name):
    """End the server's side of some connections."""
    return await admin.fetchval(
        "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = $1", application_name
    )


async def test_a_server_that_is_not_there_is_unavailable():
    with pytest.raises(UnavailableError, match="Check that the server runs"):
        await Database.open("postgresql://nobody@127.0.0.1:1/none", application_name="test")


async def test_a_wrong_password_is_unavailable_and_not_shown(database, role_passwords):
    with pytest.raises(UnavailableError) as caught:
        await Database.open(database.api.replace(role_passwords.api, "not-the-password"), application_name="test")
    assert "not-the-password" not in str(caught.value)


async def test_a_broken_connection_is_unavailable_and_the_next_one_works(db, admin):
    async def use_after_the_end():
        async with db.connection() as conn:
            await kill(admin, "test operator")
            await conn.execute("SELECT 1")

    with pytest.raises(UnavailableError):
        await use_after_the_end()
    async with db.connection() as conn:
        assert await conn.fetchval("SELECT 1") == 1


@pytest.mark.parametrize("code", ["53100", "53200", "58030"], ids=["disk full", "out of memory", "I/O error"])
async def test_a_server_that_has_no_room_is_unavailable(db, code):
    with pytest.raises(UnavailableError, match="cannot be used now"):
        await db.run(lambda conn: conn.execute(f"DO $$ BEGIN RAISE 'no' USING ERRCODE = '{code}'; END $$"))


async def test_an_error_rolls_the_transaction_back(db, admin):
    async def write_and_fail(conn):
        await conn.execute("UPDATE scratch SET n = 7")
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await db.run(write_and_fail)
    assert await admin.fetchval("SELECT sum(n) FROM scratch") == 0


async def test_a_read_only_transaction_writes_nothing(db, admin):
    with pytest.raises(UnavailableError, match="read-only"):
        await db.run(lambda conn: conn.execute("UPDATE scratch SET n = 7"), readonly=True)


async def test_a_lost_race_is_run_again(db, admin):
    async def count_up(conn):
        n = await conn.fetchval("SELECT n FROM scratch WHERE id = 1")
        await asyncio.sleep(0.01)
        await conn.execute("UPDATE scratch SET n = $1 WHERE id = 1", n + 1)

    await asyncio.gather(*(db.run(count_up, isolation="serializable") for _ in range(4)))
    assert await admin.fetchval("SELECT n FROM scratch WHERE id = 1") == 4


async def test_a_deadlock_is_run_again(db, admin):
    both = asyncio.Barrier(2)

    async def crosswise(conn, first, second):
        await conn.execute("UPDATE scratch SET n = n + 1 WHERE id = $1", first)
        if both.n_waiting or not done:
            await both.wait()
            done.append(first)
        await conn.execute("UPDATE scratch SET n = n + 1 WHERE id = $1", second)

    done: list[int] = []
    await asyncio.gather(db.run(lambda conn: crosswise(conn, 1, 2)), db.run(lambda conn: crosswise(conn, 2, 1)))
    assert await admin.fetch("SELECT n FROM scratch") == [(2,), (2,)]


async def test_a_wait_for_a_lock_ends(db, admin):
    async def impatient(conn):
        await conn.execute("SET LOCAL lock_timeout = '50ms'")
        await conn.execute("UPDATE scratch SET n = 2 WHERE id = 1")

    async with admin.transaction():
        await admin.execute("UPDATE scratch SET n = 1 WHERE id = 1")
        with pytest.raises(UnavailableError, match="long transaction"):
            await db.run(impatient)


async def test_json_travels_as_values(db):
    value = {"text": "é \u2028", "list": [1, None, True, 1.5], "nested": {}}
    async with db.connection() as conn:
        assert await conn.fetchval("SELECT $1::jsonb", value) == value


async def test_a_commit_that_was_let_go_is_not_told_to_the_next_who_is_lent_its_connection(database):
    db = await Database.open(database.operator, application_name="test", max_size=1)

    async def use(*, let_go=False, fails=False):
        async with db.connection() as conn:
            conn._con.unsettled = let_go  # what the server's warning does
            if fails:
                raise ZeroDivisionError

    try:
        with pytest.raises(UnsettledError):
            await use(let_go=True)
        with pytest.raises(ZeroDivisionError):
            await use(let_go=True, fails=True)
        async with db.connection() as conn:
            assert await conn.fetchval("SELECT 1") == 1
    finally:
        await db.close()


async def test_a_connection_that_was_lent_carries_nothing_over(db):
    async with db.transaction() as conn:
        await conn.execute("SET LOCAL work_mem = '3MB'")
    async with db.connection() as conn:
        assert await conn.fetchval("SHOW work_mem") != "3MB"
        assert (await now(conn)).tzinfo is not None


async def expect(topics, *wanted):
    """Read topics until all wanted ones have come."""
    missing = set(wanted)
    async with asyncio.timeout(TOPIC_SECONDS):
        while missing:
            missing.discard(await anext(topics))


async def test_a_topic_reaches_the_listeners_of_every_process(db, api_db):
    async with db.listen() as operator_topics, api_db.listen() as api_topics:
        of_operator, of_api = aiter(operator_topics), aiter(api_topics)
        await expect(of_operator, EVERYTHING)
        await expect(of_api, EVERYTHING)
        db.notify("one")
        api_db.notify("two")
        await expect(of_operator, "one", "two")
        await expect(of_api, "one", "two")


async def test_topics_of_one_moment_go_together(db, admin):
    received: asyncio.Queue[str] = asyncio.Queue()
    await admin.add_listener("anabranch", lambda *args: received.put_nowait(args[-1]))
    for _ in range(500):
        db.notify("same")
    db.notify("other")
    async with asyncio.timeout(TOPIC_SECONDS):
        assert [await received.get(), await received.get()] == ["other", "same"]
    await admin.execute("SELECT 1")
    assert received.empty()


async def test_closing_sends_what_was_still_to_be_sent(database, admin):
    received: list[str] = []
    await admin.add_listener("anabranch", lambda *args: received.append(args[-1]))
    opened = await Database.open(database.operator, application_name="short")
    opened.notify("last words")
    await opened.close()
    await admin.execute("SELECT 1")
    assert received == ["last words"]


async def test_after_a_reconnect_a_listener_is_told_to_look_at_everything(db, admin):
    async with db.listen() as listener:
        topics = aiter(listener)
        await expect(topics, EVERYTHING)
        assert await kill(admin, "test operator listen") == 1
        await expect(topics, EVERYTHING)
        db.notify("again")
        await expect(topics, "again")


@pytest.mark.skipif(sys.platform != "linux", reason="its server is deaf by a filter of Linux")
async def test_a_server_that_vanished_without_a_word_is_noticed(database, monkeypatch):
    probes = {"TCP_KEEPIDLE": 1, "TCP_KEEPINTVL": 1, "TCP_KEEPCNT": 1, "TCP_USER_TIMEOUT": 1_000}
    monkeypatch.setattr(pools, "_PROBES", probes)
    target = urlsplit(database.operator)
    taken = []

    async def pass_on(reader, writer):
        there, back = await asyncio.open_connection(target.hostname, target.port)
        taken.extend([writer, back])
        await asyncio.gather(pipe(reader, back), pipe(there, writer), return_exceptions=True)

    async def pipe(reader, writer):
        while data := await reader.read(65_536):
            writer.write(data)
        taken.remove(writer)
        writer.close()

    server = await asyncio.start_server(pass_on, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    there = f"{target.netloc.rpartition('@')[0]}@127.0.0.1:{port}"
    db = await Database.open(urlunsplit(target._replace(netloc=there)), application_name="test")

    async def wait_for_ever():
        async with db.connection() as conn:
            waiting = asyncio.create_task(conn.fetchval("SELECT pg_sleep(60)"))
            await asyncio.sleep(0.1)
            for writer in taken:
                deafen(writer)
            await waiting

    try:
        with pytest.raises(UnavailableError):
            await asyncio.wait_for(wait_for_ever(), 60)
        async with db.connection() as conn:
            assert await conn.fetchval("SELECT 1") == 1
    finally:
        await db.close()
        server.close()
        for writer in [*taken]:
            writer.transport.abort()
