"""The CustomResourceDefinitions: names, columns and selectable fields around the schemas of the models."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from anabranch.model.crd import (
    GROUP,
    VERSION,
    BaselineResource,
    BaselineSpec,
    BaselineStatus,
    BranchResource,
    BranchSpec,
    BranchStatus,
    ConsolidationJobResource,
    ConsolidationJobSpec,
    ConsolidationJobStatus,
)
from anabranch.model.crd.schema import structural

if TYPE_CHECKING:
    from pydantic import BaseModel

    from anabranch.model.crd import Resource


@dataclass(frozen=True, kw_only=True)
class _Column:
    """A column of `kubectl get`; `wide` ones are shown with `-o wide` only."""

    name: str
    path: str
    description: str
    type: str = "string"
    wide: bool = False

    def to_json(self) -> dict[str, Any]:
        column = {"name": self.name, "type": self.type, "description": self.description, "jsonPath": self.path}
        return {**column, "priority": 1} if self.wide else column


@dataclass(frozen=True, kw_only=True)
class _Kind:
    resource: type[Resource[Any]]
    short_name: str
    description: str
    spec: type[BaseModel]
    status: type[BaseModel]
    columns: tuple[_Column, ...]
    selectable: tuple[str, ...]


def _condition(name: str, member: str) -> str:
    return f'.status.conditions[?(@.type=="{name}")].{member}'


_READY: Final = _Column(name="Ready", path=_condition("Ready", "status"), description="Whether the spec is honoured.")
_REASON: Final = _Column(
    name="Reason", path=_condition("Ready", "reason"), description="Why it is ready, or is not.", wide=True
)
_AGE: Final = _Column(name="Age", path=".metadata.creationTimestamp", description="Since its creation.", type="date")

_KINDS: Final = (
    _Kind(
        resource=BaselineResource,
        short_name="bl",
        description=(
            "A Baseline is reviewed memory that agents fork from: a line of numbered, immutable manifests, one of "
            "which is current. Findings of agents become facts of a new manifest by consolidation and review."
        ),
        spec=BaselineSpec,
        status=BaselineStatus,
        columns=(
            _Column(
                name="Current",
                path=".status.current.generation",
                description="Number of the manifest that readers and new branches get.",
                type="integer",
            ),
            _Column(
                name="Head",
                path=".status.head.generation",
                description="Number of the newest manifest.",
                type="integer",
            ),
            _Column(
                name="Records",
                path=".status.current.records",
                description="Live records of the current manifest.",
                type="integer",
            ),
            _Column(
                name="Conflicts",
                path=".status.openConflicts",
                description="Conflicts that wait for a reviewer.",
                type="integer",
            ),
            _Column(
                name="Oldest-Conflict",
                path=".status.oldestConflictAge",
                description="How long the oldest of them has waited.",
                type="date",
            ),
            _Column(
                name="Pinned",
                path=".spec.pin['generation','baselineId']",
                description="The manifest that it is rolled back to.",
            ),
            _READY,
            _REASON,
            _AGE,
        ),
        selectable=(".spec.suspend", ".spec.review.mode", ".status.lineId"),
    ),
    _Kind(
        resource=BranchResource,
        short_name="br",
        description=(
            "A Branch is one run of one agent, on a fixed manifest of a Baseline. The agent reads that manifest, keeps "
            "private notes, and submits findings for consolidation."
        ),
        spec=BranchSpec,
        status=BranchStatus,
        columns=(
            _Column(
                name="Baseline", path=".spec.baselineRef.name", description="The Baseline that it was forked from."
            ),
            _Column(
                name="Parent",
                path=".status.parent.generation",
                description="Number of the manifest that it reads.",
                type="integer",
            ),
            _Column(
                name="Agent",
                path=".spec.agent.serviceAccountName",
                description="ServiceAccount of the agent whose run it is.",
            ),
            _Column(name="Phase", path=".status.phase", description="How far the run is."),
            _Column(
                name="Submitted",
                path=".status.lastSubmittedSequence",
                description="Batches of findings that are received, without a gap.",
                type="integer",
            ),
            _Column(name="Ready", path=_READY.path, description=_READY.description, wide=True),
            _REASON,
            _AGE,
        ),
        selectable=(".spec.baselineRef.name", ".spec.agent.serviceAccountName", ".status.phase"),
    ),
    _Kind(
        resource=ConsolidationJobResource,
        short_name="cjob",
        description=(
            "A ConsolidationJob brings findings of agents to a decision: duplicates merge, sources are checked, "
            "conflicts wait for a reviewer, and what is accepted is published in one new manifest. The operator makes "
            "one for each run of received batches; reviewers decide in spec.reviews."
        ),
        spec=ConsolidationJobSpec,
        status=ConsolidationJobStatus,
        columns=(
            _Column(name="Branch", path=".spec.branchRef.name", description="The Branch that the findings come from."),
            _Column(name="From", path=".spec.batches.from", description="First batch.", type="integer"),
            _Column(name="Through", path=".spec.batches.through", description="Last batch.", type="integer"),
            _Column(name="State", path=".status.state", description="The last durable state."),
            _Column(
                name="Accepted", path=".status.counts.accepted", description="Candidates accepted.", type="integer"
            ),
            _Column(
                name="Conflicts",
                path=".status.counts.conflicting",
                description="Candidates that contradict a record.",
                type="integer",
            ),
            _Column(
                name="Generation",
                path=".status.publishedGeneration",
                description="Number of the manifest that it made.",
                type="integer",
            ),
            _Column(name="Complete", path=_condition("Complete", "status"), description="Whether it has ended well."),
            _Column(name="Reason", path=_REASON.path, description=_REASON.description),
            _Column(name="Origin", path=".spec.origin", description="Where the findings come from.", wide=True),
            _Column(name="Held-Job", path=".status.heldJob", description="The job that has the rest.", wide=True),
            _AGE,
        ),
        selectable=(".spec.branchRef.name", ".spec.origin", ".status.state"),
    ),
)


def crds() -> list[dict[str, Any]]:
    """The three CustomResourceDefinitions, as JSON objects."""
    return [_definition(kind) for kind in _KINDS]


def _definition(kind: _Kind) -> dict[str, Any]:
    plural = kind.resource.PLURAL
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{plural}.{GROUP}",
            "labels": {"app.kubernetes.io/name": "anabranch", "app.kubernetes.io/component": "crds"},
        },
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {
                "kind": kind.resource.KIND,
                "listKind": f"{kind.resource.KIND}List",
                "plural": plural,
                "singular": kind.resource.KIND.lower(),
                "shortNames": [kind.short_name],
                "categories": ["anabranch"],
            },
            "versions": [
                {
                    "name": VERSION,
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "additionalPrinterColumns": [column.to_json() for column in kind.columns],
                    "selectableFields": [{"jsonPath": path} for path in kind.selectable],
                    "schema": {"openAPIV3Schema": _root(kind)},
                }
            ],
        },
    }


def _root(kind: _Kind) -> dict[str, Any]:
    text = "See https://kubernetes.io/docs/concepts/overview/working-with-objects/."
    return {
        "description": kind.description,
        "type": "object",
        "required": ["spec"],
        "properties": {
            "apiVersion": {"description": f"Version of this form of the object. {text}", "type": "string"},
            "kind": {"description": f"The kind of the object. {text}", "type": "string"},
            "metadata": {"type": "object"},
            "spec": structural(kind.spec),
            # Until the operator has been here, tools that wait must not take silence for success.
            "status": {**structural(kind.status), "default": {"observedGeneration": -1}},
        },
    }
