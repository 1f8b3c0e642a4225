"""Which jobs are published together: those of a line that are ready while another publication of it is written.

A line's generations come one after the other, so jobs that are ready at once would queue for the same lock, and each
would fetch and hash the trie's upper nodes anew. Here they queue in the process instead, and whoever's turn it is takes
along all that wait, as databases do with commits. Nobody waits for company: a job that is alone goes at once.

What a group has in common is a transaction, not a fate. A job that fell out (its lease was lost, a grant could not be
asked) has its own outcome, and a group that failed as a whole is taken apart, so that the job at fault is the one that
fails. A process that dies takes its queue along; the jobs' rows are what others go on from.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias
from weakref import WeakValueDictionary

from anabranch.store.jobs import JobRow

GROUP_JOBS: Final = 32
"""Jobs in a generation at most."""

Outcome: TypeAlias = JobRow | Exception | None
"""What became of a job in `publishing`: the job where its worker goes on, None if there is nothing more to do, or why
it could not be published."""

Together: TypeAlias = Callable[[Sequence[JobRow], dict[str, Outcome]], Awaitable[None]]
"""Publishes jobs of one line together, and puts in outcomes by job id. Unless it raises, the first job has one then;
another that has none does not fit to it, and comes again."""


@dataclass(eq=False, slots=True)
class _Member:
    """A job that waits to be published.

    Attributes:
        job: The job.
        alone: Whether it was in a group that failed: the next time it has none.
    """

    job: JobRow
    alone: bool = False
    outcome: Outcome = None

    def result(self) -> JobRow | None:
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome


@dataclass(eq=False)
class _Queue:
    """The jobs of one line that wait, in the order in which they came."""

    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    waiting: list[_Member] = field(default_factory=list)

    async def serve(self, together: Together) -> None:
        """Publish the first, and what goes along with it."""
        first, *others = self.waiting
        group = [first]
        if not first.alone:
            group += [member for member in others if not member.alone][: GROUP_JOBS - 1]
        outcomes: dict[str, Outcome] = {}
        try:
            await together([member.job for member in group], outcomes)
        except Exception as error:  # noqa: BLE001  (whatever it is, it belongs to one of them)
            self._settle(group, outcomes)
            left = [member for member in group if member in self.waiting]
            for member in left:
                member.alone = True
            if left == [first]:
                self._settle(left, {first.job.job_id: error})
        else:
            self._settle(group, outcomes)

    def leave(self, member: _Member) -> None:
        """Take a member out whose worker has stopped, or who has its outcome."""
        if member in self.waiting:
            self.waiting.remove(member)

    def _settle(self, group: Sequence[_Member], outcomes: Mapping[str, Outcome]) -> None:
        for member in group:
            if member.job.job_id in outcomes:
                member.outcome = outcomes[member.job.job_id]
                self.leave(member)


class Gathering:
    """The queues of a process, one a line that has one now."""

    def __init__(self) -> None:
        self._queues: WeakValueDictionary[str, _Queue] = WeakValueDictionary()

    async def publish(self, job: JobRow, together: Together) -> JobRow | None:
        """Publish a job with the others of its line that are ready.

        Args:
            job: In ``publishing``, held by the caller, who goes on renewing its lease.
            together: Used if it is the caller's turn.

        Returns:
            The job's outcome.

        Raises:
            Exception: The job's own, of ``together``.
        """
        queue = self._queues.setdefault(job.line, _Queue())
        member = _Member(job)
        queue.waiting.append(member)
        try:
            async with queue.turn:
                while member in queue.waiting:  # else somebody took it along
                    await queue.serve(together)
        finally:
            queue.leave(member)
        return member.result()
