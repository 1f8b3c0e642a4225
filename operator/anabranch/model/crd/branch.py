"""The Branch: one run of one agent, on a fixed manifest of a Baseline."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from anabranch.model import limits
from anabranch.model.crd.base import (
    SET,
    Condition,
    Count,
    LongToken,
    Name,
    Namespace,
    Ordinal,
    Report,
    Rule,
    Scope,
    Spec,
    Status,
    Token,
    map_by,
    rules,
)


class BaselineRef(Spec):
    """The manifest to fork."""

    namespace: Namespace | None = None
    """Namespace of the Baseline; the Branch's own when left out."""

    name: Name
    """Name of the Baseline."""

    generation: Ordinal | None = None
    """Number of the manifest to fork; what is current at the time of the fork when left out. `status.parent` tells
    which one it was."""


class Agent(Spec):
    """Whose run this is."""

    id: LongToken | None = None
    """Name of the agent; that of its ServiceAccount when left out. Another name needs the verb `use` on `agents`."""

    instance: Token = "default"
    """Which of the agent's instances this is."""

    service_account_name: Name
    """ServiceAccount in the Branch's namespace that the agent runs as. Its own grant decides over the fork (`create` on
    `baselines/fork` in the Baseline's namespace), not that of whoever applies the Branch."""

    @property
    def agent_id(self) -> str:
        """The id, or what it defaults to."""
        return self.id or self.service_account_name


class SharingPolicy(Spec):
    """What of the run may leave it."""

    default: Literal["private", "shareable"] = "private"
    """Visibility of what the agent writes without saying one."""

    scopes: Annotated[tuple[Scope, ...], Field(max_length=limits.LINE_SCOPES, json_schema_extra=SET)] = ()
    """Scopes that findings may be shared in, within the agent's grants. Empty: any."""

    export_private: bool = False
    """Let the agent submit findings marked private. It needs the verb `export` on their scope besides."""


class BranchSpec(Spec):
    """What the Branch shall be."""

    baseline_ref: Annotated[
        BaselineRef,
        Field(
            json_schema_extra=rules(
                Rule("self == oldSelf", "spec.baselineRef is fixed at creation: make another Branch")
            )
        ),
    ]
    """The Baseline, and the manifest of it, that the run starts from. Cannot be changed."""

    agent: Annotated[
        Agent,
        Field(json_schema_extra=rules(Rule("self == oldSelf", "spec.agent is fixed at creation: make another Branch"))),
    ]
    """The agent whose run this is. Cannot be changed."""

    task: Annotated[
        str,
        StringConstraints(max_length=limits.TASK_BYTES, pattern=limits.TEXT_PATTERN),
        Field(
            json_schema_extra=rules(
                Rule(
                    f"size(bytes(self)) <= {limits.TASK_BYTES}",
                    "spec.task is longer than 1,024 bytes: shorten it",
                )
            )
        ),
    ] = ""
    """What the run is to do, in a sentence, of at most 1,024 bytes."""

    sharing_policy: SharingPolicy = SharingPolicy()
    """What of the run may leave it."""


class ParentManifest(Report):
    """The manifest that a Branch was forked from."""

    baseline_id: str
    """Id of the manifest."""

    generation: Count
    """Its number in the Baseline's history."""

    manifest_hash: str
    """Root of the Merkle trie over its records."""


Phase = Literal["Pending", "Active", "Stale", "Completed", "Denied", "Expired"]


class BranchStatus(Status):
    """What the Branch is."""

    observed_generation: Annotated[int, Field(ge=-1)] = -1
    """The metadata.generation that this status answers to; -1 before the operator has seen the resource."""

    branch_id: str | None = None
    """Id of the branch, as the API's paths and batches of findings name it."""

    run_id: str | None = None
    """Id of the run; a Branch is one run."""

    phase: Phase | None = None
    """Pending: not forked yet. Active: the run goes on. Completed: the agent has closed it, all its findings are in.
    Stale: the agent has not been heard of. Denied: a grant was revoked. Expired: reclaimed."""

    parent: ParentManifest | None = None
    """The manifest that the run reads. It never changes."""

    last_submitted_sequence: Count | None = None
    """Batches of findings 1 to this one are received, without a gap."""

    endpoint: str | None = None
    """Path of the branch below the API's address."""

    conditions: Annotated[tuple[Condition, ...], Field(max_length=16, json_schema_extra=map_by("type"))] = ()
    """Ready: forked; stays true when the run is completed. Reconciling or Stalled while it is not, with the reason:
    BaselineUnavailable says that the Baseline is absent or not granted."""
