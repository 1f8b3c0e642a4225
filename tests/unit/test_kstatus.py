"""What GitOps tools conclude of every state that the controllers write, and what people are told of it by an Event."""

from __future__ import annotations

from typing import get_args

import pytest
from tests.unit.kstatus import conclude
from tests.unit.rows import T0, baseline, branch, job, waiting

from anabranch.baselines.conditions import ConditionType
from anabranch.controllers.status import Seen, baseline_status, branch_status, job_status, occurrences, waiting_status
from anabranch.manifests import crds
from anabranch.model.crd.branch import Phase
from anabranch.model.objects import JobState


def met(*types):
    return [{"type": type_, "reason": "Because", "message": "Do something."} for type_ in types]


BASELINES = {
    "without a manifest": (baseline(), "InProgress"),
    "current": (baseline(head=2), "Current"),
    "pinned": (baseline(head=3, current=1, pinned=1), "Current"),
    "suspended": (baseline(head=3, suspended=True), "Current"),
    "stalled without a manifest": (baseline(conditions=met("Stalled")), "Failed"),
    "stalled and going on with something else": (baseline(head=2, conditions=met("Reconciling", "Stalled")), "Failed"),
    "pinned and stalled": (baseline(head=3, current=1, pinned=1, conditions=met("Stalled")), "Failed"),
}
TELL = {"Reconciling": "InProgress", "Stalled": "Failed"}
BASELINES |= {
    f"with {type_}": (baseline(head=2, conditions=met(type_)), TELL.get(type_, "Current"))
    for type_ in get_args(ConditionType)
}
BRANCHES = {
    phase: (branch(phase), "Failed" if phase == "Denied" else "Current")
    for phase in get_args(Phase)
    if phase != "Pending"  # has no row yet: it waits
}
JOBS = {state: (job(state=state), "Current" if state == "published" else "InProgress") for state in get_args(JobState)}
JOBS |= {f"given up while {state}": (job(state=state, failed=True), "Failed") for state in get_args(JobState)[:-1]}
JOBS["without all its batches"] = (job(reason="BatchesMissing"), "InProgress")
JOBS["of which nothing was accepted"] = (job(state="published", reason="NothingToPublish"), "Current")
JOBS["retried"] = (job(state="validating", attempt=2, last_error="No.", retry_at=T0), "InProgress")
WAITING = {
    f"{kind} {condition} {reason}": (
        waiting(kind, condition=condition, reason=reason),
        {"Reconciling": "InProgress", "Stalled": "Failed"}[condition],
    )
    for kind in ("Baseline", "Branch", "ConsolidationJob")
    for condition, reason in (
        ("Reconciling", "BaselineUnavailable"),
        ("Stalled", "InvalidSpec"),
        ("Stalled", "GenerationPruned"),
    )
}


def written(kind, row):
    """The status in its JSON form, as it is written."""
    if kind == "Waiting":
        return waiting_status(row, seen=Seen(), now=T0)
    make = {"Baseline": baseline_status, "Branch": branch_status, "ConsolidationJob": job_status}[kind]
    return make(row, seen=Seen(), now=T0).whole()


STATES = [
    pytest.param(kind, row, wanted, id=f"{kind} {name}")
    for kind, states in (
        ("Baseline", BASELINES),
        ("Branch", BRANCHES),
        ("ConsolidationJob", JOBS),
        ("Waiting", WAITING),
    )
    for name, (row, wanted) in states.items()
]


@pytest.mark.parametrize(("kind", "row", "wanted"), STATES)
def test_a_tool_that_knows_kstatus_concludes_what_is_so(kind, row, wanted):
    status = written(kind, row)
    here = {"metadata": {"generation": status["observedGeneration"]}, "status": status}
    assert conclude(here) == wanted
    assert conclude({**here, "metadata": {"generation": status["observedGeneration"] + 1}}) == "InProgress"
    assert conclude({"metadata": {"generation": 1, "deletionTimestamp": "now"}, "status": status}) == "Terminating"


@pytest.mark.parametrize(("kind", "row", "wanted"), STATES)
def test_ready_agrees_and_reconciling_and_stalled_are_there_only_while_they_hold(kind, row, wanted):
    conditions = written(kind, row)["conditions"]
    found = {condition["type"]: condition["status"] for condition in conditions}
    assert len(found) == len(conditions)
    assert found["Ready"] == ("True" if wanted == "Current" else "False")
    assert {type_ for type_ in ("Reconciling", "Stalled") if found.get(type_) == "True"} == (
        {"InProgress": {"Reconciling"}, "Failed": {"Stalled"}, "Current": set()}[wanted]
    )
    assert not {type_ for type_ in ("Reconciling", "Stalled") if found.get(type_) == "False"}
    assert all(condition["reason"] and condition["message"] for condition in conditions)


@pytest.mark.parametrize("crd", crds(), ids=lambda crd: crd["spec"]["names"]["kind"])
def test_an_object_that_no_operator_has_seen_is_in_progress_and_one_that_is_not_there_not_found(crd):
    schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    fresh = {"metadata": {"generation": 1}, "status": schema["properties"]["status"]["default"]}
    assert conclude(fresh) == "InProgress"
    assert conclude(None) == "NotFound"


NEEDS_SOMEBODY = [
    pytest.param(kind, row, id=f"{kind} {name}")
    for kind, states in (
        ("Baseline", BASELINES),
        ("Branch", BRANCHES),
        ("ConsolidationJob", JOBS),
        ("Waiting", WAITING),
    )
    for name, (row, wanted) in states.items()
    if wanted == "Failed" or name in {"awaiting_review", "with ImportMissing", "with ReviewGuardMissing"}
]
NEEDS_SOMEBODY += [
    pytest.param(
        "Baseline", baseline(conditions=[{**met("Reconciling")[0], "reason": "ArchiveMissing"}]), id="archive"
    ),
    pytest.param("Waiting", waiting(reason="BaselineUnavailable"), id="Baseline unavailable"),
    pytest.param("Waiting", waiting(reason="AgentIdNotGranted"), id="agent id not granted"),
    pytest.param("Waiting", waiting("ConsolidationJob", reason="BranchUnavailable"), id="Branch unavailable"),
]


@pytest.mark.parametrize(("kind", "row"), NEEDS_SOMEBODY)
def test_of_each_state_that_needs_somebody_an_event_tells_once_with_what_the_condition_says(kind, row):
    status = written(kind, row)
    about = row.kind if kind == "Waiting" else kind
    told = occurrences(about, before=Seen(), status=status)
    ready = next(condition for condition in status["conditions"] if condition["type"] == "Ready")
    needed = [
        condition for condition in status["conditions"] if condition["type"] in {"ImportMissing", "ReviewGuardMissing"}
    ]
    wanted = {condition["reason"] for condition in needed} or {ready["reason"]}
    assert wanted <= {occurrence.reason for occurrence in told}
    assert all(occurrence.note.endswith((".", ":")) or "`" in occurrence.note for occurrence in told)
    again = occurrences(about, before=Seen.of(status), status=status)
    assert not again
