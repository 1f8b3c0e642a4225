"""Reads that a standby answers: what it says is what the primary would have said, however far behind or gone it is."""

from __future__ import annotations

import asyncio
import secrets
import signal
import time

import asyncpg
import pytest
from tests import pairs
from tests.pace import allowed
from tests.store import building
from tests.store.building import version

from anabranch.baselines import exporting, read, records
from anabranch.model.errors import GoneError, NotFoundError
from anabranch.search import asking, indexing
from anabranch.search.asking import Search, search
from anabranch.store import lines, pruning, reader, standbys
from anabranch.store.database import Database
from anabranch.store.reader import Reader
from anabranch.telemetry.of_api import STANDBY_READS

SHARED = ("shared",)
"""The scope of all records here."""


@pytest.fixture(scope="module")
async def pair(postgres_server, run_folder, template, role_passwords):
    if postgres_server.folder is None:
        pytest.skip("a server that was given is not copied")
    with pairs.folder_below(run_folder) as folder:
        started = await pairs.start(folder, origin=postgres_server, database=template.name, passwords=role_passwords)
        yield started
        await started.stop()


@pytest.fixture
async def standby(pair):
    """One that is well, whatever the test before did to it."""
    if pair.standby is None:
        await asyncio.to_thread(pair.follow)
    await pair.caught_up()
    return pair.standby


async def lose(pair):
    """Be without a standby from now on."""
    pairs.freeze(pair.standby, signal.SIGCONT)
    await asyncio.to_thread(pair.standby.stop)
    pair.standby = None


@pytest.fixture
async def db(pair):
    opened = await Database.open(pair.of(pair.primary, "operator"), application_name="test operator")
    yield opened
    await opened.close()


@pytest.fixture
async def api(pair, standby, monkeypatch):
    """The API's database, which knows that its standby is there, and waits for it however busy the machine is."""
    monkeypatch.setattr(standbys, "_TURN_SECONDS", 30.0)
    opened = await Database.open(
        pair.of(pair.primary, "api"), application_name="test api", standbys_dsn=pair.of(standby, "api")
    )
    await reached(opened)
    yield opened
    await opened.close()


@pytest.fixture
async def line(db, pair, standby):
    """Three generations, on both servers."""
    line = await building.new_line(db, name=f"line-{secrets.token_hex(4)}")
    await building.import_records(db, line, {"a": "the first words", "b": "more of them"})
    await building.publish_versions(db, line, version("a", "other words"))
    await building.publish_versions(db, line, version("c", "nothing more"))
    await pair.caught_up()
    return line


@pytest.fixture
def counted():
    """How many reads had each outcome since the test began."""
    outcomes = ("standby", "behind", "conflict", "failed", "busy", "away")
    before = {name: STANDBY_READS.labels(name)._value.get() for name in outcomes}
    return lambda: {
        name: count for name in outcomes if (count := int(STANDBY_READS.labels(name)._value.get() - before[name]))
    }


async def reached(db, *, away=False):
    async with asyncio.timeout(30):
        while db.standbys.left_alone is not away:  # noqa: ASYNC110  (a server, or another task, tells it by nothing else)
            await asyncio.sleep(0.01)


async def get(db, line, key="a", generation=1, scopes=SHARED):
    row = await records.one(Reader(db), line=line, generation=generation, key=key, scopes=scopes)
    return row.body


async def answers(db, line):
    """What readers are told of two manifests, in every way."""
    first, second = [read.ref(await read.manifest(db, line=line, ref=ref)) for ref in (1, 2)]
    bounds = {"after_key": "", "limit": 10}
    page = await records.page(db, line=line, manifest=second, scopes=SHARED, prefix="", tombstones=True, **bounds)
    diff = await records.diff(db, line=line, before=first, after=second, scopes=SHARED, **bounds)
    proven = await records.proven(Reader(db), line=line, manifest=first, key="a", scopes=SHARED)
    archive = await exporting.prepare(db, line=line, ref="1", allowed=SHARED, readable=SHARED, wanted=None)
    sent = exporting.stream(db, archive, offset=0, check=None, among=asyncio.Semaphore())
    found = await search(db, Search(line=line, ref="2", scopes=SHARED, text="words"), offset=0, limit=10)
    return [page, diff, proven, [piece async for piece in sent], found, await get(db, line)]


