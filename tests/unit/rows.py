"""Rows as Postgres has them, for the tests of what is made of them."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from anabranch.store.branches import BranchRow
from anabranch.store.jobs import JobRow
from anabranch.store.lines import HeadRow, LineRow
from anabranch.store.manifests import ManifestRow
from anabranch.store.projection import BaselineState, BranchState, JobStatusRow
from anabranch.store.waiting import WaitingRow

T0 = datetime(2026, 1, 1, 12, tzinfo=UTC)
T1 = T0 + timedelta(hours=1)
LINE = "ln_01h2xcejqtf2nbrexx3vqjhp41"
BRANCH = f"br_{LINE[3:]}_01h2xcejqtf2nbrexx3vqjhp42"
JOB = f"job_{LINE[3:]}_01h2xcejqtf2nbrexx3vqjhp43"


def manifest(generation, kind="publication"):
    return ManifestRow(
        line=LINE,
        generation=generation,
        baseline_id=f"bl_{generation}",
        schema_version=1,
        parent_generation=generation - 1,
        manifest_hash=bytes([generation]) * 32,
        records=10 * generation,
        revision=generation,
        origin={"kind": kind},
        feed_watermark=generation,
        created_at=T0,
    )


def baseline(*, head=0, current=None, pinned=None, suspended=False, conditions=(), watermark=0, kind="publication"):
    current = head if current is None else current
    return BaselineState(
        line=LineRow(
            line=LINE,
            namespace="team",
            namespace_uid="n",
            name="kb",
            uid="u",
            observed_generation=3,
            policy={},
            conditions=list(conditions),
            import_digest=None,
            created_at=T0,
            deleted_at=None,
            due_at=None,
            version=2,
            projected=1,
        ),
        head=HeadRow(
            line=LINE,
            head_generation=head,
            current_generation=current,
            previous_generation=0,
            pinned_generation=pinned,
            suspended=suspended,
            revision=head,
            event_sequence=watermark,
            event_floor=0,
            epoch=1,
        ),
        current=manifest(current) if current else None,
        previous=None,
        newest=manifest(head, kind) if head else None,
        history=tuple(manifest(number, kind) for number in range(head, max(head - 5, 0), -1)),
        pending_batches=0,
        open_conflicts=0,
        oldest_conflict_at=None,
        quality=None,
    )


def job(**changes):
    row = JobRow(
        line=LINE,
        job_id=JOB,
        namespace="team",
        name="scout-1",
        uid="u",
        automatic=True,
        observed_generation=1,
        origin="Branch",
        branch_id=BRANCH,
        from_sequence=1,
        through_sequence=1,
        held_from=None,
        held_job=None,
        state="received",
        failed=False,
        reason="",
        attempt=0,
        fence=1,
        holder=None,
        lease_deadline=None,
        lease_seconds=30,
        retry_limit=5,
        last_error=None,
        retry_at=None,
        due_at=None,
        counts={},
        published_generation=None,
        created_at=T0,
        finished_at=None,
        deleted_at=None,
        version=1,
    )
    return JobStatusRow(
        job=replace(row, **changes),
        branch_namespace="team",
        branch_name="scout",
        published_baseline_id=None,
        accepted=(),
        rejected=(),
        conflicts=(),
    )


def branch(phase="Active"):
    row = BranchRow(
        line=LINE,
        branch_id=BRANCH,
        run_id="run_1",
        namespace="team",
        name="scout",
        uid="u",
        observed_generation=1,
        agent_id="scout",
        agent_instance="default",
        service_account="scout",
        task="",
        sharing_policy={},
        parent_generation=1,
        phase=phase,
        final_sequence=None,
        created_at=T0,
        finished_at=None,
        deleted_at=None,
        version=1,
        parent_baseline_id="bl_1",
        parent_manifest_hash=bytes(32),
        baseline_namespace="team",
        baseline_name="kb",
    )
    return BranchState(branch=row, contiguous_through=4)


def waiting(kind="Branch", **changes):
    row = WaitingRow(
        namespace="team",
        kind=kind,
        name="scout",
        uid="u",
        observed_generation=1,
        condition="Reconciling",
        reason="BaselineUnavailable",
        message="No such Baseline, or no grant.",
        needs_namespace="team",
        needs_name="kb",
        attempt=0,
        due_at=None,
        version=1,
    )
    return replace(row, **changes)
