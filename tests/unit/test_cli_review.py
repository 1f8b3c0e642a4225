"""A decision on the command line: what the reviewer is shown, what is decided, what becomes of earlier decisions."""

import click
import pytest

from anabranch.cli.candidates import describe
from anabranch.cli.connection import Connection
from anabranch.cli.job import report
from anabranch.cli.merging import check_sides, entry, parsed, seen_revision, with_merge
from anabranch.cli.review import check_guard, decided, decision, own_of, with_decisions
from anabranch.model.errors import ConflictError, ForbiddenError, InvalidInputError, NotReadyError

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


def told(*, said=(), **changes):
    return [click.unstyle(line) for line in describe({**CANDIDATE, **changes}, said)]


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


@pytest.mark.parametrize("op", ["put", "tombstone"])
def test_no_reason_and_no_source_moves_the_cursor_of_who_reads_on(op):
    hostile = "\x1b[2J\u202eno"
    source = {"locator": f"https://x/{hostile}", "status": "unresolved", "detail": hostile}
    said = [{"candidate_id": "cand_1", "reviewer": hostile, "action": "reject", "reason": hostile}]
    for changes in ({}, {"state": "rejected", "reason": "Rejected", "detail": hostile}):
        lines = "\n".join(told(said=said, op=op, sources=[source], **changes))
        assert not set(lines) & set("\x1b\u202e")
        assert "\\u001b[2J\\u202eno" in lines


def test_a_merge_shows_what_it_was_made_of_and_by_what():
    made = {"origin": "merge", "inputs": ["cand_2", "cand_3"]}
    assert "  a merge of cand_2, cand_3" in told(**made)
    assert "  a merge of cand_2, cand_3, written by the model small" in told(**made, model="small")


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


def test_what_a_candidate_is_like_is_told_and_decides_nothing():
    like = {"candidate_id": "cand_2", "job_id": "job_9", "state": "waiting", "likeness": 0.875}
    lines = told(group_id="cand_0", similar=[like])
    assert lines[2:4] == [
        "  in the group cand_0 of near-identical ones",
        "  like cand_2 (0.88, waiting) in job_9",
    ]
    assert "like" not in "".join(told())


def test_a_decision_on_a_group_stands_beside_those_on_candidates_and_replaces_an_earlier_one_on_it():
    mine = {"reviewer": "ada", "decisions": [{"candidateId": "c"}], "groups": [{"groupId": "g", "action": "accept"}]}
    other = {"reviewer": "ben", "decisions": []}
    said = with_decisions([mine, other], "ada", [], [{"groupId": "g", "action": "reject"}, {"groupId": "h"}])
    assert said == [
        other,
        {
            "reviewer": "ada",
            "decisions": [{"candidateId": "c"}],
            "groups": [{"groupId": "g", "action": "reject"}, {"groupId": "h"}],
        },
    ]
    assert with_decisions([mine], "ada", [{"candidateId": "d"}])[0]["groups"] == mine["groups"]


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
    lines = [
        click.unstyle(line)
        for line in report({"job": job, "candidates": [CANDIDATE], "reviews": [], "merges": [], "transitions": [step]})
    ]
    assert lines[:3] == [
        "memory/j-held: awaiting_review (AwaitingReview)",
        "origin         Held",
        "branch         br_1",
    ]
    assert any(line.startswith("build/exit-137") for line in lines)
    assert "2026-01-02T03:04:05Z" in lines[-1]


def test_a_merge_stands_beside_decisions_in_ones_own_entry_and_keeps_others_as_they_are():
    theirs = {"reviewer": "tom", "decisions": [], "merges": [{"contentHash": "sha256:01"}]}
    mine = {"reviewer": "ada", "decisions": [{"candidateId": "cand_2", "action": "accept"}]}
    merge = entry("sha256:02", ["cand_3", "cand_1"], "2", record=True)
    assert merge == {
        "contentHash": "sha256:02",
        "inputs": ["cand_1", "cand_3"],
        "baseRevision": "2",
        "withRecord": True,
    }
    entries = with_merge([theirs, mine], "ada", merge)
    assert entries == [theirs, {**mine, "merges": [merge]}]
    assert with_merge(entries, "ada", merge) == entries
    decided_too = with_decisions(entries, "ada", [{"candidateId": "cand_4", "action": "reject"}])
    assert decided_too[1]["merges"] == [merge]
    assert [each["candidateId"] for each in decided_too[1]["decisions"]] == ["cand_2", "cand_4"]


