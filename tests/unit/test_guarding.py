"""A review that was written while the guard was missing counts as soon as the guard is back."""

import asyncio

import pytest

from anabranch.controllers import guarding
from anabranch.controllers.guarding import GuardFollower
from anabranch.controllers.keys import Key
from anabranch.kube import guard as guards
from anabranch.kube.guard import ReviewGuard


class Reconciler:
    def __init__(self):
        self.visited = []

    async def revisit(self, key):
        self.visited.append(key)


def body(name, **spec):
    return {"metadata": {"uid": f"uid-of-{name}", "namespace": "team", "name": name}, "spec": spec}


@pytest.fixture
def cluster(monkeypatch):
    """What is missing in the cluster; a test adds to it."""
    missing = []

    async def look(_self):
        return list(missing)

    monkeypatch.setattr(ReviewGuard, "_look", look)
    monkeypatch.setattr(guards, "FRESH_SECONDS", 0.0)
    monkeypatch.setattr(guarding, "LOOK_SECONDS", 0.001)
    return missing


async def test_what_rests_on_the_guard_is_reconciled_each_time_it_changes(cluster):
    reconciler = Reconciler()
    follower = GuardFollower(ReviewGuard(None), reconciler)
    follower.observe("Baseline", body("kb"))
    follower.observe("Branch", body("run"))
    follower.observe("ConsolidationJob", body("reviewed", reviews=[{"reviewer": "jane", "decisions": []}]))
    follower.observe("ConsolidationJob", body("plain"))
    follower.observe("Baseline", body("gone"))
    follower.forget("uid-of-gone")
    running = asyncio.create_task(follower.run())
    concerned = [Key("Baseline", "team", "kb"), Key("ConsolidationJob", "team", "reviewed")]
    await asyncio.sleep(0.05)
    assert reconciler.visited == []
    for change in (lambda: cluster.append("The policy is absent."), cluster.clear):
        change()
        async with asyncio.timeout(30):
            while len(reconciler.visited) < 2:  # noqa: ASYNC110
                await asyncio.sleep(0.005)
        await asyncio.sleep(0.05)
        assert reconciler.visited == concerned
        reconciler.visited.clear()
    running.cancel()
    await asyncio.wait({running})
