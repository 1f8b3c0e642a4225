"""What is told of a generation's quality: what can be counted of it, and what it answers."""

from __future__ import annotations

from datetime import datetime

from pydantic import Field

from anabranch.model.objects import (
    ManifestRef,
)
from anabranch.model.wire import Hash, Scope, Wire


class QualityAges(Wire):
    """How long ago records were validated, to the week."""

    week: int = Field(description="records validated a week ago at most")
    month: int = Field(description="up to four weeks ago")
    quarter: int = Field(description="up to 13 weeks ago")
    year: int = Field(description="up to 52 weeks ago")
    older: int = Field(description="longer ago")
    undated: int = Field(description="imported, and never validated here")


class QualityCounts(Wire):
    """What records there are, and what is known of them."""

    records: int = Field(description="live ones")
    sourced: int = Field(description="those that name a source")
    verified: int | None = Field(
        description="those of them that were validated with it, or imported by digest; null while the review policy "
        "does not require sources: then nobody had to look"
    )
    ages: QualityAges


class ScopeQuality(QualityCounts):
    """The same of one scope."""

    scope: Scope
    open_conflicts: int = Field(description="findings that contradict a record and wait for a reviewer, as of now")


class QualityRecall(Wire):
    """What a generation answers of the questions in the Baseline's `spec.recall`."""

    generation: int
    questions: Hash = Field(description="digest of the set; figures of different sets do not compare")
    k: int = Field(description="how many hits of a search count")
    tasks: int = Field(description="how many questions count")
    recall: float = Field(description="recall at k, the mean over them: from 0 to 1")
    recall_at_1: float
    mrr: float | None = Field(description="mean reciprocal rank of the first answer; null: no question has answers")
    against: int | None = Field(description="the generation that the change is from; null: none was asked the same")
    change: float | None = Field(description="recall less that of `against`")
    low: float | None = Field(description="lower end of its 95 % interval")
    high: float | None = Field(description="upper end")
    worse: tuple[str, ...] = Field(description="ids of the questions that `against` answered better")


class QualityPoint(Wire):
    """What a generation had in all scopes."""

    generation: int
    published_at: datetime
    records: int
    sourced: int
    verified: int | None


class Quality(Wire):
    """What can be counted of a generation. More is not better: see docs/quality.md."""

    manifest: ManifestRef = Field(description="what was counted")
    total: QualityCounts | None = Field(
        description="in all scopes; null where the generation is not counted: that is done after the fact, "
        "and not for those from before this was kept"
    )
    scopes: tuple[ScopeQuality, ...] = Field(description="in each scope that the caller may read")
    open_conflicts: int = Field(description="in all scopes, as of now")
    duplicates_removed: int = Field(description="findings, ever, that said what was known already")
    history: tuple[QualityPoint, ...] = Field(description="earlier generations that are counted, newest first")
    recall: tuple[QualityRecall, ...] = Field(
        (),
        description="what the newest generation answers that was asked, up to the one that was named or else the "
        "current one, and then as many before it as `history` says, newest first",
    )