async def test_all_that_never_changes_is_read_on_the_standby_and_is_the_same(db, api, line, counted):
    assert await answers(api, line) == await answers(db, line)
    assert counted() == {"standby": 7}  # a proof comes with its record, which is one more read


async def test_a_search_on_a_standby_whose_index_is_behind_finds_the_same(pair, db, api, line):
    async with pair.lagging():
        while await indexing.turn(db):
            pass
        asked = Search(line=line, ref="2", scopes=SHARED, text="other")
        there, here = [await search(one, asked, offset=0, limit=10) for one in (api, db)]
    assert there.indexed_through < here.indexed_through
    assert [hit.key for hit in there.hits] == [hit.key for hit in here.hits] == ["a"]
    assert there.complete


async def test_a_search_that_a_standby_cannot_answer_in_full_is_asked_of_the_primary(
    pair, db, api, line, counted, monkeypatch
):
    monkeypatch.setattr(asking, "_LATE", 1)  # versions that are read though the index has not got them
    async with pair.lagging():
        while await indexing.turn(db):
            pass
        before = counted().get("behind", 0)
        found = await search(api, Search(line=line, ref="2", scopes=SHARED, text="other"), offset=0, limit=10)
        assert found.complete
        assert [hit.key for hit in found.hits] == ["a"]
        assert counted()["behind"] == before + 1


async def test_what_a_standby_has_not_got_yet_comes_from_the_primary(pair, db, api, line, counted):
    async with pair.lagging():
        await building.publish_versions(db, line, version("a", "newer"))
        assert await get(api, line, generation=4) == b'"newer"'
        assert await get(api, line, generation=None) == b'"newer"'  # the current one
        assert counted() == {"behind": 1}
        assert await get(api, line, generation=1) == b'"the first words"'
        assert counted() == {"behind": 1, "standby": 1}
    assert not api.standbys.left_alone


async def test_a_pruned_manifest_and_a_deleted_baseline_are_gone_though_a_standby_has_them(
    pair, db, api, line, monkeypatch
):
    """Within the seconds for which answers about grants are believed too."""
    monkeypatch.setattr(reader, "STANDING_SECONDS", 0.2)
    async with pair.lagging():
        known = Reader(api)
        for generation in (1, 2):
            await known.read(line=line, generation=generation, key="a", scopes=SHARED)
        async with db.transaction() as conn:
            assert await pruning.drop(conn, line=line, generations=[1])
        await asyncio.sleep(0.3)
        with pytest.raises(GoneError):
            await known.read(line=line, generation=1, key="a", scopes=SHARED)
        async with db.connection() as conn:
            assert await lines.mark_deleted(conn, line=line, uid="uid-1")
        await asyncio.sleep(0.3)
        with pytest.raises(NotFoundError):
            await known.read(line=line, generation=2, key="a", scopes=SHARED)


async def test_what_a_standby_has_lost_to_pruning_of_its_own_is_asked_of_the_primary(pair, db, api, line):
    await pair.promote()
    elsewhere = await Database.open(pair.of(pair.standby, "operator"), application_name="test elsewhere")
    async with elsewhere.transaction() as conn:
        assert await pruning.drop(conn, line=line, generations=[1])
    await elsewhere.close()
    assert await get(api, line) == b'"the first words"'
    await lose(pair)


async def test_a_standby_that_was_promoted_and_went_its_own_way_is_not_believed(pair, db, api, line, counted):
    await pair.promote()
    elsewhere = await Database.open(pair.of(pair.standby, "operator"), application_name="test elsewhere")
    await building.publish_versions(elsewhere, line, version("a", "of another history"))
    await elsewhere.close()
    await building.publish_versions(db, line, version("a", "of this one"))
    assert await get(api, line, generation=4) == b'"of this one"'
    assert counted() == {"behind": 1}
    assert await get(api, line, generation=1) == b'"the first words"'  # of which there is one only
    assert counted() == {"behind": 1, "standby": 1}
    await lose(pair)


