"""An object is reconciled by one task at a time, from its newest state, and again until that worked."""

import asyncio

import pytest

from anabranch.controllers import reconciler as module
from anabranch.controllers import retries
from anabranch.controllers.configmaps import ConfigMapFollower
from anabranch.controllers.keys import Key
from anabranch.controllers.reconciler import Controller, Reconciler
from anabranch.kube.kinds import BASELINE
from anabranch.kube.watch import RESYNC, Changed
from anabranch.model.crd import BaselineResource
from anabranch.model.errors import UnavailableError

KEY = Key("Baseline", "team", "kb")


def body(*, generation=1, uid="u", status=None, **spec):
    metadata = {"namespace": "team", "name": "kb", "uid": uid, "generation": generation}
    return {"metadata": metadata, "spec": spec, "status": status or {"observedGeneration": -1}}


class Cluster:
    """The API server's newest state, the service that reconciles, and the table of what waits."""

    def __init__(self):
        self.newest = None
        self.reconciled = []
        self.forgotten = []
        self.waits = []
        self.error = None
        self.running = self.most = 0

    async def find(self, _kind, *, namespace, name):
        assert (namespace, name) == ("team", "kb")
        return self.newest

    async def reconcile(self, resource):
        self.running += 1
        self.most = max(self.most, self.running)
        await asyncio.sleep(0)
        self.running -= 1
        if self.error is not None:
            error, self.error = self.error, None
            raise error
        self.reconciled.append((resource.uid, resource.generation))

    async def forget(self, key, uid):
        if self.error is not None:
            error, self.error = self.error, None
            raise error
        self.forgotten.append((key, uid))

    async def upsert(self, _conn, **wait):
        self.waits.append((wait["condition"], wait["reason"]))

    async def delete(self, _conn, **wait):
        self.waits.append(("deleted", wait["uid"]))

    def connection(self):
        return self

    async def __aenter__(self):
        return None

    async def __aexit__(self, *error):
        return None


@pytest.fixture
def cluster(monkeypatch):
    fake = Cluster()
    monkeypatch.setattr(module.waiting, "upsert", fake.upsert)
    monkeypatch.setattr(module.waiting, "delete", fake.delete)
    monkeypatch.setattr(retries.backoff, "delay", lambda *_, **__: 0.01)
    return fake


@pytest.fixture
async def reconciler(cluster):
    controller = Controller(BASELINE, BaselineResource, cluster.reconcile, cluster.forget)
    made = Reconciler({"Baseline": controller}, db=cluster, kube=cluster, changed=lambda: None)
    yield made
    await made.close()


async def until(condition):
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110  (what is waited for has no event)
            await asyncio.sleep(0.005)


async def test_two_that_ask_for_one_object_wait_for_each_other(cluster, reconciler):
    await asyncio.gather(*(reconciler.seen("Baseline", body()) for _ in range(5)))
    assert cluster.most == 1
    assert not reconciler.is_busy(KEY)


@pytest.mark.parametrize("error", [UnavailableError("away"), KeyError("a defect")])
async def test_what_failed_is_tried_again_from_the_newest_state(cluster, reconciler, error):
    cluster.error, cluster.newest = error, body(generation=2)
    await reconciler.seen("Baseline", body(generation=1))
    assert reconciler.will_retry(KEY)
    await until(lambda: cluster.reconciled)
    assert cluster.reconciled == [("u", 2)]
    assert not reconciler.will_retry(KEY)


async def test_a_state_older_than_what_was_reconciled_is_passed_over(cluster, reconciler):
    for generation in (2, 1, 2, 3):
        await reconciler.seen("Baseline", body(generation=generation))
    assert cluster.reconciled == [("u", 2), ("u", 2), ("u", 3)]


async def test_a_namesake_that_was_made_since_is_another_object(cluster, reconciler):
    await reconciler.seen("Baseline", body(generation=5, uid="old"))
    cluster.newest = body(generation=1, uid="new")
    await reconciler.revisit(KEY, uid="old")
    assert cluster.forgotten == [(KEY, "old")]
    assert cluster.reconciled == [("old", 5), ("new", 1)]


async def test_an_object_that_is_gone_is_forgotten_however_often_that_fails(cluster, reconciler):
    cluster.error = UnavailableError("away")
    await reconciler.revisit(KEY, uid="old")
    assert cluster.forgotten == [(KEY, "old")]
    assert cluster.reconciled == []


async def test_an_object_about_to_go_is_not_reconciled(cluster, reconciler):
    going = body()
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    await reconciler.seen("Baseline", going)
    assert cluster.reconciled == []


async def test_a_spec_of_another_release_is_stalled_until_it_is_understood(cluster, reconciler):
    await reconciler.seen("Baseline", body(novelty=True))
    assert cluster.waits == [("Stalled", "InvalidSpec")]
    assert cluster.reconciled == []
    stalled = {"conditions": [{"type": "Stalled", "reason": "InvalidSpec"}]}
    await reconciler.seen("Baseline", body(generation=2, status=stalled))
    assert cluster.waits[1:] == [("deleted", "u")]


class Visits:
    def __init__(self):
        self.keys = []

    async def revisit(self, key):
        self.keys.append((key.namespace, key.name))


def importing(name, config_map, *, namespace="team"):
    spec = {"import": {"configMap": {"name": config_map}}} if config_map else {}
    return {"metadata": {"uid": f"uid-{name}", "namespace": namespace, "name": name}, "spec": spec}


async def test_only_baselines_that_import_from_a_changed_config_map_are_reconciled():
    visits = Visits()
    follower = ConfigMapFollower(None, visits)
    follower.observe("Baseline", importing("kb", "guide"))
    follower.observe("Baseline", importing("twin", "guide"))
    follower.observe("Baseline", importing("other", "guide", namespace="elsewhere"))
    follower.observe("Baseline", importing("moved", "guide"))
    follower.observe("Baseline", importing("moved", "handbook"))
    follower.observe("Branch", importing("branch", "guide"))
    follower.forget("uid-twin")
    await follower._look(Changed("team", "guide"), None)
    await follower._look(Changed("team", "unrelated"), None)
    assert visits.keys == [("team", "kb")]


async def test_after_a_gap_every_importing_baseline_of_the_namespace_is_reconciled():
    visits = Visits()
    follower = ConfigMapFollower(None, visits)
    follower.observe("Baseline", importing("kb", "guide"))
    follower.observe("Baseline", importing("other", "guide", namespace="elsewhere"))
    follower.observe("Baseline", importing("plain", None))
    await follower._look(RESYNC, "team")
    assert visits.keys == [("team", "kb")]
    await follower._look(RESYNC, None)
    assert sorted(visits.keys[1:]) == [("elsewhere", "other"), ("team", "kb")]
