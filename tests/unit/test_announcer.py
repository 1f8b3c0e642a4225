"""Events are sent without haste while there is work, and at once when the process ends."""

import asyncio
import time

from tests.pace import allowed

from anabranch.controllers.announcer import Announcer
from anabranch.kube.events import ObjectRef, Occurrence
from anabranch.kube.kinds import BRANCH


class Kube:
    """Notes the Events that are created."""

    def __init__(self):
        self.told = []

    async def create(self, _kind, body, *, namespace):
        self.told.append((namespace, body["reason"], body["note"]))


def most_after(seconds, *, a_second):
    """How many may be told by then: one by each of the four that send, and then so many."""
    return 4 + a_second * seconds


async def test_events_trickle_and_are_all_told_in_a_hurry_at_the_end():
    kube = Kube()
    announcer = Announcer(kube, instance="test")
    for number in range(400):
        about = ObjectRef(BRANCH, "team", f"run-{number}", f"uid-{number}")
        announcer.tell(about, Occurrence("Forked", f"Forked {number}.", key="1"))
    began = time.monotonic()
    sending = asyncio.create_task(announcer.run())
    await asyncio.sleep(0.2)
    assert 4 <= len(kube.told) <= most_after(time.monotonic() - began, a_second=50)
    began = time.monotonic()
    await announcer.drain(60)
    assert len({note for _, _, note in kube.told}) == 400
    assert time.monotonic() - began < allowed(2), "without haste it takes some seven"
    sending.cancel()
    await asyncio.wait({sending})


async def test_events_step_aside_for_more_urgent_writes():
    kube = Kube()
    announcer = Announcer(kube, instance="test")
    for number in range(40):
        about = ObjectRef(BRANCH, "team", f"run-{number}", f"uid-{number}")
        announcer.tell(about, Occurrence("Forked", f"Forked {number}.", key="1"))
    announcer.step_aside(60)
    began = time.monotonic()
    sending = asyncio.create_task(announcer.run())
    await asyncio.sleep(0.3)
    assert 4 <= len(kube.told) <= most_after(time.monotonic() - began, a_second=5)
    await announcer.drain(60)
    assert len(kube.told) == 40
    sending.cancel()
    await asyncio.wait({sending})


async def test_a_queue_that_does_not_empty_holds_up_no_end():
    announcer = Announcer(Kube(), instance="test")
    announcer.tell(ObjectRef(BRANCH, "team", "run", "uid"), Occurrence("Forked", "Forked.", key="1"))
    began = time.monotonic()
    await announcer.drain(0.05)  # nobody sends
    assert time.monotonic() - began < allowed(5)
