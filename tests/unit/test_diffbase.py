"""kopf finds out from two numbers of the object itself what there is to handle, and writes nothing for it."""

import kopf
import pytest
from kopf._cogs.structs import patches
from kopf._core.intents import causes

from anabranch.controllers.diffbase import ObservedGeneration


def body(*, generation, observed=-1, **metadata):
    return kopf.Body(
        {
            "metadata": {"name": "kb", "namespace": "team", "uid": "u", "generation": generation, **metadata},
            "spec": {"suspend": False},
            "status": {"observedGeneration": observed},
        }
    )


def reason(seen, *, initial=False):
    """What kopf makes of an object that it sees."""
    storage = ObservedGeneration()
    old, new = storage.fetch(body=seen), storage.build(body=seen)
    cause = causes.detect_changing_cause(
        finalizer="f",
        raw_event={"type": "MODIFIED", "object": dict(seen)},
        body=seen,
        old=old,
        new=new,
        diff=kopf.Diff([] if old == new else [kopf.DiffItem(kopf.DiffOperation.CHANGE, (), old, new)]),
        initial=initial,
        resource=None,
        indices={},
        logger=None,
        patch=None,
        memo=None,
    )
    return cause.reason.value


@pytest.mark.parametrize(
    ("seen", "wanted"),
    [
        (body(generation=1), "create"),
        (body(generation=1, observed=0), "create"),
        (body(generation=2, observed=1), "update"),
        (body(generation=2, observed=2), "noop"),
        (body(generation=2, observed=2, labels={"new": "label"}), "noop"),
        (body(generation=1, observed=2), "update"),
    ],
    ids=["new", "not reconciled yet", "spec changed", "handled", "label changed", "restored from an old backup"],
)
def test_an_object_is_handled_exactly_while_its_status_lags_behind_its_spec(seen, wanted):
    assert reason(seen) == wanted


def test_an_object_that_is_up_to_date_is_resumed_once_after_a_restart():
    assert reason(body(generation=2, observed=2), initial=True) == "resume"


def test_an_object_without_any_status_is_new():
    seen = kopf.Body({"metadata": {"generation": 1}, "spec": {}})
    assert ObservedGeneration().fetch(body=seen) is None


def test_handling_an_object_leaves_nothing_to_write():
    seen = body(generation=2, observed=1)
    patch = patches.Patch(body=seen)
    storage = ObservedGeneration()
    storage.store(body=seen, patch=patch, essence=storage.build(body=seen))
    assert not patch
