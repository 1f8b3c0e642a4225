"""Whose page it is: how their reads and their decisions reach the system.

At a person's own machine reads go by a token that they minted and decisions by their kubectl; in a cluster both go to
the API as the person who logged in. The pages know neither.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from anabranch.model.errors import ConflictError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from contextlib import AbstractAsyncContextManager

    from anabranch.client import AnabranchClient
    from anabranch.model.merging import MergeRequest
    from anabranch.model.requests import DecisionRequest, GroupDecisionRequest


class DecidedMeanwhileError(ConflictError):
    """Somebody decided on the candidate after the reviewer's page was made."""

    code = "DecidedMeanwhile"


@dataclass(frozen=True, slots=True, order=True)
class Voice:
    """What a reviewer has said of a candidate, as far as it is known already.

    Attributes:
        reviewer: Username.
        action: ``accept`` or ``reject``.
    """

    reviewer: str
    action: str


class Desk(Protocol):
    """The place from which one person reads and decides."""

    @property
    def person(self) -> str:
        """The username under which decisions are noted."""

    def client(self) -> AbstractAsyncContextManager[AnabranchClient]:
        """The API, with the grants that this person reads by."""

    async def namespaces(self) -> Sequence[str]:
        """Where there may be something to review."""

    async def may_decide(self, namespace: str) -> bool:
        """Whether decisions in a namespace would be taken from this person."""

    async def may_declare(self, namespace: str) -> bool:
        """Whether this person may change a namespace's Baselines."""

    async def agents_namespaces(self) -> Sequence[str]:
        """Where there may be branches, beside the namespaces of Baselines."""

    async def decide(self, namespace: str, job: str, decision: DecisionRequest, *, heard: Iterable[Voice]) -> None:
        """Note a decision of this person.

        Args:
            namespace: Of the job.
            job: Its name.
            decision: It counts only for what the person saw.
            heard: What others had said of the candidate by then.

        Raises:
            DecidedMeanwhileError: If somebody has said something else since.
            ConflictError: If the candidate, or the record that it would replace, is another by now.
            ForbiddenError: If this person may not.
        """

    async def merge(self, namespace: str, job: str, merge: MergeRequest) -> None:
        """Propose one text of several candidates, in this person's name; it becomes a candidate in a moment.

        Args:
            namespace: Of the job.
            job: Its name.
            merge: The text, and what it was made of.

        Raises:
            ConflictError: If they cannot be made one of, or wait no more.
            ForbiddenError: If this person may not.
        """

    async def decide_group(self, namespace: str, job: str, decision: GroupDecisionRequest) -> None:
        """Note a decision of this person on all candidates of a group that wait.

        Args:
            namespace: Of the job.
            job: Its name.
            decision: It counts only for exactly the candidates that the person saw.

        Raises:
            ConflictError: If the group is another by now, or cannot be accepted as one.
            ForbiddenError: If this person may not.
        """
