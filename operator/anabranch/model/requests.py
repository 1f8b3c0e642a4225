"""What callers send to the HTTP API beside the proposal's nine objects. Closed, like all that travels."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any, Literal, Self

from pydantic import Field, JsonValue, StringConstraints, model_validator

from anabranch.model import limits
from anabranch.model.crd.base import LongToken, Name, Namespace, Period, Token
from anabranch.model.objects import SharingPolicy
from anabranch.model.wire import Generation, Hash, Key, Revision, Scope, Visibility, Wire


class BranchRequest(Wire):
    """A Branch to create; the fields of its spec under the names that travel.

    The name makes the request idempotent: the same again is the same branch.
    """

    name: Name
    baseline: Name
    baseline_namespace: Namespace | None = Field(default=None, description="default: the branch's")
    generation: Generation | None = Field(default=None, description="default: what is current at the fork")
    agent_id: LongToken | None = Field(default=None, description="default: the ServiceAccount's name")
    agent_instance: Token = "default"
    service_account: Name | None = Field(default=None, description="default: the caller's own")
    task: Annotated[str, StringConstraints(max_length=limits.TASK_BYTES, pattern=limits.TEXT_PATTERN)] = ""
    sharing_policy: SharingPolicy = SharingPolicy()
    follow: Literal["Apply", "Hold", "Off"] = "Apply"
    lease_seconds: int = Field(default=60, ge=5, le=86_400, description="for how long a sign of life counts")
    ttl_after_finished: Period | None = Field(
        default=timedelta(days=30),
        description="for how long the Branch is kept once its run has ended and all that it found is decided; null: "
        "until somebody deletes it. It changes nothing of a Branch that is there already",
    )


class PrivateWrite(Wire):
    """What to keep under a key of the private overlay."""

    content: JsonValue
    scope: Scope = "shared"
    visibility: Visibility | None = Field(default=None, description="default: what the branch's sharing policy says")
    base_revision: Revision | None = Field(
        default=None,
        description='the revision beneath the overlay that this settles, as `view` shows it; "0": none. Default: what '
        "the first write was based on stays",
    )


class BulkBatches(Wire):
    """Several batches of one branch; each is received or refused by itself."""

    batches: tuple[dict[str, Any], ...] = Field(
        min_length=1, max_length=limits.BULK_BATCHES, description="FindingBatch objects"
    )


class DecisionRequest(Wire):
    """A decision on one candidate. It counts only for exactly what the reviewer saw."""

    candidate_id: Annotated[str, StringConstraints(max_length=63, pattern=r"^cand(_[0-9a-z]{26}){2}$")]
    content_hash: Hash = Field(description="of the candidate's content, as seen")
    base_revision: Revision = Field(description='of the record that it would replace, as seen; "0" where there is none')
    action: Literal["accept", "reject"]
    reason: Annotated[str, StringConstraints(max_length=512, pattern=limits.TEXT_PATTERN)] = ""
    hold: int | None = Field(
        default=None,
        ge=1,
        le=2**31 - 1,
        description="the candidate's `hold`, as seen: needed to accept what the recall gate holds",
    )


class GroupDecisionRequest(Wire):
    """A decision on all candidates of a group that wait. It counts only for exactly those that the reviewer saw."""

    group_id: Annotated[str, StringConstraints(max_length=63, pattern=r"^cand(_[0-9a-z]{26}){2}$")]
    digest: Hash = Field(description="of the group's members, as seen (`groups` of the job)")
    action: Literal["accept", "reject"]
    reason: Annotated[str, StringConstraints(max_length=512, pattern=limits.TEXT_PATTERN)] = ""


class ReviewRequest(Wire):
    """Decisions on one job's candidates: all are recorded, or none. One on a candidate comes before its group's."""

    decisions: tuple[DecisionRequest, ...] = Field(default=(), max_length=256)
    groups: tuple[GroupDecisionRequest, ...] = Field(default=(), max_length=32)

    @model_validator(mode="after")
    def _decides(self) -> Self:
        if not self.decisions and not self.groups:
            raise ValueError("name at least one decision: in `decisions`, or in `groups`")
        return self


class RetractionRequest(Wire):
    """What is to be withdrawn, and why. It is proposed to reviewers, and done when they have accepted it."""

    key: Key
    revision: Revision | None = Field(
        default=None, description="whose content is meant, of whichever revisions say so; default: what is current"
    )
    reason: Annotated[str, StringConstraints(min_length=1, max_length=512, pattern=limits.TEXT_PATTERN)] = Field(
        description="for reviewers, and for whoever cites it later"
    )
    derived: Literal["mark"] = Field(
        default="mark", description="what becomes of records that were derived from it: they are marked for a review"
    )
