"""What a publication writes: a function of the accepted candidates and the records at the head.

Deciding is kept apart from writing so that it can be repeated: a publication plans against the head that it saw,
locks it, and plans again if another came in between. Two jobs whose plans touch different keys could share one
generation; the plan does not care which.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Generic, Literal, Protocol, TypeGuard, TypeVar

from anabranch.domain.conflict import Canonical, Finding, assess
from anabranch.domain.facts import FACT_RUNS, FACT_SOURCES, Fact, union
from anabranch.model.errors import ConflictError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
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
    def origin_runs(self) -> Sequence[str]:
        """The runs that found it."""

    @property
    def canonical_revision(self) -> int | None:
        """Revision of the record that it was compared with when it was accepted; None: there was none."""

    @property
    def conflicting(self) -> bool:
        """Whether it was accepted against a record that its author did not know."""

    @property
    def mark(self) -> str | None:
        """What it only marks the record as; None: it says something."""

    @property
    def origin(self) -> str:
        """``merge``: somebody wrote it of several candidates for the key, knowing the record."""


class Published(Canonical, Protocol):
    """What a plan needs of a record at the head."""

    @property
    def fact_hash(self) -> bytes:
        """Of its provenance, 32 bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """How much a line may still grow.

    Attributes:
        records: New keys that it may take.
        scopes: The scopes that it has.
        new_scopes: Further scopes that it may take.
    """

    records: int
    scopes: frozenset[str]
    new_scopes: int


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
        refused: Candidates that the line has no room for, each with a reason and its words for people.
    """

    writes: list[Write[A]] = field(default_factory=list)
    events: list[Announcement] = field(default_factory=list)
    duplicates: list[A] = field(default_factory=list)
    moved: list[A] = field(default_factory=list)
    refused: list[tuple[A, str, str]] = field(default_factory=list)


def plan(  # noqa: PLR0913  (everything that the outcome depends on, all named)
    accepted: Iterable[A],
    *,
    head: Mapping[str, Published],
    facts: Mapping[bytes, Fact],
    sources: Mapping[str, Sequence[str]],
    room: Room,
    validated_at: datetime,
    retracted: Collection[str] = (),
) -> Plan[A]:
    """Plan the publication of accepted candidates.

    Args:
        accepted: The candidates, at most one a key.
        head: The newest version of each of their keys, tombstones included; a key that is not there has none.
        facts: Provenance by its hash, at least of the records that say what a candidate says.
        sources: The source locators that a fact may cite, by key of the candidate.
        room: How much the line may grow.
        validated_at: When they were accepted.
        retracted: Source locators of what was withdrawn, or derived from what was: whatever cites them is marked.

    Raises:
        ConflictError: If two candidates are for one key.
    """
    planner: _Planner[A] = _Planner(facts, room, validated_at, retracted)
    keys: set[str] = set()
    for candidate in accepted:
        if candidate.key in keys:
            raise ConflictError(
                f"Two accepted candidates are for the key {candidate.key!r}.", hint="Accept one and reject the other."
            )
        keys.add(candidate.key)
        planner.place(candidate, head.get(candidate.key), sources.get(candidate.key, ()))
    return planner.plan


class _Planner(Generic[A]):
    """A plan in the making."""

    def __init__(
        self, facts: Mapping[bytes, Fact], room: Room, validated_at: datetime, retracted: Collection[str]
    ) -> None:
        self.plan: Plan[A] = Plan()
        self._facts = facts
        self._records = room.records
        self._scopes = set(room.scopes)
        self._new_scopes = room.new_scopes
        self._validated_at = validated_at
        self._retracted = frozenset(retracted)

    def place(self, candidate: A, record: Published | None, sources: Sequence[str]) -> None:
        """Add one candidate to the plan."""
        if candidate.mark is not None:
            self._mark(candidate, record, sources)
        elif assess(candidate, record).kind == "same":
            self._confirm(candidate, record, sources)
        elif candidate.canonical_revision != (None if record is None else record.revision):
            self.plan.moved.append(candidate)
        elif refusal := self._refusal(candidate, record):
            self.plan.refused.append((candidate, *refusal))
        else:
            self._replace(candidate, record, sources)

    def _confirm(self, candidate: A, record: Published | None, sources: Sequence[str]) -> None:
        """Add the sources of a candidate that says what the record says."""
        if record is None or record.tombstone:
            self.plan.duplicates.append(candidate)
            return
        fact = self._facts[record.fact_hash]
        cited = union(fact.source_locators, sources, limit=FACT_SOURCES)
        if cited == fact.source_locators:
            self.plan.duplicates.append(candidate)
            return
        runs = union(fact.origin_runs, candidate.origin_runs, limit=FACT_RUNS)
        self._write(candidate, self._fact(cited, runs, supersedes=fact.supersedes, marked=fact.retracted_sources))

    def _replace(self, candidate: A, record: Published | None, sources: Sequence[str]) -> None:
        """Put a candidate in the record's place."""
        replaced = record is not None and not record.tombstone
        # A merge ends a conflict, too: of those that it was made of.
        conflicting = candidate.conflicting or (replaced and candidate.origin == "merge")
        if record is not None and replaced and (conflicting or record.scope != candidate.scope):
            # Readers of the old scope may not see the new one: this is how they learn that the record left.
            self.plan.events.append(_event("superseded", candidate, record, revision=record.revision))
        supersedes = (record.revision,) if record is not None and conflicting else ()
        cited, runs = union(sources, limit=FACT_SOURCES), union(candidate.origin_runs, limit=FACT_RUNS)
        self._write(candidate, self._fact(cited, runs, supersedes=supersedes))

    def _mark(self, candidate: A, record: Published | None, sources: Sequence[str]) -> None:
        """Let a record say that some of its sources were withdrawn, if it is what the candidate was made for."""
        if not same_statement(record, candidate):
            self.plan.duplicates.append(candidate)
            return
        fact = self._facts[record.fact_hash]
        marked = marked_sources(fact, sources)
        if marked == fact.retracted_sources:
            self.plan.duplicates.append(candidate)
        else:
            # Nobody has validated it anew.
            self._write(candidate, replace(fact, retracted_sources=marked))

    def _fact(
        self,
        sources: tuple[str, ...],
        runs: tuple[str, ...],
        *,
        supersedes: tuple[int, ...],
        marked: tuple[str, ...] = (),
    ) -> Fact:
        """The provenance of what is accepted now."""
        return Fact(
            source_locators=sources,
            origin_runs=runs,
            validated_at=self._validated_at,
            supersedes=supersedes,
            retracted_sources=union(marked, (text for text in sources if text in self._retracted), limit=FACT_SOURCES),
        )

    def _write(self, candidate: A, fact: Fact) -> None:
        self.plan.writes.append(Write(candidate, fact))
        kind: Literal["published", "tombstone"] = "published" if candidate.op == "put" else "tombstone"
        self.plan.events.append(_event(kind, candidate, candidate, revision=None))

    def _refusal(self, candidate: A, record: Published | None) -> tuple[str, str] | None:
        """Why the line has no room for a candidate; takes the room that it needs otherwise."""
        new_record = candidate.op == "put" and (record is None or record.tombstone)
        new_scope = candidate.scope not in self._scopes
        if new_record and self._records <= 0:
            return "RecordLimit", "the baseline has as many records as its spec.limits.records allows"
        if new_scope and self._new_scopes <= 0:
            return "ScopeLimit", "the baseline has as many scopes as its spec.limits.scopes allows"
        self._records -= new_record
        self._new_scopes -= new_scope
        self._scopes.add(candidate.scope)
        return None


P = TypeVar("P", bound=Canonical)


def same_statement(record: P | None, candidate: Finding) -> TypeGuard[P]:
    """Whether a record is there and says, in the same scope, what a candidate says."""
    return (
        record is not None
        and not record.tombstone
        and (record.content_hash, record.scope) == (candidate.content_hash, candidate.scope)
    )


def marked_sources(fact: Fact, retracted: Iterable[str]) -> tuple[str, ...]:
    """The sources that a fact says were withdrawn, once some that it may cite are."""
    return union(
        fact.retracted_sources, (text for text in retracted if text in fact.source_locators), limit=FACT_SOURCES
    )


class _Version(Protocol):
    """What an announcement tells of a version."""

    @property
    def scope(self) -> str: ...

    @property
    def content_hash(self) -> bytes: ...


def _event(
    kind: Literal["published", "superseded", "tombstone"],
    candidate: Accepted,
    version: _Version,
    *,
    revision: int | None,
) -> Announcement:
    return Announcement(
        kind=kind,
        scope=version.scope,
        key=candidate.key,
        revision=revision,
        content_hash=version.content_hash,
        origin_branch=candidate.branch_id,
    )
