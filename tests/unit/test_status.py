"""What a status says, as functions of what Postgres has."""

from dataclasses import replace

import pytest
from tests.unit.rows import T0, T1, baseline, branch, job, manifest, waiting

from anabranch.controllers.status import Seen, baseline_status, branch_status, job_status, occurrences, waiting_status
from anabranch.store.projection import Obstacle
from anabranch.store.rebases import RebaseRow


def conditions(status):
    return {condition.type: (condition.status, condition.reason) for condition in status.conditions}


def told(kind, before, after, manifests=()):
    found = occurrences(kind, before=before, status=after.whole(), manifests=manifests)
    return [(occurrence.reason, occurrence.type) for occurrence in found]


def test_a_baseline_with_a_current_manifest_and_nothing_in_the_way_is_ready():
    status = baseline_status(baseline(head=2), seen=Seen(), now=T0)
    assert conditions(status) == {"Ready": ("True", "Current")}
    assert (status.current.generation, status.head.records, status.observed_generation) == (2, 20, 3)


def test_a_baseline_without_a_manifest_is_not_ready_and_reconciling():
    status = baseline_status(baseline(), seen=Seen(), now=T0)
    assert conditions(status) == {"Ready": ("False", "NoManifest"), "Reconciling": ("True", "NoManifest")}
    assert status.whole().get("current") is None


def test_what_stands_in_the_way_of_a_baseline_makes_it_unready_though_readers_see_a_manifest():
    met = {"type": "Stalled", "reason": "PinTargetUnknown", "message": "There is no generation 99."}
    status = baseline_status(baseline(head=2, conditions=[met]), seen=Seen(), now=T0)
    assert conditions(status) == {"Ready": ("False", "PinTargetUnknown"), "Stalled": ("True", "PinTargetUnknown")}


@pytest.mark.parametrize(
    ("state", "ready", "paused"),
    [
        (baseline(head=3, current=1, pinned=1), ("True", "Pinned"), ("True", "Pinned")),
        (baseline(head=3, suspended=True), ("True", "Current"), ("True", "Suspended")),
    ],
)
def test_a_paused_baseline_is_ready_and_says_why_it_is_paused(state, ready, paused):
    status = baseline_status(state, seen=Seen(), now=T0)
    assert conditions(status) == {"Ready": ready, "ConsolidationPaused": paused}


def test_a_condition_keeps_its_time_until_its_status_changes():
    first = baseline_status(baseline(), seen=Seen(), now=T0)
    still = baseline_status(
        baseline(conditions=[{"type": "Reconciling", "reason": "ArchiveMissing", "message": "Upload it."}]),
        seen=Seen.of(first.whole()),
        now=T1,
    )
    assert {condition.last_transition_time for condition in still.conditions} == {T0}
    done = baseline_status(baseline(head=1), seen=Seen.of(still.whole()), now=T1)
    assert [condition.last_transition_time for condition in done.conditions] == [T1]


def test_a_branch_is_ready_once_forked_and_stays_so_when_completed():
    assert conditions(branch_status(branch(), seen=Seen(), now=T0)) == {"Ready": ("True", "Forked")}
    completed = branch_status(branch("Completed"), seen=Seen(), now=T0)
    assert conditions(completed)["Ready"][0] == "True"
    assert completed.last_submitted_sequence == 4


@pytest.mark.parametrize(
    ("phase", "deadline", "shown"),
    [
        ("Active", None, {"state": "unknown"}),
        ("Active", T1, {"state": "active"}),
        ("Stale", T1, {"state": "stale", "leaseDeadline": "2026-01-01T13:00:00Z"}),
        ("Completed", T1, {"state": "completed"}),
        ("Expired", T1, None),
        ("Denied", T1, None),
    ],
)
def test_a_branch_tells_whether_its_agent_is_there_and_no_deadline_that_is_renewed(phase, deadline, shown):
    status = branch_status(replace(branch(phase), lease_deadline=deadline), seen=Seen(), now=T0)
    assert status.whole().get("presence") == shown


def test_a_rebased_branch_tells_what_it_stood_on():
    earlier = RebaseRow(
        ordinal=1,
        from_generation=1,
        from_baseline_id="bl_1",
        from_manifest_hash=b"1" * 32,
        to_generation=2,
        conflicts=3,
        at=T1,
    )
    status = branch_status(replace(branch(), lineage=(earlier,)), seen=Seen(), now=T0).whole()
    (shown,) = status["lineage"]
    assert (shown["generation"], shown["conflicts"], shown["until"]) == (1, 3, "2026-01-01T13:00:00Z")


def test_what_stands_in_the_way_of_a_forked_branch_is_shown_beside_what_it_is():
    met = Obstacle(condition="Stalled", reason="RebaseTargetUnknown", message="No.", observed_generation=5)
    status = branch_status(replace(branch(), obstacle=met), seen=Seen(), now=T0)
    assert conditions(status) == {"Ready": ("False", met.reason), "Stalled": ("True", met.reason)}
    assert (status.observed_generation, status.phase, status.parent.generation) == (5, "Active", 1)


def test_a_denied_branch_is_stalled():
    status = branch_status(branch("Denied"), seen=Seen(), now=T0)
    assert conditions(status) == {"Ready": ("False", "GrantRevoked"), "Stalled": ("True", "GrantRevoked")}


@pytest.mark.parametrize("state", ["received", "importing", "validating", "publishing"])
def test_a_job_under_way_is_reconciling(state):
    found = conditions(job_status(job(state=state), seen=Seen(), now=T0))
    assert found["Ready"] == found["Complete"] == ("False", found["Reconciling"][1])
    assert set(found) == {"Ready", "Complete", "Reconciling"}


