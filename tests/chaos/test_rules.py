"""Each rule finds what it is there for, in a history made by hand; and nothing in one in which nothing is wrong."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.chaos import judging
from tests.chaos.ledger import told
from tests.chaos.made import (
    BRANCH,
    add,
    batch,
    changed,
    digest,
    event,
    history,
    ledger,
    review,
    steps,
    version,
    without,
)


def test_nothing_is_found_where_nothing_is_wrong():
    assert judging.judge(history(), ledger()) == {}
    assert judging.verdict({}) == "nothing is wrong"


def line_with(**more):
    made = ledger()
    return replace(made, lines={"calm": replace(made.lines["calm"], **more)})


LEDGERS = {
    "every_acknowledged_batch_is_kept": [
        without(ledger(), "batches", 1),
        changed(ledger(), "batches", 0, receipt_id="another"),
        changed(ledger(), "batches", 0, content_hash=digest("another")),
    ],
    "nothing_that_was_refused_is_kept": [changed(ledger(), "batches", 2, **batch(3, "c", None))],
    "every_batch_has_one_fate": [
        changed(ledger(), "batches", 0, job_id=None),
        changed(ledger(), "batches", 0, job_id="job_2"),
        changed(ledger(), "jobs", 1, from_sequence=1),
        without(ledger(), "candidates", 0),
        changed(ledger(), "candidates", 0, key="z"),
        changed(ledger(), "candidates", 0, ordinal=1),
        changed(ledger(), "candidates", 0, state="pending"),
        without(ledger(), "publications", 0),
    ],
    "no_outcome_is_taken_back": [
        changed(ledger(), "publications", 0, generation=1),
        changed(ledger(), "jobs", 0, state="publishing"),
    ],
    "nothing_is_published_twice": [
        changed(ledger(), "candidates", 1, state="published", content_hash=digest("a")),
        changed(ledger(), "record_versions", 2, **version("a", 2, start=3, content="a")),
    ],
    "every_generation_follows_from_the_one_before": [
        without(ledger(), "record_versions", 1),
        changed(ledger(), "record_versions", 2, **version("more", 2, start=2, content="known")),
        changed(ledger(), "record_versions", 0, to_generation=2),
        without(ledger(), "manifests", 0),
        changed(ledger(), "manifests", 1, parent_generation=0),
        changed(ledger(), "manifests", 1, records=7),
    ],
    "every_root_recomputes": [
        changed(ledger(), "manifests", 1, manifest_hash=bytes(32)),
        changed(ledger(), "record_versions", 0, fact_hash=bytes(32)),
        changed(ledger(), "contents", 0, body=b'"altered"'),
        without(ledger(), "contents", 0),
        changed(ledger(), "record_versions", 2, **version("a", 3, start=3, content="a")),
    ],
    "nothing_is_overwritten_unseen": [changed(ledger(), "candidates", 0, base_revision=1)],
    "nothing_is_published_without_its_review": [
        line_with(policy={"mode": "Manual"}),
        changed(ledger(), "candidates", 0, op="tombstone"),
        changed(ledger(), "candidates", 0, conflicting=True),
        changed(
            line_with(policy={"mode": "Manual"}), "reviews", 0,
            **review("accept", reviewer="system:serviceaccount:ns:agent"),
        ),
        changed(line_with(policy={"mode": "Manual"}), "reviews", 0, **review("accept", late=True)),
        changed(ledger(), "reviews", 0, **review("accept", content_hash=digest("z"))),
    ],
    "every_decision_is_kept": [changed(ledger(), "reviews", 0, **review("reject"))],
    "every_job_goes_a_legal_path": [
        changed(ledger(), "jobs", 1, state="publishing"),
        changed(ledger(), "transitions", 1, from_state="validating"),
        changed(ledger(), "transitions", 1, fence=2),
        changed(ledger(), "transitions", 1, holder="another"),
        changed(ledger(), "transitions", 9, **steps("job_2", "published")[0] | {"ordinal": 9}),
        changed(ledger(), "jobs", 0, failed=True),
    ],
    "the_head_is_the_newest": [
        changed(ledger(), "line_heads", 0, head_generation=3),
        changed(ledger(), "line_heads", 0, current_generation=9),
        changed(ledger(), "record_versions", 2, **version("more", 9, start=9, content="known")),
        changed(ledger(), "record_versions", 1, to_generation=9),
    ],
    "the_feed_has_no_gap": [
        changed(ledger(), "line_heads", 0, event_sequence=2),
        without(ledger(), "events", 0),
        changed(ledger(), "events", 1, sequence=1, event_id="ev_1", kind="superseded", key="a", generation=2),
    ],
    "the_feed_agrees_with_the_manifests": [
        changed(ledger(), "events", 0, key="z"),
        changed(ledger(), "events", 0, generation=1),
        changed(ledger(), "events", 0, kind="superseded"),
        changed(ledger(), "events", 1, sequence=2, event_id="ev_2", kind="restored", key=None, generation=2),
        changed(ledger(), "manifests", 1, feed_watermark=0),
    ],
    "followers_skip_nothing": [
        changed(ledger(), "line_heads", 0, event_sequence=2),
        changed(ledger(), "manifests", 0, feed_watermark=-1),
        replace(ledger(), lines={**ledger().lines, "unheard": ledger().lines["calm"]}),
    ],
    "agents_are_told_of_each_outcome_once": [
        replace(ledger(), agent_events=[]),
        replace(ledger(), agent_events=[*ledger().agent_events] * 2),
    ],
    "statuses_tell_what_is": [line_with(status={}), line_with(status={"current": {"generation": 1}})],
    "own_writes_are_read": [
        changed(ledger(), "private_records", 0, revision=2),
        without(ledger(), "private_records", 0),
    ],
    "no_generation_ever_changes": [changed(ledger(), "manifests", 1, manifest_hash=digest("another"))],
    "everything_comes_to_rest": [replace(ledger(), leftover=["a job waits for ever"])],
}  # fmt: skip

FOUND = {"branch": BRANCH, "sequence": 1}

HISTORIES = {
    "one_batch_has_a_number": [
        ("submit", {**FOUND, "digest": "sha256:another", "found": {"ack": "receipt", "receipt": "receipt-1"}}),
        ("submit", {**FOUND, "digest": told(digest(["batch", 1])), "found": {"ack": "receipt", "receipt": "other"}}),
    ],
    "no_outcome_is_taken_back": [
        ("outcome", {**FOUND, "found": {"ack": "receipt", "job": None, "generation": None}}),
        ("outcome", {**FOUND, "found": {"ack": "publication", "job": "job_2", "generation": 2}}),
        ("outcome", {**FOUND, "found": {"ack": "publication", "job": "job_1", "generation": 3}}),
    ],
    "nothing_comes_after_a_completion": [
        ("complete", {"branch": BRANCH, "last": 1, "found": {}}),
        ("complete", {"branch": BRANCH, "last": 3, "found": {}}),
    ],
    "every_decision_is_kept": [("decide", {"candidate": "cand_2", "action": "accept", "client": "ada", "found": {}})],
    "no_generation_ever_changes": [
        ("manifest", {"baseline": "calm", "found": {"generation": 2, "hash": "sha256:another"}}),
        ("records", {"baseline": "calm", "generation": 2, "scopes": None, "found": {"records": {}}}),
        (
            "record",
            {"baseline": "calm", "generation": 2, "key": "a", "found": {"revision": "1", "hash": told(digest("a"))}},
        ),
    ],
    "nobody_sees_what_is_private": [("spy", {"owner": "agent", "where": "record", "client": "spy", "found": {}})],
    "own_writes_are_read": [
        ("get_private", {"branch": BRANCH, "key": "note", "found": {"revision": 1, "value": "another"}}),
        ("get_private", {"branch": BRANCH, "key": "note", "found": {"revision": 0, "value": None}}),
        ("get_private", {"branch": BRANCH, "key": "note", "phase": "refused", "found": {"status": 404}}),
        ("put_private", {"branch": BRANCH, "key": "note", "value": "second", "over": 1, "found": {"revision": 2}}),
    ],
    "nothing_breaks_inside": [
        ("jobs", {"phase": "refused", "found": {"status": 500, "code": "Internal", "detail": "oh"}}),
    ],
}

SEEN = {
    "followers_are_told_what_is_in_the_feed": [
        ("event", event(event="ev_9")),
        ("event", event(sequence=3)),
        ("event", event()),  # again, in the same connection
    ],
    "followers_skip_nothing": [("event", event(sequence=3, stream=2))],
    "followers_converge": [
        ("overlay", {"baseline": "calm", "scopes": None, "sequence": 1, "records": {"a": told(digest("a"))}}),
        ("overlay", {"baseline": "calm", "scopes": None, "sequence": 0, "records": {}}),
    ],
    "nobody_sees_what_is_private": [("secret", {"owner": "agent", "where": "GET /somewhere"})],
    "no_scope_is_seen_without_its_grant": [("event", event(partial=["team"], stream=2))],
}


@pytest.mark.parametrize(("rule", "place"), [(rule, n) for rule, made in LEDGERS.items() for n in range(len(made))])
def test_it_is_found_in_what_is_kept(rule, place):
    assert rule in judging.judge(history(), LEDGERS[rule][place])


@pytest.mark.parametrize(("rule", "place"), [(rule, n) for rule, made in HISTORIES.items() for n in range(len(made))])
def test_it_is_found_in_what_was_said(rule, place):
    what, about = HISTORIES[rule][place]
    made = history()
    add(made, what, **about)
    assert rule in judging.judge(made, ledger())


@pytest.mark.parametrize(("rule", "place"), [(rule, n) for rule, made in SEEN.items() for n in range(len(made))])
def test_it_is_found_in_what_was_seen(rule, place):
    what, about = SEEN[rule][place]
    made = history()
    made.see("follower", what, **about)
    found = judging.judge(made, ledger())
    assert rule in found
    assert rule in judging.verdict(found)


def test_each_rule_is_shown_to_find_something():
    assert {rule.__name__ for rule in judging.RULES} == {*LEDGERS, *HISTORIES, *SEEN}


def test_a_refused_batch_that_is_there_is_found():
    made = history()
    for entry in made.of("submit", "ok"):
        made.entries[entry.number] = replace(entry, phase="refused", about={**entry.about, "status": 409})
    assert "nothing_that_was_refused_is_kept" in judging.judge(made, ledger())


@pytest.mark.parametrize("revision", [1, 2])
def test_a_write_without_an_answer_may_have_happened_or_not(revision):
    made = history()
    about = {"branch": BRANCH, "key": "note", "value": "second", "over": 1}
    add(made, "put_private", phase="unknown", found={}, **about)
    assert judging.judge(made, changed(ledger(), "private_records", 0, revision=revision)) == {}
    value = "first" if revision == 1 else "second"
    add(made, "get_private", branch=BRANCH, key="note", found={"revision": revision, "value": value})
    assert judging.judge(made, changed(ledger(), "private_records", 0, revision=revision)) == {}
    if revision == 2:  # once it was seen, it stays
        add(made, "get_private", branch=BRANCH, key="note", found={"revision": 1, "value": "first"})
        assert "own_writes_are_read" in judging.judge(made, changed(ledger(), "private_records", 0, revision=2))


def test_a_batch_that_was_never_acknowledged_may_be_there_or_not():
    made = history()
    add(made, "submit", phase="unknown", found={}, branch=BRANCH, sequence=3, digest=told(digest(["batch", 3])))
    assert judging.judge(made, ledger()) == {}
    kept = changed(ledger(), "batches", 2, **batch(3, "c", None))
    assert judging.judge(made, kept) == {}


def test_what_is_said_after_a_publication_changes_nothing():
    assert judging.judge(history(), changed(ledger(), "reviews", 0, **review("reject", late=True))) == {}
