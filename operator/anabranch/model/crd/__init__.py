"""The three custom resources as pydantic models: `spec` to read, `status` to write, and the schemas of both."""

from anabranch.model.crd.base import API_VERSION, GROUP, VERSION, Condition, format_duration, parse_duration
from anabranch.model.crd.baseline import (
    ArchiveSource,
    AutoAccept,
    BaselineLimits,
    BaselineSpec,
    BaselineStatus,
    ConfigMapSource,
    ImportSource,
    ManifestSummary,
    Pin,
    Restore,
    ReviewPolicy,
)
from anabranch.model.crd.branch import Agent, BaselineRef, BranchSpec, BranchStatus, ParentManifest, SharingPolicy
from anabranch.model.crd.job import (
    BatchRange,
    BranchRef,
    ConsolidationJobSpec,
    ConsolidationJobStatus,
    Decision,
    JobCounts,
    Review,
)
from anabranch.model.crd.resource import BaselineResource, BranchResource, ConsolidationJobResource, Resource

__all__ = [
    "API_VERSION",
    "GROUP",
    "VERSION",
    "Agent",
    "ArchiveSource",
    "AutoAccept",
    "BaselineLimits",
    "BaselineRef",
    "BaselineResource",
    "BaselineSpec",
    "BaselineStatus",
    "BatchRange",
    "BranchRef",
    "BranchResource",
    "BranchSpec",
    "BranchStatus",
    "Condition",
    "ConfigMapSource",
    "ConsolidationJobResource",
    "ConsolidationJobSpec",
    "ConsolidationJobStatus",
    "Decision",
    "ImportSource",
    "JobCounts",
    "ManifestSummary",
    "ParentManifest",
    "Pin",
    "Resource",
    "Restore",
    "Review",
    "ReviewPolicy",
    "SharingPolicy",
    "format_duration",
    "parse_duration",
]