def test_a_job_that_awaits_review_says_so_and_is_reconciling():
    found = conditions(job_status(job(state="awaiting_review"), seen=Seen(), now=T0))
    assert found["AwaitingReview"][0] == found["Reconciling"][0] == "True"
    assert found["Ready"][0] == "False"


@pytest.mark.parametrize(("reason", "shown"), [("", "Published"), ("NothingToPublish", "NothingToPublish")])
def test_a_published_job_is_complete_and_so_ready(reason, shown):
    found = conditions(job_status(job(state="published", reason=reason), seen=Seen(), now=T0))
    assert found == {"Ready": ("True", shown), "Complete": ("True", shown)}


def test_a_job_that_was_given_up_is_failed_and_stalled_and_keeps_its_state():
    status = job_status(job(state="validating", failed=True, last_error="No."), seen=Seen(), now=T0)
    found = conditions(status)
    assert (found["Failed"][0], found["Stalled"][0], found["Complete"][0]) == ("True", "True", "False")
    assert "Reconciling" not in found
    assert status.state == "validating"


def test_a_branch_that_waits_is_pending():
    patch = waiting_status(waiting(), seen=Seen(), now=T0)
    assert patch["phase"] == "Pending"
    assert [(c["type"], c["status"]) for c in patch["conditions"]] == [("Ready", "False"), ("Reconciling", "True")]


def test_a_branch_of_a_generation_that_was_pruned_before_it_forked_is_expired():
    pending = Seen.of(waiting_status(waiting(), seen=Seen(), now=T0))
    row = waiting(condition="Stalled", reason="GenerationPruned", message="Generation 3 was pruned.")
    status = waiting_status(row, seen=pending, now=T0)
    assert status["phase"] == "Expired"
    assert [(c["type"], c["status"], c["reason"]) for c in status["conditions"]] == [
        ("Ready", "False", "GenerationPruned"),
        ("Stalled", "True", "GenerationPruned"),
    ]
    assert [(o.reason, o.type) for o in occurrences("Branch", before=pending, status=status)] == [
        ("Expired", "Normal"),
        ("GenerationPruned", "Warning"),
    ]


def test_a_resource_that_is_not_understood_any_more_keeps_what_its_status_told():
    active = Seen.of(branch_status(branch(), seen=Seen(), now=T0).whole())
    patch = waiting_status(waiting(condition="Stalled", reason="InvalidSpec"), seen=active, now=T0)
    assert set(patch) == {"observedGeneration", "conditions"}


def test_a_generation_is_told_of_once_with_what_made_it():
    imported = baseline_status(baseline(head=1, kind="import"), seen=Seen(), now=T0)
    assert told("Baseline", Seen(), imported, [manifest(1, "import")]) == [("Imported", "Normal")]
    before = Seen.of(imported.whole())
    published = baseline_status(baseline(head=3), seen=before, now=T0)
    history = [manifest(3, "restore"), manifest(2), manifest(1, "import")]
    assert told("Baseline", before, published, history) == [("Published", "Normal"), ("Restored", "Normal")]
    assert told("Baseline", Seen.of(published.whole()), published, history) == []


def test_a_pin_is_told_of_as_a_rollback_and_its_end_as_a_resumption():
    free = Seen.of(baseline_status(baseline(head=3), seen=Seen(), now=T0).whole())
    pinned = baseline_status(baseline(head=3, current=1, pinned=1), seen=free, now=T0)
    assert told("Baseline", free, pinned) == [("RolledBack", "Normal")]
    before = Seen.of(pinned.whole())
    assert told("Baseline", before, pinned) == []
    assert told("Baseline", before, baseline_status(baseline(head=3), seen=before, now=T0)) == [("Resumed", "Normal")]


def test_two_rollbacks_to_the_same_generation_are_two_events():
    free = Seen.of(baseline_status(baseline(head=3), seen=Seen(), now=T0).whole())
    keys = set()
    for watermark in (7, 9):
        pinned = baseline_status(baseline(head=3, current=1, pinned=1, watermark=watermark), seen=free, now=T0)
        keys |= {found.key for found in occurrences("Baseline", before=free, status=pinned.whole())}
    assert len(keys) == 2


def test_a_fork_is_told_of_after_a_wait_and_without_one():
    forked = branch_status(branch(), seen=Seen(), now=T0)
    waited = Seen.of(waiting_status(waiting(), seen=Seen(), now=T0))
    for before in (Seen(), waited):
        assert told("Branch", before, forked) == [("Forked", "Normal")]
    assert told("Branch", Seen.of(forked.whole()), forked) == []


@pytest.mark.parametrize(
    ("after", "wanted"),
    [
        (job(state="awaiting_review"), ("AwaitingReview", "Normal")),
        (job(state="published"), ("Published", "Normal")),
        (job(state="received", attempt=1, last_error="No."), ("AttemptFailed", "Warning")),
        (
            job(state="received", attempt=1, holder="b", last_error="The lease of a ran out."),
            ("LeaseReclaimed", "Warning"),
        ),
    ],
)
def test_a_step_of_a_job_is_told_of(after, wanted):
    before = Seen.of(job_status(job(holder="a"), seen=Seen(), now=T0).whole())
    status = job_status(after, seen=before, now=T0)
    assert told("ConsolidationJob", before, status) == [wanted]
    assert told("ConsolidationJob", Seen.of(status.whole()), status) == []


def test_a_job_that_is_given_up_is_told_of_with_its_reason():
    before = Seen.of(job_status(job(attempt=5), seen=Seen(), now=T0).whole())
    status = job_status(job(attempt=6, failed=True, last_error="No."), seen=before, now=T0)
    assert told("ConsolidationJob", before, status) == [("AttemptFailed", "Warning"), ("GivenUp", "Warning")]
