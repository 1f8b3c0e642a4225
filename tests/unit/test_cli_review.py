"""A decision on the command line: what the reviewer is shown, what is decided, what becomes of earlier decisions."""

import click
import pytest

from anabranch.cli.candidates import describe
from anabranch.cli.connection import Connection
from anabranch.cli.job import report
from anabranch.cli.review import check_guard, decided, decision, with_decisions
from anabranch.model.errors import ForbiddenError, NotReadyError

CANDIDATE = {
    "candidate_id": "cand_1",
    "key": "build/exit-137",
    "scope": "team/build",
    "op": "put",
    "author": "system:serviceaccount:agents:docs-agent",
    "base_revision": "1",
    "content": {"text": "Use thin linking."},
    "content_hash": "sha256:aa",
    "sources": [
        {"locator": "https://x/same", "status": "verified", "detail": ""},
        {"locator": "https://x/gone", "status": "unresolved", "detail": "404"},
    ],
    "state": "waiting",
    "conflicting": True,
    "reason": "BaseRevisionSuperseded",
    "detail": "the record is at revision 2",
    "canonical": {"revision": "2", "content": {"text": "Use a large pool."}, "source_locators": ["https://x/same"]},
}


def told(**changes):
    return [click.unstyle(line) for line in describe({**CANDIDATE, **changes})]


def test_a_conflict_shows_both_sides_and_the_sources_of_both():
    lines = told()
    assert lines[0] == (
        "build/exit-137  scope team/build, conflicting put, waiting "
        "(BaseRevisionSuperseded: the record is at revision 2)"
    )
    assert lines[1] == "  cand_1 of system:serviceaccount:agents:docs-agent, based on revision 1"
    assert lines[2:] == [
        "  - the record, revision 2    + the candidate",
        "    - text: Use a large pool.",
        "    + text: Use thin linking.",
        "      source https://x/same",
        "    + source https://x/gone (unresolved: 404)",
    ]


def test_a_new_key_shows_that_nothing_is_replaced():
    lines = told(canonical=None, conflicting=False, reason="")
    assert lines[0] == "build/exit-137  scope team/build, put, waiting"
    assert "  no record of this key that you may read" in lines
    assert all(line.startswith("    +") for line in lines[3:])


def test_a_deletion_shows_what_goes():
    lines = told(op="tombstone", content=None)
    assert "    - text: Use a large pool." in lines
    assert "    + (the key is deleted)" in lines


def test_a_mark_shows_which_of_the_records_sources_are_withdrawn():
    record = {**CANDIDATE["canonical"], "source_locators": ["https://x/same", "record:poison@3"]}
    lines = told(
        mark="sourceRetracted",
        content=record["content"],
        canonical=record,
        sources=[{"locator": "record:poison@3", "status": "verified", "detail": ""}],
        conflicting=False,
        reason="",
    )
    assert lines[0] == "build/exit-137  scope team/build, sourceRetracted, waiting"
    assert lines[3:] == [
        "      text: Use a large pool.",
        "      source https://x/same",
        "    - source record:poison@3",
        "    + source record:poison@3 (withdrawn)",
    ]


def test_a_candidate_cannot_paint_over_what_stands_beside_it():
    lines = told(content={"text": "\x1b[3A\x1b[2Jaccepted"}, key="build/\u202ekey")
    assert not set("".join(lines)) & set("\x1b\u202e")


def test_of_what_a_branch_keeps_back_it_is_told_that_there_is_something():
    kept = {"key": None, "content_hash": None, "content": None, "sources": [], "canonical": None, "conflicting": False}
    lines = told(**kept, state="rejected", reason="ExportNotPermitted", detail="the change is private")
    assert len(lines) == 2
    assert lines[0].startswith("a change that its branch keeps back  scope ")
    assert lines[0].endswith("put, rejected (ExportNotPermitted: the change is private)")


def test_decisions_name_candidates_once():
    assert decided(("a", "b"), (), "") == {"a": "accept", "b": "accept"}
    assert decided(("a",), ("b",), "wrong") == {"a": "accept", "b": "reject"}
    with pytest.raises(click.UsageError, match="a is both accepted and rejected"):
        decided(("a",), ("a",), "wrong")
    with pytest.raises(click.UsageError, match="needs a --reason"):
        decided((), ("a",), "")


def test_a_decision_is_bound_to_what_was_seen():
    assert decision(CANDIDATE, "accept", "") == {
        "candidateId": "cand_1",
        "contentHash": "sha256:aa",
        "baseRevision": "2",
        "action": "accept",
    }
    assert decision({**CANDIDATE, "canonical": None}, "reject", "no")["baseRevision"] == "0"
    assert decision(CANDIDATE, "reject", "no")["reason"] == "no"


def test_a_reviewers_earlier_decisions_and_those_of_others_stay():
    entries = [
        {"reviewer": "rosa", "decisions": [{"candidateId": "a", "action": "accept"}, {"candidateId": "b"}]},
        {"reviewer": "tom", "decisions": [{"candidateId": "a", "action": "reject"}]},
    ]
    new = {"candidateId": "a", "action": "reject"}
    merged = {entry["reviewer"]: entry["decisions"] for entry in with_decisions(entries, "rosa", [new])}
    assert merged == {"rosa": [{"candidateId": "b"}, new], "tom": [{"candidateId": "a", "action": "reject"}]}
    assert with_decisions([], "rosa", [new]) == [{"reviewer": "rosa", "decisions": [new]}]


class FakeKubectl:
    def __init__(self, answer):
        self.answer = answer

    def get(self, _kind):
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def test_a_decision_that_does_not_count_is_said_not_to_count():
    missing = {"type": "ReviewGuardMissing", "status": "True", "message": "The policy is absent."}
    guarded = {**missing, "status": "False"}
    with pytest.raises(NotReadyError, match=r"does not count now: The policy is absent\. .*--http"):
        check_guard(Connection(kubectl=FakeKubectl([{"status": {"conditions": [missing]}}])))
    for answer in ([], [{}], [{"status": {"conditions": [guarded]}}], ForbiddenError("you cannot list")):
        check_guard(Connection(kubectl=FakeKubectl(answer)))


def test_a_job_reads_as_its_state_its_candidates_and_its_steps():
    nothing = dict.fromkeys(("held_job", "published_baseline_id", "last_error", "retry_at"))
    state = {"state": "awaiting_review", "failed": False, "reason": "AwaitingReview"}
    job = {"namespace": "memory", "name": "j-held", "origin": "Held", "branch_id": "br_1", **state, **nothing}
    step = {"at": "2026-01-02T03:04:05.678901Z", "from_state": None, "to_state": "received", "attempt": 0, "detail": ""}
    lines = [click.unstyle(line) for line in report({"job": job, "candidates": [CANDIDATE], "transitions": [step]})]
    assert lines[:3] == [
        "memory/j-held: awaiting_review (AwaitingReview)",
        "origin         Held",
        "branch         br_1",
    ]
    assert any(line.startswith("build/exit-137") for line in lines)
    assert "2026-01-02T03:04:05Z" in lines[-1]
