"""The Branch: one run of one agent, on a fixed manifest of a Baseline."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from anabranch.model import limits
from anabranch.model.crd.base import (
    SET,
    Condition,
    Count,
    Duration,
    LongToken,
    Name,
    Namespace,
    Ordinal,
    Period,
    Report,
    Rule,
    Scope,
    Spec,
    Status,
    Time,
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

    peer_visibility: Literal["state", "task"] = "state"
    """What other followers of the Baseline are told of the run: its agent, state and sequences; with `task` also what
    it is for."""


class Lease(Spec):
    """For how long the agent counts as there after it was heard of."""

    duration: Annotated[
        Duration,
        Field(
            json_schema_extra=rules(
                Rule(
                    "duration(self) >= duration('5s') && duration(self) <= duration('24h')",
                    "spec.lease.duration must be from 5s to 24h",
                )
            )
        ),
    ] = timedelta(seconds=60)
    """How long a renewal of the agent's presence lasts. When it has passed without another one, the phase is Stale
    until the agent is heard of again."""


class Rebase(Spec):
    """Another parent for a run that goes on."""

    to_generation: Ordinal
    """Number of the manifest that the run is to stand on. Nothing but a change of this moves the parent; the private
    overlay stays as it is, and what of it the new parent contradicts is listed by `anabranch branch rebase`."""


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

    follow: Literal["Apply", "Hold", "Off"] = "Apply"
    """What becomes of what others publish during the run. Apply: the agent's view shows it as far as the agent has
    followed. Hold: the agent can look at it, and its view stays on the parent. Off: the run does not follow."""

    lease: Lease = Lease()
    """For how long the agent counts as there after it was heard of."""

    rebase: Rebase | None = None
    """Another parent for a run that goes on. Taking it away again leaves the run where it is."""

    ttl_after_finished: Period | None = None
    """For how long the Branch is kept once its run has ended and all that it found is decided: 12h, 30d. Then the
    operator deletes the resource, and with it the jobs that it owns; what was published stays. Left out: nobody deletes
    it. Where Git holds the Branch leave it out: it would be made again, as another run."""


class ParentManifest(Report):
    """The manifest that a Branch was forked from."""

    baseline_id: str
    """Id of the manifest."""

    generation: Count
    """Its number in the Baseline's history."""

    manifest_hash: str
    """Root of the Merkle trie over its records."""


Phase = Literal["Pending", "Active", "Stale", "Completed", "Denied", "Expired"]


class EarlierParent(Report):
    """A manifest that a run stood on before it was rebased."""

    baseline_id: str
    """Id of the manifest."""

    generation: Count
    """Its number in the Baseline's history."""

    manifest_hash: str
    """Root of the Merkle trie over its records."""

    until: Time
    """When the run was rebased."""

    conflicts: Count
    """How many keys of the private overlay the next parent contradicted."""


class Presence(Report):
    """Whether the agent is there."""

    state: Literal["active", "stale", "unknown", "completed"]
    """active: its lease is being renewed. stale: it ran out. unknown: it never had one. completed: the run is."""

    lease_deadline: Time | None = None
    """When a lease ran out. Renewals are not written here, so it is absent while they come."""


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
    """The manifest that the run reads. It changes by `spec.rebase` alone."""

    lineage: Annotated[tuple[EarlierParent, ...], Field(max_length=5)] = ()
    """What the run stood on before, newest first: the last five."""

    last_submitted_sequence: Count | None = None
    """Batches of findings 1 to this one are received, without a gap."""

    shared_feed_cursor: str | None = None
    """How far the agent has followed the Baseline's feed, as it was saved: an opaque place, at most half a minute
    old."""

    feed_lag: Count | None = None
    """How many events it was behind there."""

    presence: Presence | None = None
    """Whether the agent is there."""

    endpoint: str | None = None
    """Path of the branch below the API's address."""

    store: str | None = None
    """Which of the installation's databases the branch lies in, where that is not the default one. It stays there, and
    the operator of that store answers for it."""

    conditions: Annotated[tuple[Condition, ...], Field(max_length=16, json_schema_extra=map_by("type"))] = ()
    """Ready: forked; stays true when the run is completed. Reconciling or Stalled while it is not, with the reason:
    BaselineUnavailable says that the Baseline is absent or not granted."""
