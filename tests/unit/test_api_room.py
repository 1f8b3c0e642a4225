"""Large bodies share a bounded room: they wait for each other, small ones for nobody, and nothing of it is lost."""

import asyncio
from typing import Annotated

import httpx
import pytest
from fastapi import Depends, FastAPI

from anabranch.api import bodies, problems, room
from anabranch.api.room import Room, Roomy
from anabranch.model.errors import UnavailableError

LARGE = room.SMALL_BYTES + 1


async def begun(*coroutines):
    tasks = [asyncio.create_task(each) for each in coroutines]
    await asyncio.sleep(0.01)
    return tasks


async def test_who_finds_no_room_waits_for_it_and_nobody_overtakes():
    place = Room(10, patience=5)
    assert await place.take(8) == 8
    large, small = await begun(place.take(9), place.take(1))
    assert not large.done()
    assert not small.done()  # there would be room for it, but the large one came first
    place.give(8)
    assert await large == 9
    assert await small == 1


async def test_more_than_all_there_is_is_all_there_is():
    place = Room(10)
    assert await place.take(11) == 10
    place.give(10)
    assert await place.take(10) == 10


async def test_who_waited_in_vain_leaves_the_room_to_those_behind():
    place = Room(10, patience=0.1)
    await place.take(8)
    (large,) = await begun(place.take(9))
    await asyncio.sleep(0.05)
    (small,) = await begun(place.take(2))
    with pytest.raises(UnavailableError, match="no room"):
        await large
    assert await small == 2


async def test_who_goes_away_while_waiting_holds_nothing():
    place = Room(10, patience=5)
    await place.take(10)
    first, second = await begun(place.take(10), place.take(10))
    first.cancel()
    await asyncio.wait({first})
    place.give(10)
    assert await second == 10
    assert first.cancelled()


async def test_who_goes_away_when_its_turn_comes_gives_it_back():
    place = Room(10, patience=5)
    await place.take(10)
    (first,) = await begun(place.take(10))
    place.give(10)
    first.cancel()  # its turn has come, and it does not know yet
    await asyncio.wait({first})
    assert await place.take(10) == 10


class Api:
    """An application that holds its answers until it is told, and knows whose body it has."""

    def __init__(self, *, size=LARGE, values=room.SMALL_VALUES + 1, patience=5.0):
        self.read = []
        self.go_on = asyncio.Event()
        app = FastAPI()
        problems.install(app)

        @app.put("/{name}")
        async def put(name: str, body: Annotated[bytes, Depends(bodies.RawBody(limit=LARGE, what="body"))]):
            self.read.append(name)
            if len(body) > room.SMALL_BYTES or body.startswith(b"["):
                await self.go_on.wait()

        rooms = Room(size, patience=patience), Room(values, patience=patience)
        transport = httpx.ASGITransport(Roomy(app, *rooms))
        self.client = httpx.AsyncClient(transport=transport, base_url="http://api")

    async def put(self, name, size, **headers):
        return await self.send(name, bytes(size), **headers)

    async def send(self, name, body, **headers):
        return await self.client.put(f"/{name}", content=body, headers=headers)


async def test_a_large_body_is_not_read_before_there_is_room_and_a_small_one_is():
    api = Api()
    first, second = await begun(api.put("first", LARGE), api.put("second", LARGE))
    assert (await api.put("small", room.SMALL_BYTES)).status_code == 200
    assert api.read == ["first", "small"]
    api.go_on.set()
    assert [(await each).status_code for each in (first, second)] == [200, 200]
    assert api.read == ["first", "small", "second"]


@pytest.mark.parametrize("value", [b"[],", b"{},", b"1,,"])
async def test_bodies_of_many_values_wait_for_each_other_though_they_are_small(value):
    api = Api(size=9 * LARGE)
    many = b"[" + value * (room.SMALL_VALUES // 2)
    assert len(many) < room.SMALL_BYTES
    first, second = await begun(api.send("first", many), api.send("second", many))
    assert (await api.send("text", b"x" * len(many))).status_code == 200
    assert api.read == ["first", "text"]
    api.go_on.set()
    assert [(await each).status_code for each in (first, second)] == [200, 200]
    assert api.read == ["first", "text", "second"]


async def test_who_finds_no_room_for_too_long_is_told_to_come_back_and_can():
    api = Api(patience=0.05)
    (first,) = await begun(api.put("first", LARGE))
    refused = await api.put("second", LARGE)
    assert (refused.status_code, refused.json()["code"]) == (503, "Unavailable")
    assert int(refused.headers["Retry-After"]) > 0
    api.go_on.set()
    assert (await first).status_code == 200
    assert (await api.put("second", LARGE)).status_code == 200


async def test_a_refused_body_gives_its_room_back():
    api = Api()
    api.go_on.set()
    wrong = {"Content-Digest": f"sha-256=:{'A' * 43}=:"}
    assert (await api.put("torn", LARGE, **wrong)).status_code == 400
    assert (await api.put("too-large", LARGE + 1)).status_code == 413
    assert (await api.put("next", LARGE)).status_code == 200
