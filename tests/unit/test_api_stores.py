"""Where the API looks for a line when there are several databases, and what it says when one of them is away."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest
from tests.pace import allowed

from anabranch.api import access
from anabranch.api import stores as api_stores
from anabranch.api.listing import merged, told
from anabranch.api.settings import Settings
from anabranch.api.stores import Stores
from anabranch.model.errors import InvalidInputError, UnavailableError


class Store:
    """A store that has some things.

    Attributes:
        asked: How often.
    """

    def __init__(self, name, *has, fault=None, wait=0.0):
        self.name, self.has, self.fault, self.wait = name, set(has), fault, wait
        self.asked, self.silent, self.db = 0, 0, self
        self.severed = 0

    def sever(self):
        self.severed += 1
        return 1


async def look(store):
    store.asked += 1
    await asyncio.sleep(store.wait)
    if "broken" in store.has:
        raise UnavailableError("The driver's words.")
    return "it" if "it" in store.has else None


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(api_stores, "LOOK_SECONDS", 0.05)
    monkeypatch.setattr(api_stores, "GIVE_UP_SECONDS", 0.2)
    monkeypatch.setattr(api_stores, "_CHECK_TIMEOUT", 0.2)


async def test_what_was_found_once_is_looked_for_there_first_and_everywhere_when_it_is_gone():
    here, there = Store("default"), Store("east", "it")
    stores = Stores([here, there])
    assert await stores.find("ref", look) == (there, "it")
    assert await stores.find("ref", look) == (there, "it")
    assert (here.asked, there.asked) == (1, 2)
    there.has, here.has = set(), {"it"}
    assert await stores.find("ref", look) == (here, "it")
    here.has = set()
    assert await stores.find("ref", look) is None


@pytest.mark.parametrize(
    "away",
    [Store("west", "broken"), Store("west", fault=UnavailableError("away")), Store("west", wait=60.0)],
    ids=["breaks", "is known to be away", "hangs"],
)
async def test_a_store_that_is_away_keeps_nobody_from_what_lies_elsewhere_and_says_of_nothing_that_it_is_nowhere(away):
    there = Store("east", "it")
    stores = Stores([Store("default"), there, away])
    assert await stores.find("ref", look) == (there, "it")
    there.has = set()
    with pytest.raises(UnavailableError, match="The store west does not answer"):
        await stores.find("ref", look)
    with pytest.raises(UnavailableError, match="The store west does not answer"):
        await stores.each(look)
    assert await stores.reachable(look) == [None, None]


async def test_a_remembered_place_that_is_away_is_not_gone_to_and_what_was_made_anew_elsewhere_is_found():
    there, here = Store("east", "it"), Store("default")
    stores = Stores([here, there])
    assert await stores.find("ref", look) == (there, "it")
    there.fault = UnavailableError("away")
    with pytest.raises(UnavailableError, match="The store east does not answer"):
        await stores.find("ref", look)
    assert there.asked == 1
    here.has = {"it"}
    assert await stores.find("ref", look) == (here, "it")


async def test_a_store_that_hangs_is_waited_for_a_moment_and_its_driver_not_at_all():
    there, elsewhere = Store("east", "it"), Store("west", "other")
    stores = Stores([Store("default"), there, elsewhere])
    assert await stores.find("ref", look) == (there, "it")
    loop = asyncio.get_running_loop()

    async def hang(store):
        if store is not there:
            return await look(store)
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(60)  # as a connection's release, which waits for what was cancelled

    began = loop.time()
    with pytest.raises(UnavailableError, match="The store east does not answer"):
        await stores.find("ref", hang)
    with pytest.raises(UnavailableError, match="The store east does not answer"):
        await stores.each(hang)
    assert loop.time() - began < allowed(2.0)


async def test_who_waits_for_a_store_that_stays_silent_is_let_go_and_not_for_one_that_was_slow_once():
    there = Store("east")
    stores = Stores([Store("default"), there])

    async def hang():
        await asyncio.sleep(60)

    async def answer():
        pass

    for check, severed in ((hang, 0), (answer, 0), (hang, 0), (hang, 1), (hang, 2), (answer, 2)):
        there.check = check
        await stores.look_at(there)
        assert (there.fault is None, there.db.severed) == (check is answer, severed)


async def test_a_caller_who_leaves_takes_what_was_asked_along():
    stores, ended = Stores([Store("default"), Store("east")]), []

    async def hang(store):
        try:
            await asyncio.sleep(60)
        finally:
            ended.append(store.name)

    asking = asyncio.create_task(stores.find("ref", hang))
    await asyncio.sleep(0.01)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    async with asyncio.timeout(30):
        while len(ended) < 2:  # noqa: ASYNC110  (what is waited for has no event)
            await asyncio.sleep(0.01)
    assert sorted(ended) == ["default", "east"]


async def test_what_two_stores_have_is_nobodys_to_choose():
    stores = Stores([Store("default", "it"), Store("east", "it")])
    with pytest.raises(UnavailableError, match=r"Several stores have it: default, east\."):
        await stores.find("ref", look)


async def test_a_defect_is_not_taken_for_absence():
    async def breaks(store):
        raise ZeroDivisionError(store.name)

    with pytest.raises(ZeroDivisionError):
        await Stores([Store("default"), Store("east")]).find("ref", breaks)


async def test_the_only_store_is_asked_and_nothing_is_remembered():
    alone = Store("default", "it")
    stores = Stores([alone])
    assert await stores.find("ref", look) == (alone, "it")
    alone.has = {"broken"}
    with pytest.raises(UnavailableError, match="driver"):
        await stores.find("ref", look)


async def test_lists_of_several_stores_are_one_by_name():
    here, there = Store("default"), Store("east")
    rows = merged([(here, [named("b"), named("d")]), (there, [named("a"), named("c")])])
    assert [(store.name, row.name) for store, row in rows] == [
        ("east", "a"),
        ("default", "b"),
        ("east", "c"),
        ("default", "d"),
    ]

    async def describe(store, some):
        return [named(f"{row.name}@{store.name}") for row in some]

    assert [item.name for item in await told(rows[:3], describe)] == ["a@east", "b@default", "c@east"]


def named(name):
    return SimpleNamespace(name=name)


BASE = {"ANABRANCH_API_DSN": "postgresql://here", "ANABRANCH_CURSOR_KEYS": "k" * 32}


def test_the_environment_names_the_stores_and_how_they_are_reached():
    settings = Settings.from_environment(
        {
            **BASE,
            "ANABRANCH_STORES": "far-east, west",
            "ANABRANCH_STORE_FAR_EAST_API_DSN": "postgresql://east",
            "ANABRANCH_STORE_FAR_EAST_LISTEN_DSN": "postgresql://direct",
            "ANABRANCH_STORE_WEST_API_DSN": "postgresql://west",
        }
    )
    assert {name: (one.dsn, one.listen_dsn) for name, one in settings.stores.items()} == {
        "far-east": ("postgresql://east", "postgresql://direct"),
        "west": ("postgresql://west", None),
    }
    assert "postgresql" not in repr(settings), "a DSN has a password"


@pytest.mark.parametrize(
    ("names", "words"),
    [
        ("east", "The store east has no DSN"),
        ("default", "has the name default twice"),
        ("east,east", "has the name east twice"),
        ("East", "is no name of a store"),
        ("e" * 33, "is no name of a store"),
    ],
)
def test_names_that_cannot_be_are_refused(names, words):
    with pytest.raises(InvalidInputError, match=words):
        Settings.from_environment({**BASE, "ANABRANCH_STORES": names})


async def test_the_name_of_a_job_means_the_live_one_whatever_another_store_keeps_of_a_former_one(monkeypatch):
    kept = {"default": None, "east": SimpleNamespace(deleted_at=None)}

    async def find(db, *, namespace, ref):
        return kept[db.name]

    monkeypatch.setattr(access.consolidation, "find", find)
    stores = [Store(name) for name in kept]
    for store in stores:
        store.db = store
    parts = SimpleNamespace(stores=Stores(stores))
    assert await access._job(parts, "team", "scout-1") == (stores[1], kept["east"])
    kept["east"] = former = SimpleNamespace(deleted_at="yesterday")
    assert await access._job(parts, "team", "scout-1") == (stores[1], former)
    kept["default"] = live = SimpleNamespace(deleted_at=None)
    assert await access._job(parts, "team", "scout-1") == (stores[0], live)