async def test_a_standby_that_goes_costs_one_read_a_second_try_and_is_used_again_when_it_is_back(
    pair, api, line, counted, monkeypatch
):
    assert await get(api, line) == b'"the first words"'
    folder = pair.standby.folder
    await asyncio.to_thread(pair.standby.stop)
    for _ in range(5):
        assert await get(api, line) == b'"the first words"'
    assert counted() == {"standby": 1, "failed": 1}  # and the rest did not ask
    assert api.standbys.left_alone
    pair.standby = await asyncio.to_thread(pairs.postgres.start, folder, durable=False, settings={"cluster_name": "x"})
    await reached(api)
    assert await get(api, line) == b'"the first words"'
    assert counted() == {"standby": 2, "failed": 1}


async def test_a_standby_that_is_not_there_at_the_start_keeps_nobody_from_starting(pair, line, standby):
    away = pair.of(standby, "api").replace(f":{pairs._place(standby.dsn).partition(':')[2]}/", ":1/")
    opened = await Database.open(pair.of(pair.primary, "api"), application_name="test api", standbys_dsn=away)
    assert await get(opened, line) == b'"the first words"'
    assert opened.standbys.left_alone
    await opened.close()


async def test_a_standby_that_answers_nothing_is_passed_over_in_time(pair, api, line, counted, monkeypatch):
    monkeypatch.setattr(standbys, "READ_SECONDS", 0.3)
    pairs.freeze(pair.standby)
    began = time.monotonic()
    assert await get(api, line) == b'"the first words"'
    assert time.monotonic() - began < allowed(3)
    assert api.standbys.left_alone
    assert counted() == {"failed": 1}
    await lose(pair)


async def test_a_read_that_stands_in_the_way_of_replay_is_repeated_on_the_primary_and_nothing_more(api, line, counted):
    tried = []

    async def work(conn):
        tried.append(await conn.fetchval("SELECT pg_is_in_recovery()"))
        if tried == [True]:
            raise asyncpg.SerializationError("canceling statement due to conflict with recovery")
        return len(tried)

    name = (await read.manifest(api, line=line, ref=1)).baseline_id
    assert await standbys.read(api, line=line, baseline_ids=[name], work=work) == 2
    assert tried == [True, False]
    assert counted() == {"conflict": 1}
    assert not api.standbys.left_alone


async def test_a_full_house_is_no_failure(api, line, counted, monkeypatch):
    monkeypatch.setattr(standbys, "_TURN_SECONDS", 0.05)
    held = [await api.standbys._pool.acquire() for _ in range(standbys._CONNECTIONS)]
    assert await get(api, line) == b'"the first words"'
    assert counted() == {"busy": 1}
    assert not api.standbys.left_alone
    for conn in held:
        await api.standbys._pool.release(conn)


async def test_nobody_writes_on_what_is_read_so_even_where_it_is_the_primary(pair, line):
    opened = await Database.open(
        pair.of(pair.primary, "api"), application_name="test api", standbys_dsn=pair.of(pair.primary, "api")
    )
    await reached(opened)
    name = (await read.manifest(opened, line=line, ref=1)).baseline_id
    refused = []

    async def work(conn):
        try:
            await conn.execute("UPDATE lines SET due_at = now() WHERE line = $1", line)
        except asyncpg.ReadOnlySQLTransactionError as error:
            refused.append(error)

    await standbys.read(opened, line=line, baseline_ids=[name], work=work)
    assert len(refused) == 1
    await opened.close()


def test_settings_name_the_standbys():
    from anabranch.api.settings import Settings

    given = {"ANABRANCH_API_DSN": "postgresql://a", "ANABRANCH_CURSOR_KEYS": "k" * 32}
    assert Settings.from_environment(given).standbys_dsn is None
    assert Settings.from_environment({**given, "ANABRANCH_API_DSN_RO": ""}).standbys_dsn is None
    named = Settings.from_environment({**given, "ANABRANCH_API_DSN_RO": "postgresql://b:secret@c"})
    assert named.standbys_dsn == "postgresql://b:secret@c"
    assert "secret" not in repr(named)
