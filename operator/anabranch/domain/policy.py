"""What a Baseline's review policy says of a candidate: it may go on, it waits for a person, or it is refused.

The rules stand in one function, in order, so that whoever asks why a finding waits can read why. Nothing here
depends on a store or a clock: the same candidate under the same policy always fares alike.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Self

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from anabranch.domain.conflict import Assessment, Canonical, Finding


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewPolicy:
    """A Baseline's ``spec.review``.

    Attributes:
        automatic: Whether what meets ``accept_scopes`` and ``accept_kinds``, and does not conflict, goes on unreviewed.
        require_sources: Whether a candidate without a verified source is refused as unsupported.
        accept_scopes: Scopes that may go on unreviewed; empty: any.
        accept_kinds: Kinds of source that suffice to go on unreviewed; empty: any.
        accept_agents: Agents whose findings may go on unreviewed, an id or ``namespace/id`` each; empty: any.
        min_reviewers: Distinct reviewers that an acceptance needs.
        forbid_self_review: Whether the author's own decision counts for nothing.
    """

    automatic: bool = False
    require_sources: bool = True
    accept_scopes: frozenset[str] = frozenset()
    accept_kinds: frozenset[str] = frozenset()
    accept_agents: frozenset[str] = frozenset()
    min_reviewers: int = 1
    forbid_self_review: bool = True

    @classmethod
    def parse(cls, review: Mapping[str, Any]) -> Self:
        """The policy of a ``spec.review`` in its JSON form; what is left out has its default."""
        accept = review.get("autoAccept") or {}
        return cls(
            automatic=review.get("mode") == "Automatic",
            require_sources=review.get("requireSources", True),
            accept_scopes=frozenset(accept.get("scopes") or ()),
            accept_kinds=frozenset(accept.get("sourceKinds") or ()),
            accept_agents=frozenset(accept.get("agents") or ()),
            min_reviewers=review.get("minReviewers", 1),
            forbid_self_review=review.get("forbidSelfReview", True),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Agent:
    """Whose finding a candidate is.

    Attributes:
        namespace: Of its Branch.
        agent_id: Its id there.
        at_home: Whether that is the Baseline's own namespace.
    """

    namespace: str
    agent_id: str
    at_home: bool

    def among(self, named: Collection[str]) -> bool:
        """Whether some names, as a policy has them, name this agent."""
        return f"{self.namespace}/{self.agent_id}" in named or (self.at_home and self.agent_id in named)


@dataclass(frozen=True, slots=True)
class Route:
    """Where a candidate goes from validation.

    Attributes:
        way: ``accept`` (on to publication), ``wait`` (for a review) or ``reject``.
        reason: CamelCase; empty when accepted.
        detail: The same for people.
    """

    way: Literal["accept", "wait", "reject"]
    reason: str = ""
    detail: str = ""


def route(  # noqa: PLR0911, PLR0913  (rules in order, a line each, and what they look at)
    policy: ReviewPolicy,
    finding: Finding,
    record: Canonical | None,
    assessment: Assessment,
    *,
    verified_kinds: Collection[str],
    agent: Agent | None = None,
) -> Route:
    """Decide what becomes of a candidate that is no duplicate.

    Args:
        policy: The Baseline's.
        finding: The candidate.
        record: The record of its key at the head, if there is one.
        assessment: How the one stands to the other.
        verified_kinds: The kind of each source that was verified.
        agent: Whose finding it is; None: no agent's.
    """
    if policy.require_sources and finding.op == "put" and not verified_kinds:
        return Route("reject", "Unsupported", "none of its sources could be verified")
    if assessment.kind == "conflict":
        return Route("wait", assessment.reason, assessment.detail)
    if finding.op == "tombstone":
        return Route("wait", "DeletionProposed", "a deletion is always reviewed")
    # Its author reads this, and may not know the other scope: a reviewer sees it in the record beside.
    if record is not None and not record.tombstone and record.scope != finding.scope:
        return Route("wait", "ScopeChange", f"it would move the key to scope {finding.scope} from another")
    if not policy.automatic:
        return Route("wait", "ReviewRequired", "the baseline's review mode is Manual")
    if not verified_kinds:
        return Route("wait", "SourcesNotVerified", "none of its sources could be verified")
    if policy.accept_scopes and finding.scope not in policy.accept_scopes:
        return Route("wait", "ScopeNotAutomatic", f"scope {finding.scope} is not among autoAccept.scopes")
    if policy.accept_kinds and not policy.accept_kinds.issuperset(verified_kinds):
        return Route("wait", "SourceKindNotAutomatic", "its verified sources are not all of autoAccept.sourceKinds")
    if policy.accept_agents and not (agent and agent.among(policy.accept_agents)):
        return Route("wait", "AgentNotAutomatic", "its agent is not among autoAccept.agents")
    return Route("accept")
