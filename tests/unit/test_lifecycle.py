"""What the controllers make of an object that goes, and of one that was set back with its cluster."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from anabranch.controllers import reconciler as module
from anabranch.controllers import retries
from anabranch.controllers.keys import Key
from anabranch.controllers.reconciler import Controller, Reconciler
from anabranch.controllers.status import Seen, occurrences, waiting_status
from anabranch.kube.kinds import BASELINE
from anabranch.model.crd import BaselineResource
from anabranch.model.errors import NotReadyError
from anabranch.store.waiting import WaitingRow

NOW = datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC)


class World:
    """Notes what the controllers are asked to do."""

    def __init__(self):
        self.done = []
        self.error = None

    async def reconcile(self, resource):
        self.done.append(("reconciled", resource.generation))

    async def release(self, body):
        if self.error is not None:
            error, self.error = self.error, None
            raise error
        self.done.append(("released", body["metadata"]["generation"]))

    async def forget(self, _key, uid):
        self.done.append(("forgotten", uid))

    async def find(self, *_, **__):
        return a_body(deleted=True)

    async def rewind(self, _conn, **what):
        self.done.append(("rewound", what["generation"]))

    def connection(self):
        return self

    async def __aenter__(self):
        return None

    async def __aexit__(self, *error):
        return None


def a_body(*, generation=1, observed=-1, deleted=False, visit=True):
    metadata = {"namespace": "team", "name": "kb", "uid": "u", "generation": generation}
    if deleted:
        metadata["deletionTimestamp"] = "2030-01-01T00:00:00Z"
    return {"metadata": metadata | {"visit": visit}, "spec": {}, "status": {"observedGeneration": observed}}


@pytest.fixture
def world(monkeypatch):
    world = World()
    monkeypatch.setattr(module.drift, "rewind", world.rewind)
    monkeypatch.setattr(retries.backoff, "delay", lambda *_, **__: 0.01)
    return world


@pytest.fixture
def reconciler(world):
    baselines = Controller(
        BASELINE,
        BaselineResource,
        world.reconcile,
        world.forget,
        needs_visit=lambda body: body["metadata"]["visit"],
        release=world.release,
    )
    return Reconciler({"Baseline": baselines}, db=world, kube=world, changed=lambda: None)


async def test_an_object_that_goes_is_released_and_not_reconciled(reconciler, world):
    await reconciler.noticed("Baseline", a_body(deleted=True))
    assert world.done == [("released", 1)]


async def test_an_object_that_goes_without_us_is_left_alone(reconciler, world):
    await reconciler.noticed("Baseline", a_body(deleted=True, visit=False))
    await reconciler.seen("Baseline", a_body(deleted=True, visit=False))
    assert world.done == []


async def test_an_object_whose_end_takes_time_is_visited_until_it_is_over(reconciler, world):
    world.error = NotReadyError("Data remains.")
    await reconciler.noticed("Baseline", a_body(deleted=True))
    assert reconciler.will_retry(Key("Baseline", "team", "kb"))
    while not world.done:
        await module.asyncio.sleep(0.01)
    assert world.done == [("released", 1)]
    await reconciler.close()


async def test_an_object_that_needs_no_visit_is_only_watched(reconciler, world):
    await reconciler.noticed("Baseline", a_body(visit=False))
    assert world.done == []
    await reconciler.noticed("Baseline", a_body())
    assert world.done == [("reconciled", 1)]


async def test_a_spec_that_was_set_back_counts_although_a_newer_one_was_seen(reconciler, world):
    await reconciler.seen("Baseline", a_body(generation=3, observed=2))
    await reconciler.seen("Baseline", a_body(generation=2, observed=1))  # only late
    await reconciler.seen("Baseline", a_body(generation=2, observed=3))  # what no delay brings about
    await reconciler.seen("Baseline", a_body(generation=2, observed=2))
    assert world.done == [("reconciled", 3), ("rewound", 2), ("reconciled", 2), ("reconciled", 2)]


def a_wait(reason="BaselineDeleted", kind="Branch"):
    return WaitingRow(
        namespace="team", kind=kind, name="run", uid="u", observed_generation=1, condition="Stalled", reason=reason,
        message="Gone.", needs_namespace="team", needs_name="kb", attempt=0, due_at=None, version=1,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("phase", "shown"), [("Active", "Expired"), ("Pending", "Expired"), ("Completed", None), ("Denied", None)]
)
def test_a_run_whose_baseline_was_deleted_with_its_data_has_expired_unless_it_had_ended(phase, shown):
    seen = Seen.of({"phase": phase})
    status = waiting_status(a_wait(), seen=seen, now=NOW)
    assert status.get("phase") == shown
    told = [occurrence.reason for occurrence in occurrences("Branch", before=seen, status=status)]
    assert told == (["Expired", "BaselineDeleted"] if shown else ["BaselineDeleted"])


def test_a_missing_source_is_told_once():
    condition = {
        "type": "ImportMissing", "status": "True", "reason": "ConfigMapMissing", "message": "There is none.",
        "observedGeneration": 1, "lastTransitionTime": (NOW - timedelta(hours=1)).isoformat(),
    }  # fmt: skip
    status = {"observedGeneration": 1, "conditions": [condition]}
    (told,) = occurrences("Baseline", before=Seen(), status=status)
    assert (told.reason, told.type, told.note) == ("ConfigMapMissing", "Warning", "There is none.")
    assert occurrences("Baseline", before=Seen.of(status), status=status) == []