def test_what_reviewers_have_said_of_a_candidate_that_waits_is_told_the_latest_of_each():
    def entry(reviewer, action, reason="", of="cand_1"):
        return {"candidate_id": of, "reviewer": reviewer, "action": action, "reason": reason}

    said = [
        entry("ada", "accept"),
        entry("ada", "reject", "It is a guess.\x1b[2J"),
        entry("tom", "accept"),
        entry("tom", "withdraw"),
        entry("rosa", "accept", of="cand_2"),
    ]
    assert [line for line in told(said=said) if " this" in line] == [r"  ada rejected this: It is a guess.\u001b[2J"]
    assert not [line for line in told(said=said, state="rejected") if " this" in line]


def test_a_merge_that_became_no_candidate_is_told_with_the_reason():
    nothing = dict.fromkeys(("reason", "held_job", "published_baseline_id", "last_error", "retry_at", "branch_id"))
    job = {
        "namespace": "memory",
        "name": "j",
        "origin": "Branch",
        "state": "awaiting_review",
        "failed": False,
        **nothing,
    }
    merge = {"origin": "merge", "key": "build/exit-137", "inputs": ["cand_1", "cand_2"], "author": "ada", "detail": ""}
    merges = [
        {**merge, "state": "void", "with_record": True, "detail": "cand_2 is rejected."},
        {**merge, "state": "requested", "with_record": False},
        {**merge, "state": "made", "with_record": False},
    ]
    found = {"job": job, "candidates": [], "reviews": [], "merges": merges, "transitions": []}
    assert [click.unstyle(line) for line in report(found)][2:-2] == [
        "",
        "build/exit-137  no candidate: cand_2 is rejected.",
        "  a merge of cand_1, cand_2, the record, by ada",
        "",
        "build/exit-137  no candidate yet",
        "  a merge of cand_1, cand_2, by ada",
    ]


def test_whoever_wrote_a_candidate_or_a_part_of_it_is_told_which():
    theirs = {"author": "ada", "inputs": []}
    found = {"1": theirs, "2": {"author": "tom"}, "3": {**theirs, "inputs": ["2"]}, "4": {**theirs, "inputs": ["1"]}}
    assert own_of(found, ["1", "2", "3", "4"], "tom") == ["2", "3"]
    assert own_of(found, ["1", "4"], "tom") == []


def test_a_merge_of_what_makes_none_is_refused_before_anything_is_sent():
    against = {**CANDIDATE, "canonical": {**CANDIDATE["canonical"], "tombstone": False}}
    check_sides([against], record=True)
    check_sides([against, {**against, "canonical": None}], record=False)
    with pytest.raises(ConflictError, match="two sides"):
        check_sides([against], record=False)
    with pytest.raises(ConflictError, match="no record"):
        check_sides([{**against, "canonical": None}], record=True)
    with pytest.raises(ConflictError, match="no record"):
        check_sides([{**against, "canonical": {**against["canonical"], "tombstone": True}}], record=True)
    with pytest.raises(ConflictError, match="cand_1 proposes to delete"):
        check_sides([{**against, "op": "tombstone"}, against], record=False)


def test_a_merge_is_for_one_key_at_one_revision():
    other = {**CANDIDATE, "key": "build/other"}
    assert seen_revision([CANDIDATE]) == "2"
    assert seen_revision([{**CANDIDATE, "canonical": None}]) == "0"
    with pytest.raises(ConflictError, match="for one key"):
        seen_revision([CANDIDATE, other])


@pytest.mark.parametrize(
    ("name", "text", "content"),
    [("m.txt", "a: 1\n", "a: 1"), ("m.yaml", "a: 1\n", {"a": 1}), ("m.json", '{"a": 1}', {"a": 1})],
)
def test_a_merge_is_read_as_its_file_is_named(name, text, content):
    assert parsed(text, name=name) == content


def test_a_merge_that_is_no_json_is_refused():
    with pytest.raises(InvalidInputError, match="no JSON"):
        parsed("{", name="m.json")
