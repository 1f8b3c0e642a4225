"""The lineage of a record as a caller may see it: from its evidence to every run that has it, and what was made of it.

What is traced is a statement: what the key says, at whichever revisions it says so. Scopes bound every part, and a step
through a record that the caller may not read is none, since it would tell what that one cites.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from anabranch.consolidation import traced
from anabranch.domain.facts import Fact
from anabranch.domain.lineage import depths, locator
from anabranch.domain.sharing import KEPT_BACK
from anabranch.model.canonical import hash_text
from anabranch.model.errors import NotFoundError
from anabranch.model.lineage import DerivedVersion, Retraction, Trace, Witness
from anabranch.store import derivations, retractions, reviews, searching, tracing

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from anabranch.domain.lineage import Named, Step
    from anabranch.store.database import Connection, Database
    from anabranch.store.reviews import ReviewRow
    from anabranch.store.tracing import InJob, VersionRow

STEPS: Final = 10_000
_VERSIONS: Final = 100
_CANDIDATES: Final = 100
_WITNESSES: Final = 1_000


@dataclass(frozen=True, slots=True)
class Lineage:
    """What was found of a record, before it is known which of its jobs the caller may see.

    Attributes:
        trace: All but what its jobs tell.
        proposed: What was, or is, proposed for it.
        citing: What cites it.
        said: Decisions on what was proposed.
        place: Where the next page begins; None: there is none.
    """

    trace: Trace
    proposed: Sequence[InJob]
    citing: Sequence[InJob]
    said: Sequence[ReviewRow]
    place: tuple[int, str, int] | None

    @property
    def jobs(self) -> set[str]:
        """Names of the jobs that tell of it."""
        return {one.job_name for one in (*self.proposed, *self.citing)}

    def shown(self, jobs: Collection[str], *, next_cursor: str | None) -> Trace:
        """The trace with what some jobs tell, by their names; none of them: it does not say whether there are any."""
        told = {"next_cursor": next_cursor}
        if not jobs:
            return self.trace.model_copy(update=told)
        proposed = [traced.candidate(one, self.said) for one in self.proposed if one.job_name in jobs]
        cited = {locator((self.trace.key, int(version.revision))) for version in self.trace.versions}
        citing = [traced.citing(one, cited) for one in self.citing if one.job_name in jobs]
        return self.trace.model_copy(update=told | {"candidates": tuple(proposed), "citing": tuple(citing)})


async def trace(  # noqa: PLR0913  (a page has that many bounds)
    db: Database,
    *,
    line: str,
    key: str,
    revision: int | None,
    scopes: Sequence[str],
    peers: bool,
    after: tuple[int, str, int] | None,
    limit: int,
) -> Lineage:
    """Trace what a key says, or what a revision of it said.

    Args:
        db: The store.
        line: The line.
        key: The key.
        revision: None: the newest that says something.
        scopes: Those that the caller may read.
        peers: Whether the caller may know of runs.
        after: Where the page before ended: steps, key and revision.
        limit: Derived versions on a page.

    Raises:
        NotFoundError: If there is no such version, or not in these scopes.
    """
    async with searching.snapshot(db) as conn:
        versions = await tracing.versions(conn, line=line, key=key, scopes=scopes, limit=_VERSIONS)
        chosen = _chosen(versions, key, revision)
        alike = [one for one in versions if one.content_hash == chosen.content_hash and not one.tombstone]
        steps, complete = await _downstream(conn, line, key, chosen, scopes)
        derived, place = await _page(conn, line, key, steps, after=after, limit=limit)
        proposed = await tracing.candidates(
            conn, line=line, key=key, generations={one.from_generation for one in versions}, limit=_CANDIDATES
        )
        citing = await tracing.citing(
            conn, line=line, locators=[locator((key, one.revision)) for one in alike], limit=_CANDIDATES
        )
        said = await reviews.latest(conn, line=line, job_ids=list({one.candidate.job_id for one in proposed}))
        intervals = [(one.from_generation, one.to_generation) for one in alike]
        seen_by = await tracing.witnesses(conn, line=line, intervals=intervals, limit=_WITNESSES) if peers else None
        asked = await retractions.of_key(conn, line=line, key=key, scopes=scopes)
    # What a branch keeps back tells nobody else what it cites.
    citing = [one for one in citing if one.candidate.reason not in KEPT_BACK]
    checked = traced.checks(proposed)
    found = Trace.model_construct(
        items=tuple(derived),
        next_cursor=None,
        key=key,
        revision=str(chosen.revision),
        content_hash=hash_text(chosen.content_hash),
        versions=tuple(traced.version(one, checked) for one in versions),
        retractions=tuple(map(traced.retraction, asked)),
        complete=complete,
        branches=None
        if seen_by is None
        else tuple(
            Witness(
                branch_id=one.branch_id, agent_id=one.agent_id, state=one.state, forked=one.forked, applied=one.applied
            )
            for one in seen_by
        ),
        candidates=None,
        citing=None,
    )
    return Lineage(found, proposed, citing, said, place)


async def retraction_page(
    db: Database, *, line: str, scopes: Sequence[str], before: str, limit: int
) -> list[Retraction]:
    """The retractions of a line in some scopes, the newest first, older than one."""
    async with db.connection() as conn:
        found = await retractions.page(conn, line=line, scopes=scopes, before=before, limit=limit)
    return [traced.retraction(row) for row in found]


async def retraction(db: Database, *, line: str, retraction_id: str, scopes: Sequence[str]) -> Retraction:
    """A retraction by its id.

    Raises:
        NotFoundError: If there is none, or none in these scopes.
    """
    async with db.connection() as conn:
        row = await retractions.get(conn, line=line, retraction_id=retraction_id)
    if row is None or row.scope not in scopes:
        raise NotFoundError("There is no such retraction that you may see.", hint="Check its id.")
    return traced.retraction(row)


def _chosen(versions: Sequence[VersionRow], key: str, revision: int | None) -> VersionRow:
    """The version to trace."""
    for one in versions:
        if (not one.tombstone) if revision is None else one.revision == revision:
            return one
    raise NotFoundError(
        f"No kept generation has such a version of {key!r} that you may read.",
        hint="Check the key and the revision, or ask for `read` on its scope.",
    )


async def _downstream(
    conn: Connection, line: str, key: str, chosen: VersionRow, scopes: Sequence[str]
) -> tuple[list[Step], bool]:
    """What was derived, and whether that is all."""
    if chosen.tombstone:
        return [], True
    known = await derivations.known(conn, line=line)
    few = await derivations.lag(conn, line=line, progress=known) <= derivations.FEW
    steps = await derivations.downstream(
        conn,
        line=line,
        key=key,
        content_hash=chosen.content_hash,
        scopes=scopes,
        after=known.through if few else known.head_generation,
        limit=STEPS + 1,
    )
    return steps[:STEPS], few and len(steps) <= STEPS


async def _page(  # noqa: PLR0913  (a page has that many bounds)
    conn: Connection,
    line: str,
    key: str,
    steps: Sequence[Step],
    *,
    after: tuple[int, str, int] | None,
    limit: int,
) -> tuple[list[DerivedVersion], tuple[int, str, int] | None]:
    """Some of the derived versions, the nearest first, and where the next page begins."""
    far = sorted((depth, *version) for version, depth in depths(steps, root=key).items())
    places = [place for place in far if after is None or place > tuple(after)][: limit + 1]
    more = len(places) > limit
    places = places[:limit]
    states = await tracing.states(conn, line=line, versions=[place[1:] for place in places])
    scopes = {step.version: step.scope for step in steps}
    cites: dict[Named, list[str]] = {place[1:]: [] for place in places}
    for step in steps:
        if step.version in cites:
            cites[step.version].append(locator(step.source))
    derived = []
    for place in places:
        version = place[1:]
        state = states.get(version)
        fact = None if state is None or state.fact_body is None else Fact.parse(state.fact_body)
        derived.append(
            DerivedVersion.model_construct(
                key=version[0],
                revision=str(version[1]),
                scope=scopes[version],
                steps=place[0],
                cites=tuple(sorted(cites[version])),
                current=state is not None and state.current,
                state=None if fact is None else fact.state,
            )
        )
    return derived, places[-1] if more else None
