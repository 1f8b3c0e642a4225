"""What an agent's memory is, without a database: what may come of things that happen to it at once.

The model is told what each of those who acted was answered, and makes of it what must be there now. Who writes to an
envelope is answered a revision, so the order of the writes is known; who claims, acknowledges or reads is answered what
it got, so it is known what was told and what is seen. The rest is checked against the state before.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Callable

    from anabranch.model.agent_events import AgentEvent, MemoryDigest
    from anabranch.model.memory import Exchange, MemorySynced

KEPT = 50
ATTEMPTS = 3


@dataclass
class Event:
    """An event in a queue. `due`: it would be given to whoever claims, or given up."""

    status: Literal["pending", "claimed", "acked", "failed"] = "pending"
    due: bool = True
    attempts: int = 0
    claim: Any = None
    delivered: set[int] = field(default_factory=set)
    stamp: int | None = None

    @property
    def claimable(self) -> bool:
        return self.due and self.attempts < ATTEMPTS

    @property
    def spent(self) -> bool:
        return self.due and self.attempts >= ATTEMPTS

    def end(self, status: Literal["acked", "failed"]) -> None:
        self.status, self.due = status, False


@dataclass
class Answers:
    """What those got to hear who acted at once on one envelope.

    Attributes:
        writes: The revision that each write was given, and what it did.
        syncs: Those that changed nothing, with what they gave.
        told: Ids of new events, in their order.
        claims: Events, by poller.
        acks: Event, claim, and whether it was accepted; likewise `fails`.
        reads: Revisions, and whether one of them was unseen.
    """

    writes: list[tuple[int, Write]] = field(default_factory=list)
    syncs: list[tuple[MemorySynced, Sync]] = field(default_factory=list)
    told: list[str] = field(default_factory=list)
    claims: list[list[AgentEvent]] = field(default_factory=list)
    acks: list[tuple[str, Any, bool]] = field(default_factory=list)
    fails: list[tuple[str, Any, bool]] = field(default_factory=list)
    reads: list[tuple[list[int], bool]] = field(default_factory=list)


@dataclass
class Put:
    place: str
    content: Any


@dataclass
class Delete:
    place: str


@dataclass
class Note:
    """Exchanges in their order, by id."""

    ids: list[str]


@dataclass
class Sync:
    mode: Literal["full", "patch"]
    given: dict[str, Any]

    def applied(self, sections: dict[str, Any]) -> dict[str, Any]:
        return dict(self.given) if self.mode == "full" else sections | self.given


Write = Put | Delete | Note | Sync


class EnvelopeModel:
    """An envelope, and the queue of its instance."""

    def __init__(self) -> None:
        self.revision = 0
        self.last_seen = 0
        self.sections: dict[str, Any] = {}
        self.entries: dict[int, str] = {}  # ids by revision
        self.seen: set[int] = set()
        self.had: dict[str, int] = {}  # revisions of all that ever were, by id
        self.events: dict[str, Event] = {}
        self.last_sync: Sync | None = None  # that left the sections as they are
        self.last_sync_known = True

    # What one who acts alone must get to hear.

    @property
    def unseen(self) -> list[int]:
        return sorted(self.entries.keys() - self.seen, reverse=True)

    def would_claim(self, limit: int) -> list[str]:
        return [name for name, event in self.events.items() if event.claimable][:limit]

    def holds(self, name: str, claim: Any) -> bool:
        event = self.events[name]
        return event.status == "claimed" and event.claim == claim

    def check_alone(self, answers: Answers, *, limit: int, fits: Callable[[MemoryDigest, str], bool]) -> None:
        """Check what one who acted alone got to hear, on the state before.

        Args:
            answers: Of one act.
            limit: Of a claim.
            fits: Whether a digest has bytes for one more exchange, by its id.
        """
        for events in answers.claims:
            assert [event.id for event in events] == self.would_claim(limit)
            left = self.unseen
            for event in events:
                digest = event.data.memory_digest
                told = [self._revision(entry) for entry in digest.entries]
                assert told == left[: len(told)]
                left = left[len(told) :]
                assert digest.omitted == len(left)
                assert event.data.memory_revision == str(self.revision)
                assert len(told) == 5 or not left or not fits(digest, self.entries[left[0]])
        for answer, sync in answers.syncs:
            assert answer.deduplicated == (self.last_sync == sync) or not self.last_sync_known
        for name, claim, accepted in answers.acks:
            event = self.events[name]
            again = event.claim == claim and event.status == "acked"
            assert accepted == (self.holds(name, claim) or again)
        for name, claim, accepted in answers.fails:
            event = self.events[name]
            again = event.claim == claim and event.status in ("pending", "failed")
            assert accepted == (self.holds(name, claim) or again)

    # What becomes of it.

    def settle(self, answers: Answers) -> None:
        """Take what happened at once for true, if it may be."""
        before = {name: Event(**vars(event)) for name, event in self.events.items()}
        unseen, revision = set(self.unseen), self.revision
        self._write(answers)
        self.events |= {name: Event() for name in answers.told}
        acked = self._end(answers, before)
        self._claim(answers, before, unseen=unseen, revision=revision)
        for name in acked:
            self.seen |= before[name].delivered
            self.last_seen = max(self.last_seen, before[name].stamp or 0)
        for revisions, fresh in answers.reads:
            self.seen |= set(revisions)
            self.last_seen = max(self.last_seen, *revisions) if fresh else self.last_seen
        self.seen &= self.entries.keys()

    def _write(self, answers: Answers) -> None:
        states = {self.revision: self.sections}
        for revision, write in sorted(answers.writes, key=lambda each: each[0]):
            if isinstance(write, Note):
                assert revision - len(write.ids) == self.revision, "a revision was given twice, or not at all"
                assert self.had.keys().isdisjoint(write.ids), "an exchange was noted twice"
                noted = dict(enumerate(write.ids, self.revision + 1))
                self.had |= {name: at for at, name in noted.items()}
                self.entries = dict(sorted((self.entries | noted).items())[-KEPT:])
            else:
                assert revision == self.revision + 1, "a revision was given twice, or not at all"
                if isinstance(write, Put):
                    self.sections = self.sections | {write.place: write.content}
                elif isinstance(write, Delete):
                    self.sections = {place: said for place, said in self.sections.items() if place != write.place}
                else:
                    assert write.applied(self.sections) != self.sections
                    self.sections = write.applied(self.sections)
                self.last_sync = write if isinstance(write, Sync) else None
            self.revision = revision
            states[revision] = self.sections
        for answer, sync in answers.syncs:  # what it gave was there at that revision, or since the one before it
            state = max(known for known in states if known <= int(answer.revision))
            assert sync.applied(states[state]) == states[state]
        own = [write for _, write in [*answers.writes, *answers.syncs] if not isinstance(write, Note)]
        if answers.syncs:
            _, self.last_sync = answers.syncs[-1]
        if own:  # whichever of several was last
            self.last_sync_known = len(own) == 1 or not any(isinstance(write, Sync) for write in own)

    def _end(self, answers: Answers, before: dict[str, Event]) -> set[str]:
        """Of the events that were held, those that were acknowledged or given back; the former are given."""
        taken = {event.id for events in answers.claims for event in events}
        acked = set()
        for ends, others in ((answers.acks, answers.fails), (answers.fails, answers.acks)):
            for name, claim, accepted in ends:
                was = before[name]
                if not (was.status == "claimed" and was.claim == claim):
                    continue
                rivals = any(each[:2] == (name, claim) and each[2] for each in others)
                if not accepted:  # somebody was first
                    assert rivals or (was.due and (name in taken or (was.spent and answers.claims)))
                    continue
                assert not rivals
                if ends is answers.acks:
                    assert name not in taken
                    self.events[name].end("acked")
                    acked.add(name)
                elif was.attempts >= ATTEMPTS:
                    self.events[name].end("failed")
                elif name not in taken:
                    self.events[name].status, self.events[name].due = "pending", False
        return acked

    def _claim(self, answers: Answers, before: dict[str, Event], *, unseen: set[int], revision: int) -> None:
        for events in answers.claims:
            told_here: list[int] = []
            for event in events:
                mine = self.events[event.id]
                was = before.get(event.id, Event())
                assert was.claimable, "it was not to be had"
                assert mine.claim == was.claim, "two have it"
                told = [self._revision(entry) for entry in event.data.memory_digest.entries]
                told_here += told
                stamp = int(event.data.memory_revision)
                assert revision <= stamp <= self.revision
                assert all(each in unseen or each > revision for each in told)
                assert all(each <= stamp for each in told)
                mine.status, mine.due, mine.claim, mine.stamp = "claimed", False, event.claimid, stamp
                mine.attempts, mine.delivered = was.attempts + 1, set(told)
                assert event.attempts == mine.attempts
            assert len(told_here) == len(set(told_here)), "told twice in one answer"
        if answers.claims:
            for event in self.events.values():
                if event.spent:
                    event.end("failed")

    def _revision(self, entry: Exchange) -> int:
        """Of an exchange as it is told; it may have fallen out meanwhile."""
        return self.had[entry.takeaway.split()[0]]
