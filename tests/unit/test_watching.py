"""What an event of the watch is about follows from two numbers of the object, and silence of a watch is noticed."""

import pytest

from anabranch.controllers.watching import Watches, concern

PATH = "/apis/anabranch.dev/v1alpha1/{}"


def body(*, generation, observed=-1, **metadata):
    return {"metadata": {"generation": generation, **metadata}, "status": {"observedGeneration": observed}}


@pytest.mark.parametrize(
    ("seen", "wanted"),
    [
        (body(generation=1), "spec"),
        ({"metadata": {"generation": 1}}, "spec"),
        (body(generation=1, observed=0), "spec"),
        (body(generation=2, observed=1), "spec"),
        (body(generation=1, observed=2), "spec"),
        (body(generation=2, observed=2), "rest"),
        (body(generation=2, observed=2, labels={"new": "label"}), "rest"),
    ],
    ids=["new", "without a status", "waiting", "changed", "restored from an old backup", "handled", "label changed"],
)
def test_an_event_is_about_the_spec_exactly_while_the_status_does_not_answer_to_it(seen, wanted):
    assert concern("ADDED", seen) == concern("MODIFIED", seen) == wanted


def test_of_what_was_there_at_the_start_only_what_is_handled_may_be_passed_over():
    assert concern(None, body(generation=2, observed=2)) == "start"
    assert concern(None, body(generation=2, observed=1)) == "spec"


def test_a_deletion_is_one_whatever_the_object_says():
    assert concern("DELETED", body(generation=2, observed=1)) == "deletion"


def test_a_watch_that_is_not_answered_again_is_silent_and_one_that_never_was_is_missing():
    now = [0.0]
    watches = Watches(silence=300.0, clock=lambda: now[0])
    watches.note(PATH.format("branches"), watch=True)
    assert (len(watches.missing()), watches.silent()) == (3, [])  # nobody leads yet
    watches.expect()
    for plural in ("baselines", "branches"):
        watches.note(PATH.format(plural), watch=True)
    now[0] = 299.0
    watches.note(PATH.format("branches/"), watch=True)
    now[0] = 301.0
    assert watches.missing() == ["consolidationjobs"]
    assert watches.silent() == ["baselines", "consolidationjobs"]


def test_a_long_list_is_no_silence_and_no_watch():
    now = [0.0]
    watches = Watches(silence=300.0, clock=lambda: now[0])
    watches.expect()
    now[0] = 301.0
    for plural in ("baselines", "branches", "consolidationjobs"):
        watches.note(PATH.format(plural), watch=False)
    assert (len(watches.missing()), watches.silent()) == (3, [])


def test_each_namespace_that_is_served_is_to_be_heard_of():
    now = [0.0]
    watches = Watches(namespaces=("one", "two"), silence=300.0, clock=lambda: now[0])
    watches.expect()
    for plural in ("baselines", "branches", "consolidationjobs"):
        watches.note(PATH.format(f"namespaces/one/{plural}"), watch=True)
        watches.note(PATH.format(f"namespaces/three/{plural}"), watch=True)
    assert len(watches.missing()) == 3
    watches.note(PATH.format("namespaces/two/branches"), watch=True)
    assert watches.missing() == ["baselines", "consolidationjobs"]
    now[0] = 301.0
    watches.note(PATH.format("namespaces/one/branches"), watch=True)
    assert "branches" in watches.silent()


def test_a_watch_is_as_old_as_what_was_heard_last_where_that_is_longest_ago():
    now = [0.0]
    watches = Watches(namespaces=("one", "two"), silence=300.0, clock=lambda: now[0])
    assert watches.ages() == {}
    watches.expect()
    now[0] = 10.0
    watches.note_event("Branch", "one")
    watches.note_event("Branch", "another")
    watches.note_event("Baseline", "one")
    watches.note_event("Baseline", "two")
    now[0] = 12.0
    assert watches.ages() == {"baselines": 2.0, "branches": 12.0, "consolidationjobs": 12.0}


def test_an_event_in_any_namespace_is_one_of_the_watch_on_all():
    now = [0.0]
    watches = Watches(silence=300.0, clock=lambda: now[0])
    watches.expect()
    now[0] = 301.0
    watches.note_event("Branch", "any")
    assert watches.ages()["branches"] == 0.0
    assert watches.silent() == ["baselines", "consolidationjobs"]
