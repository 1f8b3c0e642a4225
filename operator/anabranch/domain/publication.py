"""What a publication writes: a function of the accepted candidates and the records at the head.

Deciding is kept apart from writing so that it can be repeated: a publication plans against the head that it saw, locks
it, and plans again if another came in between. Two jobs whose plans touch different keys could share one generation;
the plan does not care which.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, Literal, Protocol, TypeVar

from anabranch.domain.conflict import Canonical, Finding, assess
from anabranch.domain.facts import FACT_RUNS, FACT_SOURCES, Fact, union
from anabranch.model.errors import ConflictError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime


class Accepted(Finding, Protocol):
    """What a plan needs of an accepted candidate."""

    @property
    def key(self) -> str:
        """The record's key."""

    @property
    def branch_id(self) -> str | None:
        """The branch it comes from; None for what an import proposed."""

    @property
    def origin_runs(self) -> tuple[str, ...]:
        """The runs that found it."""

    @property
    def canonical_revision(self) -> int | None:
        """Revision of the record that it was compared with when it was accepted; None: there was none."""

    @property
    def conflicting(self) -> bool:
        """Whether it was accepted against a record that its author did not know."""


class Published(Canonical, Protocol):
    """What a plan needs of a record at the head."""

    @property
    def fact(self) -> Fact:
        """Its provenance."""


A = TypeVar("A", bound=Accepted)


@dataclass(frozen=True, slots=True)
class Write(Generic[A]):
    """A new version of one key.

    Attributes:
        candidate: What it publishes.
        fact: Its provenance.
    """

    candidate: A
    fact: Fact


@dataclass(frozen=True, slots=True, kw_only=True)
class Announcement:
    """An entry of the feed, before the publication gives it a sequence.

    Attributes:
        kind: ``published``, ``tombstone``, or ``superseded`` for the version that one of those replaces.
        scope: Whose readers learn of it.
        key: The record's key.
        revision: Of the version it speaks of; None stands for the revision that the publication brings.
        content_hash: Of that version's content, 32 bytes.
        origin_branch: The branch that found it.
    """

    kind: Literal["published", "superseded", "tombstone"]
    scope: str
    key: str
    revision: int | None
    content_hash: bytes
    origin_branch: str | None


@dataclass(slots=True)
class Plan(Generic[A]):
    """What becomes of each accepted candidate.

    Attributes:
        writes: New versions, at most one a key.
        events: The feed's entries for them, in order.
        duplicates: Candidates that meanwhile say nothing new.
        moved: Candidates whose record has changed since they were accepted: nobody accepted *that*.
    """

    writes: list[Write[A]] = field(default_factory=list)
    events: list[Announcement] = field(default_factory=list)
    duplicates: list[A] = field(default_factory=list)
    moved: list[A] = field(default_factory=list)


def plan(
    accepted: Iterable[A],
    head: Mapping[str, Published],
    *,
    sources: Mapping[str, tuple[str, ...]],
    validated_at: datetime,
) -> Plan[A]:
    """Plan the publication of accepted candidates.

    Args:
        accepted: The candidates, at most one a key.
        head: The newest version of each of their keys, tombstones included; a key that is not there has none.
        sources: The source locators that a fact may cite, by key of the candidate.
        validated_at: When they were accepted.

    Raises:
        ConflictError: If two candidates are for one key.
    """
    result: Plan[A] = Plan()
    keys: set[str] = set()
    for candidate in accepted:
        if candidate.key in keys:
            raise ConflictError(
                f"Two accepted candidates are for the key {candidate.key!r}.", hint="Accept one and reject the other."
            )
        keys.add(candidate.key)
        _place(result, candidate, head.get(candidate.key), sources.get(candidate.key, ()), validated_at)
    return result


def _place(
    result: Plan[A], candidate: A, record: Published | None, sources: tuple[str, ...], validated_at: datetime
) -> None:
    """Add one candidate to the plan."""
    same = assess(candidate, record).kind == "same"
    if same:
        cited = union(record.fact.source_locators if record else (), sources, limit=FACT_SOURCES)
        if candidate.op == "tombstone" or record is None or cited == record.fact.source_locators:
            result.duplicates.append(candidate)
            return
        runs = union(record.fact.origin_runs, candidate.origin_runs, limit=FACT_RUNS)
        supersedes = record.fact.supersedes
    elif candidate.canonical_revision != (None if record is None else record.revision):
        result.moved.append(candidate)
        return
    else:
        cited = union(sources, limit=FACT_SOURCES)
        runs = union(candidate.origin_runs, limit=FACT_RUNS)
        supersedes = (record.revision,) if record is not None and candidate.conflicting else ()
        if record is not None and not record.tombstone and (candidate.conflicting or record.scope != candidate.scope):
            # Readers of the old scope may not see the new one: this is how they learn that the record left.
            result.events.append(_superseded(candidate, record))
    result.writes.append(
        Write(
            candidate,
            Fact(source_locators=cited, origin_runs=runs, validated_at=validated_at, supersedes=supersedes),
        )
    )
    result.events.append(
        Announcement(
            kind="published" if candidate.op == "put" else "tombstone",
            scope=candidate.scope,
            key=candidate.key,
            revision=None,
            content_hash=candidate.content_hash,
            origin_branch=candidate.branch_id,
        )
    )


def _superseded(candidate: Accepted, record: Canonical) -> Announcement:
    return Announcement(
        kind="superseded",
        scope=record.scope,
        key=candidate.key,
        revision=record.revision,
        content_hash=record.content_hash,
        origin_branch=candidate.branch_id,
    )
