from dataclasses import dataclass

import pytest

from anabranch.domain.conflict import CLEAN, Assessment
from anabranch.domain.policy import Agent, ReviewPolicy, route

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


def way(policy=AUTOMATIC, assessment=CLEAN, *, record=None, kinds=("evidence",), agent=None, **finding):
    decided = route(policy, Finding(**finding), record, assessment, verified_kinds=set(kinds), agent=agent)
    return decided.way, decided.reason


def test_a_verified_finding_that_fits_goes_on_in_automatic_mode():
    assert way() == ("accept", "")


def test_every_candidate_waits_in_manual_mode():
    assert way(ReviewPolicy()) == ("wait", "ReviewRequired")


@pytest.mark.parametrize("policy", [AUTOMATIC, ReviewPolicy()])
@pytest.mark.parametrize("assessment", [CLEAN, CONFLICT])
def test_what_no_source_supports_is_refused_whatever_the_mode(policy, assessment):
    assert way(policy, assessment, kinds=()) == ("reject", "Unsupported")


def test_without_require_sources_an_unsupported_finding_is_a_reviewers_to_accept():
    assert way(ReviewPolicy(automatic=True, require_sources=False), kinds=()) == ("wait", "SourcesNotVerified")


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
    assert way(policy, kinds=()) == ("wait", "SourcesNotVerified")


@pytest.mark.parametrize(
    ("agent", "expected"),
    [
        (Agent(namespace="platform", agent_id="docs", at_home=True), ("accept", "")),
        (Agent(namespace="agents", agent_id="build", at_home=False), ("accept", "")),
        (Agent(namespace="agents", agent_id="docs", at_home=False), ("wait", "AgentNotAutomatic")),  # only its id
        (Agent(namespace="elsewhere", agent_id="build", at_home=False), ("wait", "AgentNotAutomatic")),
        (None, ("wait", "AgentNotAutomatic")),
    ],
)
def test_auto_accept_narrows_by_agent_and_an_id_alone_is_one_of_the_baselines_own_namespace(agent, expected):
    policy = ReviewPolicy(automatic=True, accept_agents=frozenset({"docs", "agents/build"}))

    assert way(policy, agent=agent) == expected


def test_what_always_waits_waits_for_a_trusted_agent_too():
    policy = ReviewPolicy(automatic=True, accept_agents=frozenset({"docs"}))
    trusted = Agent(namespace="platform", agent_id="docs", at_home=True)

    assert way(policy, CONFLICT, agent=trusted) == ("wait", "BaseRevisionSuperseded")
    assert way(policy, op="tombstone", agent=trusted) == ("wait", "DeletionProposed")
    assert way(policy, kinds=(), agent=trusted) == ("reject", "Unsupported")


def test_a_policy_is_read_from_the_spec_and_fills_its_defaults():
    assert ReviewPolicy.parse({}) == ReviewPolicy()
    assert ReviewPolicy.parse(
        {
            "mode": "Automatic",
            "requireSources": False,
            "minReviewers": 2,
            "forbidSelfReview": False,
            "autoAccept": {"scopes": ["shared"], "sourceKinds": ["git"], "agents": ["docs"]},
        }
    ) == ReviewPolicy(
        automatic=True,
        require_sources=False,
        accept_scopes=frozenset({"shared"}),
        accept_kinds=frozenset({"git"}),
        accept_agents=frozenset({"docs"}),
        min_reviewers=2,
        forbid_self_review=False,
    )
