from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from anabranch.domain.policy import ReviewPolicy
from anabranch.domain.review import Verdict, settle, tally


@dataclass(frozen=True)
class Decision:
    reviewer: str
    action: str = "accept"
    content_hash: bytes = b"content"
    base_revision: int = 4


def outcome(*decisions, policy=None):
    return counted(*decisions, policy=policy).outcome


def counted(*decisions, policy=None):
    return tally(
        policy or ReviewPolicy(), decisions, content_hash=b"content", canonical_revision=4, authors={"agent", "merger"}
    )


def test_nobody_decided():
    assert counted() == Verdict("open", "0 of 1 acceptances")


def test_one_reviewer_accepts():
    assert counted(Decision("ada")) == Verdict("accept", "accepted by ada")


def test_two_are_needed_where_the_policy_says_so_and_one_person_is_not_two():
    two = ReviewPolicy(min_reviewers=2)

    assert outcome(Decision("ada"), policy=two) == "open"
    assert outcome(Decision("ada"), Decision("ada"), policy=two) == "open"
    assert outcome(Decision("ada"), Decision("bob"), policy=two) == "accept"


def test_one_rejection_outweighs_acceptances_whatever_the_order():
    assert outcome(Decision("ada"), Decision("bob", "reject")) == "reject"
    assert outcome(Decision("bob", "reject"), Decision("ada")) == "reject"


def test_an_author_cannot_approve_what_they_wrote():
    assert counted(Decision("agent")) == Verdict("open", "0 of 1 acceptances; not counted: 1 by its author")
    assert outcome(Decision("merger")) == "open"
    assert outcome(Decision("agent"), policy=ReviewPolicy(forbid_self_review=False)) == "accept"


def test_a_decision_counts_only_for_what_its_reviewer_saw():
    assert outcome(Decision("ada", content_hash=b"other")) == "open"
    assert outcome(Decision("ada", base_revision=3)) == "open"
    assert outcome(Decision("ada", "reject", base_revision=3)) == "open"


def test_a_withdrawn_decision_is_none():
    assert counted(Decision("ada", "withdraw")).detail == "0 of 1 acceptances"


@dataclass(frozen=True)
class Candidate:
    name: str
    key: str


ACCEPT, REJECT, OPEN = (Verdict(outcome, "") for outcome in ("accept", "reject", "open"))


def test_a_sibling_of_an_accepted_candidate_stays_open_without_holding_it_up():
    first, second, other = Candidate("first", "k"), Candidate("second", "k"), Candidate("other", "l")

    settled = settle([first, second, other], [ACCEPT, OPEN, REJECT])

    assert (settled.accepted, settled.siblings, settled.rejected) == ((first,), (second,), (other,))
    assert not settled.open


def test_two_accepted_for_one_key_are_both_refused():
    first, second = Candidate("first", "k"), Candidate("second", "k")

    settled = settle([first, second], [ACCEPT, ACCEPT])

    assert settled.open == (first, second)
    assert settled.clashing == {"k"}
    assert not settled.accepted


@given(st.lists(st.tuples(st.sampled_from("kl"), st.sampled_from([ACCEPT, REJECT, OPEN])), max_size=8))
def test_settling_loses_no_candidate_and_accepts_one_a_key_at_most(pairs):
    candidates = [Candidate(str(i), key) for i, (key, _) in enumerate(pairs)]

    settled = settle(candidates, [verdict for _, verdict in pairs])

    parts = [settled.accepted, settled.rejected, settled.siblings, settled.open]
    assert sorted(c.name for part in parts for c in part) == sorted(c.name for c in candidates)
    assert len({c.key for c in settled.accepted}) == len(settled.accepted)
    assert set(settled.rejected) == {c for c, (_, v) in zip(candidates, pairs, strict=True) if v is REJECT}
