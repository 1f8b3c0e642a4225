"""A Baseline's review policy: who decides what becomes a fact, and what may be proposed to them."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from anabranch.model import limits
from anabranch.model.crd.base import (
    SET,
    Scope,
    Spec,
)

AgentName = Annotated[
    str,
    StringConstraints(
        min_length=1,
        max_length=317,
        pattern=r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$",
    ),
]
SourceKind = Literal["evidence", "record", "checkpoint", "git", "https", "import"]


class AutoAccept(Spec):
    """What may be accepted without a reviewer."""

    scopes: Annotated[tuple[Scope, ...], Field(max_length=limits.LINE_SCOPES, json_schema_extra=SET)] = ()
    """Only findings in these scopes. Empty: any scope."""

    source_kinds: Annotated[tuple[SourceKind, ...], Field(max_length=6, json_schema_extra=SET)] = ()
    """Only findings whose verified sources are all of these kinds. Empty: any kind."""

    agents: Annotated[tuple[AgentName, ...], Field(max_length=256, json_schema_extra=SET)] = ()
    """Only findings of these agents: an agent's id, or namespace/id for one whose Branch lies in another namespace than
    this Baseline. Empty: any agent."""


class ProposalBudget(Spec):
    """What one job may cost. A request counts before it is made."""

    requests: Annotated[int, Field(ge=1, le=1_000)] = 20
    """Most times that the model is asked."""

    tokens: Annotated[int, Field(ge=1_000, le=10_000_000)] = 200_000
    """Most tokens that requests and answers come to. Until an answer tells, the most that it may have counts."""


class Proposals(Spec):
    """Which model may propose what, and for how much."""

    model: Annotated[str, StringConstraints(min_length=1, max_length=253, pattern=r"^[a-z0-9][a-z0-9.-]*$")]
    """Name of a model in the operator's own configuration (`models`). The texts of what waits, and of the record that
    it contradicts, are sent there; what a finding keeps private is not."""

    merges: bool = True
    """Where findings that wait in a job, and the record that they contradict, say different things of a key: have it
    propose one text in their place."""

    summaries: bool = False
    """Where five findings or more of one topic wait in a job (of keys `topic/...`, and of one scope): have it propose a
    record `topic/summary` that stands beside them."""

    budget: ProposalBudget = ProposalBudget()
    """What one job may cost."""


class ReviewPolicy(Spec):
    """Who decides what becomes a fact."""

    mode: Literal["Manual", "Automatic"] = "Manual"
    """Manual: every finding waits for a reviewer. Automatic: findings with a verified source that meet `autoAccept` and
    contradict nothing are accepted; conflicts, summaries, merges and deletions wait all the same."""

    require_sources: bool = True
    """Reject a finding, as Unsupported, when none of the sources that it names can be verified, or it names none."""

    auto_accept: AutoAccept = AutoAccept()
    """With mode Automatic: which findings need no reviewer."""

    min_reviewers: Annotated[int, Field(ge=1, le=16)] = 1
    """How many different reviewers must accept a finding. One rejection rejects it."""

    forbid_self_review: bool = True
    """A decision of the finding's own author does not count."""

    proposals: Proposals | None = None
    """Have a model propose merges and summaries of what waits. A proposal is marked as the model's, has the sources of
    all that it was made from, and always waits for a reviewer. Without it no model is asked."""
