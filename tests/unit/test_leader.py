"""Who may take the Lease, and who must not: by what it says, by what was seen of it, and by what one can do oneself."""

from __future__ import annotations

import pytest

from anabranch.controllers.wake import Able, Chore
from anabranch.kube.errors import AlreadyExistsError
from anabranch.kube.leader import LONGEST_SECONDS, Leadership, Pace

PACE = Pace.of(9)


class Server:
    """Keeps one Lease."""

    def __init__(self):
        self.lease = None

    async def find(self, _kind, **_):
        return self.lease

    async def create(self, _kind, body, **_):
        if self.lease is not None:
            raise AlreadyExistsError("there is one", hint="")
        self.lease = body

    async def replace(self, _kind, body, **_):
        self.lease = body

    @property
    def holder(self):
        return self.lease and self.lease["spec"]["holderIdentity"]

    def says(self, holder, **more):
        self.lease = {"spec": {"holderIdentity": holder, "renewTime": "then", "leaseDurationSeconds": 9, **more}}


class Clock:
    now = 0.0


@pytest.fixture
def server():
    return Server()


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def stand(server, clock, monkeypatch):
    monkeypatch.setattr(Leadership, "_now", lambda _: clock.now)
    return lambda identity, **more: Leadership(server, namespace="n", name="it", identity=identity, pace=PACE, **more)


async def test_a_lease_that_was_deleted_is_its_holders_until_it_has_run_out(server, clock, stand):
    first, second = stand("first"), stand("second")
    await first._try()
    await second._try()
    server.lease = None
    clock.now = PACE.retry
    await second._try()
    assert server.lease is None
    await first._try()
    assert (server.holder, first.leading, second.leading) == ("first", True, False)
    await second._try()
    server.lease = None
    clock.now += PACE.duration + 0.1
    await second._try()
    assert (server.holder, first.leading, second.leading) == ("second", False, True)


async def test_a_lease_that_was_given_back_may_be_deleted_and_made_at_once(server, stand):
    second = stand("second")
    server.says("first")
    await second._try()
    server.says("")
    await second._try()
    server.lease = None
    await second._try()
    assert server.holder == "second"


async def test_nobodys_lease_is_waited_for_longer_than_a_minute_whatever_it_says(server, clock, stand):
    server.says("somebody", leaseDurationSeconds=86_400)
    second = stand("second")
    await second._try()
    clock.now = LONGEST_SECONDS
    await second._try()
    assert server.holder == "somebody"
    clock.now += 0.1
    await second._try()
    assert server.holder == "second"


async def test_who_cannot_do_the_work_neither_takes_the_lease_nor_keeps_it(server, clock, stand):
    fit = False
    leadership = stand("it", fit=lambda: fit)
    await leadership._try()
    assert server.lease is None
    fit = True
    await leadership._try()
    assert leadership.leading
    fit = False
    renewed = dict(server.lease["spec"])
    clock.now = PACE.retry
    await leadership._try()
    assert not leadership.leading
    assert server.lease["spec"] == renewed


async def test_the_api_server_is_in_reach_of_a_stand_by_too_for_as_long_as_it_answers(server, clock, stand):
    second = stand("second")
    assert not second.reached
    server.says("first")
    await second._try()
    assert second.reached
    clock.now = PACE.renew_deadline
    assert not second.reached


async def test_what_this_process_cannot_do_it_leaves_to_others():
    looks = []
    able = False

    async def look():
        looks.append(1)
        return True

    guarded = Able(Chore("jobs", look), lambda: able)
    assert (guarded.name, await guarded.look(), looks) == ("jobs", False, [])
    able = True
    assert (await guarded.look(), looks) == (True, [1])
