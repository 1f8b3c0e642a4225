"""What is due is visited, one visit an object, and a long one holds up no other."""

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime

import pytest

from anabranch.controllers import visits as module
from anabranch.controllers.keys import Key
from anabranch.controllers.visits import PARALLEL, Visits
from anabranch.controllers.wake import WakeQueue
from anabranch.model.errors import UnavailableError

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Row:
    """A line that is due, or an object that waits."""

    name: str
    kind: str = "Baseline"
    namespace: str = "team"
    due_at: datetime = NOW

    @property
    def line(self):
        return f"line of {self.name}"

    @property
    def uid(self):
        return f"uid of {self.name}"


class World:
    """The tables of what is due, and the reconciler."""

    def __init__(self, monkeypatch):
        self.lines, self.waiting = [], []
        self.settled, self.visited, self.most = [], [], 0
        self.running = set()
        self.retrying = set()
        self.long = {}
        self.away = False
        monkeypatch.setattr(module.lines, "claim_due", self.claim_due)
        monkeypatch.setattr(module.lines, "settle", self.settle)
        monkeypatch.setattr(module.waiting, "due", self.due)
        monkeypatch.setattr(module, "_GLANCE_SECONDS", 0.01)
        self.visits = Visits(self, self)

    def connection(self):
        return self

    async def __aenter__(self):
        if self.away:
            raise UnavailableError("Postgres is away.")

    async def __aexit__(self, *error):
        return None

    async def claim_due(self, _conn, *, limit, hold):
        assert hold.total_seconds() > 0
        taken, self.lines = self.lines[:limit], self.lines[limit:]
        return taken

    async def settle(self, _conn, *, line, due_at):
        self.settled.append((line, due_at))

    async def due(self, _conn, *, limit):
        return self.waiting[:limit]

    def will_retry(self, key):
        return key in self.retrying

    async def revisit(self, key, *, uid):
        assert uid == f"uid of {key.name}"
        assert key not in self.running
        self.visited.append(key.name)
        self.running.add(key)
        self.most = max(self.most, len(self.running))
        try:
            if key.name in self.long:
                await self.long[key.name].wait()
        finally:
            self.running.remove(key)

    async def until(self, condition):
        async with asyncio.timeout(30):
            while not condition():
                await self.visits.look()


@pytest.fixture
def world(monkeypatch):
    return World(monkeypatch)


async def test_a_long_visit_holds_up_no_other(world):
    world.long["large"] = asyncio.Event()
    world.lines = [Row("large"), Row("small")]
    await world.until(lambda: world.settled == [("line of small", NOW)])

    world.lines, world.waiting = [Row("later")], [Row("run", kind="Branch")]
    await world.until(lambda: {"later", "run"} <= set(world.visited))
    assert Key("Baseline", "team", "large") in world.running

    world.waiting = []
    world.long["large"].set()
    await world.until(lambda: not world.running)
    assert [line for line, _ in world.settled] == ["line of small", "line of later", "line of large"]
    assert not await world.visits.look()


async def test_an_object_has_one_visit_at_a_time_however_often_it_is_due(world):
    world.long["large"] = asyncio.Event()
    for _ in range(3):  # each wish that comes meanwhile is claimed, and stays to be granted
        world.lines = [Row("large")]
        world.waiting = [Row("large")]
        await world.visits.look()
    assert world.visited == ["large"]

    world.waiting = []
    world.long["large"].set()
    await world.until(lambda: not world.running)
    assert len(world.settled) == 1


async def test_no_more_than_so_many_visits_are_made_at_once_and_no_more_are_claimed(world):
    names = [f"line-{number}" for number in range(PARALLEL + 5)]
    world.long = {name: asyncio.Event() for name in names}
    world.lines = [Row(name) for name in names]
    world.waiting = [Row("run", kind="Branch")]
    for _ in range(3):
        await world.visits.look()
    assert (len(world.running), len(world.lines)) == (PARALLEL, 5)

    world.waiting = []
    for event in world.long.values():
        event.set()
    await world.until(lambda: len(world.settled) == len(names))
    assert world.most == PARALLEL


async def test_what_is_tried_again_anyway_is_not_visited_and_its_line_is_settled(world):
    world.retrying.add(Key("Baseline", "team", "failing"))
    world.lines = [Row("failing")]
    await world.until(lambda: world.settled == [("line of failing", NOW)])
    assert world.visited == []


async def test_visits_go_on_while_what_is_due_cannot_be_read(world):
    world.long["large"] = asyncio.Event()
    world.lines = [Row("large")]
    await world.visits.look()
    world.away = True
    assert await world.visits.look()

    world.away = False
    world.long["large"].set()
    await world.until(lambda: world.settled == [("line of large", NOW)])
    world.away = True
    with pytest.raises(UnavailableError):
        await world.visits.look()


async def test_the_end_of_the_wake_queue_ends_the_visits_that_are_under_way(world):
    world.long["large"] = asyncio.Event()
    world.lines = [Row("large")]
    queue = asyncio.create_task(WakeQueue([world.visits]).run())
    async with asyncio.timeout(30):
        while not world.running:  # noqa: ASYNC110  (what is waited for has no event)
            await asyncio.sleep(0.005)

    queue.cancel()
    await asyncio.wait({queue})

    assert (world.running, world.visits._running) == (set(), {})
    assert world.settled == []
