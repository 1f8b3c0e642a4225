from dataclasses import dataclass

import pytest

from anabranch.domain.conflict import CLEAN, Assessment
from anabranch.domain.policy import ReviewPolicy, route

CONFLICT = Assessment("conflict", "BaseRevisionSuperseded", "it moved")
AUTOMATIC = ReviewPolicy(automatic=True)


@dataclass(frozen=True)
class Finding:
    op: str = "put"
    scope: str = "shared"
    content_hash: bytes = b"new"
    base_revision: int = 7


@dataclass(frozen=True)
class Record:
    revision: int = 7
    scope: str = "shared"
    content_hash: bytes = b"old"
    tombstone: bool = False


def way(policy=AUTOMATIC, assessment=CLEAN, *, record=None, kinds=("evidence",), **finding):
    decided = route(policy, Finding(**finding), record, assessment, verified_kinds=set(kinds))
    return decided.way, decided.reason


def test_a_verified_finding_that_fits_goes_on_in_automatic_mode():
    assert way() == ("accept", "")


def test_every_candidate_waits_in_manual_mode():
    assert way(ReviewPolicy()) == ("wait", "ReviewRequired")


@pytest.mark.parametrize("policy", [AUTOMATIC, ReviewPolicy()])
@pytest.mark.parametrize("assessment", [CLEAN, CONFLICT])
def test_what_no_source_supports_is_refused_whatever_the_mode(policy, assessment):
    assert way(policy, assessment, kinds=()) == ("reject", "Unsupported")


def test_without_require_sources_an_unsupported_finding_goes_on():
    assert way(ReviewPolicy(automatic=True, require_sources=False), kinds=()) == ("accept", "")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"assessment": CONFLICT}, "BaseRevisionSuperseded"),
        ({"op": "tombstone"}, "DeletionProposed"),
        ({"op": "tombstone", "kinds": ()}, "DeletionProposed"),
        ({"record": Record(scope="team/build")}, "ScopeChange"),
    ],
)
def test_conflicts_deletions_and_moves_wait_in_automatic_mode(changes, reason):
    assert way(**changes) == ("wait", reason)


def test_writing_over_a_deletion_in_another_scope_moves_nothing():
    assert way(record=Record(scope="team/build", tombstone=True)) == ("accept", "")


def test_auto_accept_narrows_by_scope():
    policy = ReviewPolicy(automatic=True, accept_scopes=frozenset({"team/build"}))

    assert way(policy) == ("wait", "ScopeNotAutomatic")
    assert way(policy, scope="team/build") == ("accept", "")


def test_auto_accept_narrows_by_the_kind_of_every_verified_source():
    policy = ReviewPolicy(automatic=True, require_sources=False, accept_kinds=frozenset({"git", "record"}))

    assert way(policy, kinds={"git"}) == ("accept", "")
    assert way(policy, kinds={"git", "https"}) == ("wait", "SourceKindNotAutomatic")
    assert way(policy, kinds=()) == ("wait", "SourceKindNotAutomatic")


def test_a_policy_is_read_from_the_spec_and_fills_its_defaults():
    assert ReviewPolicy.parse({}) == ReviewPolicy()
    assert ReviewPolicy.parse(
        {
            "mode": "Automatic",
            "requireSources": False,
            "minReviewers": 2,
            "forbidSelfReview": False,
            "autoAccept": {"scopes": ["shared"], "sourceKinds": ["git"]},
        }
    ) == ReviewPolicy(
        automatic=True,
        require_sources=False,
        accept_scopes=frozenset({"shared"}),
        accept_kinds=frozenset({"git"}),
        min_reviewers=2,
        forbid_self_review=False,
    )
