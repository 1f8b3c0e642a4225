"""Validation: which candidates are the same, which have sources, which still fit, and so which may go on.

Looking sources up may take seconds, so all of it comes before the one transaction that leaves this state. In that
transaction the candidates that must wait are split off into a job of their own: one conflict holds nobody up.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from anabranch.consolidation import holding, likening, outcomes
from anabranch.consolidation.outcomes import (
    Head,
    cited,
    compared,
    marked,
    policy_of,
    read_head,
    says_nothing_new,
    waiting_keys,
)
from anabranch.consolidation.sources import Citation
from anabranch.domain.dedup import group
from anabranch.domain.facts import FACT_RUNS, FACT_SOURCES, union
from anabranch.domain.policy import Agent, ReviewPolicy, Route, route
from anabranch.identity import Caller
from anabranch.model.locators import parse_locator
from anabranch.store import branches, candidates, retractions

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from anabranch.consolidation.services import Services
    from anabranch.consolidation.sources import Found
    from anabranch.store.branches import BranchRow
    from anabranch.store.candidates import CandidateRow
    from anabranch.store.jobs import JobRow
    from anabranch.store.retractions import Statement


_MARKED: Final = Route("wait", "SourceRetracted", "it was derived from what is to be withdrawn")
_WITHDRAWN: Final = Route("wait", "Retracted", "the same was withdrawn before")


async def validate(services: Services, job: JobRow) -> JobRow | None:
    """Decide on a job's candidates as far as no person is needed.

    Returns:
        The job in ``publishing`` or ``published``; None if it waits for a review now.

    Raises:
        UnreachableSourceError: If a source could not be asked; another try may succeed.
    """
    async with services.db.connection() as conn:
        rows = await candidates.of_job(conn, line=job.line, job_id=job.job_id)
        branch = await branches.get(conn, job.branch_id) if job.branch_id is not None else None
    settled = [row for row in rows if row.state != "pending"]
    # Ten thousand candidates take a second or two: beside the event loop, which has leases to keep.
    distinct, duplicates = await asyncio.to_thread(_merged, [row for row in rows if row.state == "pending"])
    checked = await _check_sources(services, job, branch, distinct)
    async with services.db.connection() as conn:
        head = await read_head(conn, job.line, checked)
        held = await waiting_keys(conn, checked)
        withdrawn: Collection[Statement] = ()
        if await retractions.any_published(conn, line=job.line):
            statements = {(row.key, row.content_hash) for row in checked if row.op == "put"}
            withdrawn = await retractions.withdrawn_among(conn, line=job.line, statements=statements)
    decided = await asyncio.to_thread(
        _decide,
        checked,
        head,
        policy=policy_of(head.state, job),
        agent=None if branch is None else _agent(branch),
        held=held,
        withdrawn=withdrawn,
    )
    await likening.keep(services.db, decided)
    moved = await holding.leave(
        services, job, decided=[*decided, *duplicates], settled=settled, revision=head.state.head.revision
    )
    outcomes.tell(decided, by="policy")
    return moved


def _merged(rows: list[CandidateRow]) -> tuple[list[CandidateRow], list[CandidateRow]]:
    """Statements made once, with the sources of all who made them; and the duplicates."""
    distinct: list[CandidateRow] = []
    duplicates: list[CandidateRow] = []
    for same in group(rows):
        # Whoever made the statement last knew the newest record; the others are further witnesses.
        kept = max(same.all, key=lambda row: row.base_revision)
        sources: dict[str, dict[str, Any]] = {}
        for row in same.all:
            for source in row.sources:
                sources.setdefault(source["locator"], source)
        distinct.append(
            replace(
                kept,
                sources=tuple(sources.values())[:FACT_SOURCES],
                origin_runs=union(*(row.origin_runs for row in same.all), limit=FACT_RUNS),
            )
        )
        detail = f"the same as candidate {kept.candidate_id}"
        duplicates += [marked(row, "duplicate", "ExactDuplicate", detail) for row in same.all if row is not kept]
    return distinct, duplicates


def _agent(branch: BranchRow) -> Agent:
    """Whose findings the candidates of a branch are."""
    return Agent(
        namespace=branch.namespace,
        agent_id=branch.agent_id,
        at_home=branch.namespace == branch.baseline_namespace,
    )


async def _check_sources(
    services: Services, job: JobRow, branch: BranchRow | None, rows: list[CandidateRow]
) -> list[CandidateRow]:
    """Look up the sources that nobody has looked up yet."""
    pending = [source["locator"] for row in rows for source in row.sources if source["status"] == "pending"]
    if not pending or branch is None:
        return rows
    citation = Citation(
        line=job.line,
        namespace=job.namespace,
        branch_id=branch.branch_id,
        agent=Caller.for_service_account(branch.namespace, branch.service_account),
    )
    found = await services.sources.check(citation, pending, last_try=job.attempt >= job.retry_limit)
    return await asyncio.to_thread(_with_sources, rows, found)


def _with_sources(rows: list[CandidateRow], found: Mapping[str, Found]) -> list[CandidateRow]:
    return [replace(row, sources=tuple(_looked_up(source, found) for source in row.sources)) for row in rows]


def _looked_up(source: dict[str, Any], found: Mapping[str, Found]) -> dict[str, Any]:
    result = found.get(source["locator"])
    if result is None or source["status"] != "pending":
        return source
    return source | {"status": "verified" if result.verified else "unresolved", "detail": result.detail}


def _decide(  # noqa: PLR0913  (everything that it depends on)
    rows: list[CandidateRow],
    head: Head,
    *,
    policy: ReviewPolicy,
    agent: Agent | None,
    held: Mapping[str, str],
    withdrawn: Collection[Statement],
) -> list[CandidateRow]:
    """Where each distinct candidate goes, in the order in which they were submitted.

    Of several findings for one key the first one stands as if it were alone, and the later ones wait: they would come
    upon the record that the first one makes. So it does not matter how a run's batches are cut into jobs.
    """
    decided = []
    keys: Counter[str] = Counter()
    for row in rows:
        candidate, assessment = compared(row, head)
        if (assessment.kind == "same" or row.mark is not None) and says_nothing_new(
            candidate, head, cited=cited(candidate, verified_only=policy.require_sources)
        ):
            decided.append(marked(candidate, "duplicate", "AlreadyKnown", "the baseline says so already"))
            continue
        way = route(
            policy,
            candidate,
            head.records.get(row.key),
            assessment,
            verified_kinds=_verified_kinds(candidate),
            agent=agent,
        )
        if row.mark is not None:
            way = _MARKED
        elif way.way != "reject" and assessment.kind == "clean" and (row.key, row.content_hash) in withdrawn:
            way = _WITHDRAWN
        if way.way != "reject":
            way = _in_turn(way, row.key, held=held, earlier=keys[row.key])
            keys[row.key] += 1
        state = {"accept": "accepted", "wait": "waiting", "reject": "rejected"}[way.way]
        decided.append(marked(candidate, state, way.reason, way.detail))
    return decided


def _in_turn(way: Route, key: str, *, held: Mapping[str, str], earlier: int) -> Route:
    """Let a candidate wait behind earlier ones of the same branch for the same key."""
    if way.way == "accept" and key in held:
        return Route("wait", "KeyHeld", f"an earlier finding of this run for the key waits in job {held[key]}")
    if way.way == "accept" and earlier:
        return Route("wait", "KeyHeld", "an earlier finding of this run is for the same key")
    return way


def _verified_kinds(row: CandidateRow) -> set[str]:
    return {parse_locator(source["locator"]).kind for source in row.sources if source["status"] == "verified"}
