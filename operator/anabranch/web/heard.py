"""A decision counts for what its reviewer saw: whether that is what there is, and whether others have spoken since."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anabranch.domain.gate import REASONS
from anabranch.model.errors import ConflictError, InvalidInputError, NotFoundError
from anabranch.web.desk import DecidedMeanwhileError, Voice
from anabranch.web.voices import latest, who

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from anabranch.client import AnabranchClient
    from anabranch.model.objects import KnowledgeCandidate
    from anabranch.model.requests import DecisionRequest
    from anabranch.model.reviewing import ReviewEntry


class ReasonMissingError(InvalidInputError):
    """A decision that needs a reason has none."""

    code = "ReasonMissing"


async def noted(client: AnabranchClient, namespace: str, job: str, decision: DecisionRequest) -> set[Voice]:
    """What is noted of a candidate that waits still, and is what its reviewer saw.

    Raises:
        NotFoundError: If the job has no such candidate any more.
        DecidedMeanwhileError: If it waits no more.
        ConflictError: If it, or the record that it would replace, is another by now.
    """
    found = [each async for each in client.candidates(namespace, job) if each.candidate_id == decision.candidate_id]
    said = latest(
        entry for entry in await client.reviews(namespace, job) if entry.candidate_id == decision.candidate_id
    )
    if not found:
        raise NotFoundError("The candidate is in this job no more.", hint="Go back to the queue.")
    _check(found[0], decision, said)
    return _voices(said)


def check_heard(standing: set[Voice], heard: set[Voice], *, person: str) -> None:
    """Refuse a decision whose reviewer has not heard what others have said.

    Args:
        standing: What has been said by now.
        heard: What had been said when the reviewer's page was made.
        person: The reviewer.

    Raises:
        DecidedMeanwhileError: If there is more.
    """
    news = [voice for voice in sorted(standing - heard) if voice.reviewer != person]
    if news:
        raise DecidedMeanwhileError(
            f"{_said(news[0])} while you were reading.", hint="Look again, and decide knowing that."
        )


def _check(candidate: KnowledgeCandidate, decision: DecisionRequest, said: Sequence[ReviewEntry]) -> None:
    """Refuse a decision on what waits no more, or is another by now."""
    if candidate.state != "waiting":
        by = f"{_said(min(_voices(said)))} while you were reading" if said else f"it is {candidate.state}"
        raise DecidedMeanwhileError(f"The candidate waits no more: {by}.", hint="Go on with the next one.")
    revision = candidate.canonical.revision if candidate.canonical else "0"
    if (decision.content_hash, decision.base_revision) != (candidate.content_hash, revision):
        raise ConflictError(
            "The candidate, or the record that it would replace, is another than you saw.",
            hint="Look again, and decide on what you see.",
        )
    if decision.action == "accept" and decision.hold != candidate.hold:
        raise ConflictError(
            "The recall gate has held the candidate since you looked, or holds it no more.",
            hint="Look again, and decide knowing that.",
        )
    if decision.action == "accept" and candidate.reason in REASONS:
        _check_reason(decision, said)


def _check_reason(decision: DecisionRequest, said: Iterable[ReviewEntry]) -> None:
    """Have a reviewer say why what costs answers is to be published: in a resource, the same again says nothing."""
    if not decision.reason or decision.reason in {entry.reason for entry in said}:
        raise ReasonMissingError(
            "It is held for the questions that would be answered no more, which accepting it lets happen.",
            hint="Say why it is to be published all the same, in a line that was not there before.",
        )


def _voices(entries: Iterable[ReviewEntry]) -> set[Voice]:
    return {Voice(entry.reviewer, entry.action) for entry in entries}


def _said(voice: Voice) -> str:
    return f"{who(voice.reviewer)[0]} {voice.action}ed it"
