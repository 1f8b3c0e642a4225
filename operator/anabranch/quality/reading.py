"""What is told of a Baseline's quality: counters of a generation, and of those before it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from anabranch.baselines import read
from anabranch.domain.quality import Counts
from anabranch.model.canonical import hash_text
from anabranch.model.quality import Quality, QualityAges, QualityCounts, QualityPoint, QualityRecall, ScopeQuality
from anabranch.store import manifests, quality, recall

if TYPE_CHECKING:
    from collections.abc import Collection

    from anabranch.store.database import Database
    from anabranch.store.recall import Measured


async def tell(db: Database, *, line: str, ref: str | int | None, scopes: Collection[str], history: int) -> Quality:
    """What is counted of a generation.

    Args:
        db: The database.
        line: The line.
        ref: The manifest; None: the newest that is counted and not above the current one, or else the current one.
        scopes: Those that are told of one by one.
        history: How many earlier generations to tell of.

    Raises:
        GoneError: If the manifest was pruned.
        NotFoundError: If there never was such a manifest.
    """
    async with db.transaction(readonly=True, isolation="repeatable_read") as conn:
        manifest = await manifests.resolve(conn, line=line, ref="current" if ref is None else ref)
        asked = manifest.generation  # recall is measured before the counters are
        if ref is None and (newest := await quality.totals(conn, line=line, before=manifest.generation + 1, limit=1)):
            manifest = await manifests.resolve(conn, line=line, ref=newest[0].generation)
        told = await quality.told(conn, line=line, generation=manifest.generation)
        counts = await quality.counts(conn, line=line, generation=manifest.generation) if told.counted else {}
        conflicts = await quality.conflicts(conn, line=line)
        before = await quality.totals(conn, line=line, before=manifest.generation, limit=history) if history else []
        answered = await recall.results(conn, line=line, before=asked + 1, limit=history + 1)
    now, verified = datetime.now(UTC), told.sources_required
    total = Counts()
    for one in counts.values():
        total.add(one)
    return Quality(
        manifest=read.ref(manifest),
        total=_counts(total, now, verified=verified) if told.counted else None,
        scopes=tuple(
            ScopeQuality(
                scope=scope,
                open_conflicts=conflicts.get(scope, 0),
                **dict(_counts(counts.get(scope, Counts()), now, verified=verified)),
            )
            for scope in sorted(scopes)
            if told.counted
        ),
        open_conflicts=sum(conflicts.values()),
        duplicates_removed=told.duplicates,
        history=tuple(
            QualityPoint(
                generation=one.generation,
                published_at=one.created_at,
                records=one.records,
                sourced=one.sourced,
                verified=one.verified if verified else None,
            )
            for one in before
        ),
        recall=tuple(_recall(one) for one in answered),
    )


def _recall(one: Measured) -> QualityRecall:
    return QualityRecall(
        generation=one.generation,
        questions=hash_text(one.digest),
        k=one.k,
        tasks=one.tasks,
        recall=one.recall,
        recall_at_1=one.recall_at_1,
        mrr=one.mrr,
        against=one.against,
        change=one.change,
        low=one.low,
        high=one.high,
        worse=tuple(one.worse),
    )


def _counts(counts: Counts, now: datetime, *, verified: bool) -> QualityCounts:
    ages = counts.ages(now)
    return QualityCounts(
        records=counts.records,
        sourced=counts.sourced,
        verified=counts.verified if verified else None,
        ages=QualityAges(
            week=ages.week,
            month=ages.month,
            quarter=ages.quarter,
            year=ages.year,
            older=ages.older,
            undated=ages.undated,
        ),
    )
