"""Writing a merge: one text of several sides of a conflict, shown beside each of them before it is proposed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from pydantic import ValidationError

from anabranch.domain.editing import editable, edited, written
from anabranch.model.errors import (
    ConflictError,
    ForbiddenError,
    InvalidInputError,
    NotFoundError,
    QuotaExceededError,
    TooLargeError,
)
from anabranch.model.merging import MergeRequest
from anabranch.model.misfits import misfits, told
from anabranch.web import reading
from anabranch.web.guard import form
from anabranch.web.shown import Member, members

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from starlette.responses import Response

    from anabranch.model.errors import AnabranchError
    from anabranch.model.objects import ConsolidationJob, KnowledgeCandidate
    from anabranch.web.visit import Visit

RECORD: Final = "record"
"""What a form calls the record, beside the candidates by their ids."""

_FIELD: Final = "input."


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """Something that a merge may be made of.

    Attributes:
        name: Id of the candidate, or `RECORD`.
        label: What a person calls it.
        content: What it says.
        chosen: Whether the merge is made of it.
    """

    name: str
    label: str
    content: Any
    chosen: bool


@dataclass(frozen=True, slots=True)
class Draft:
    """What stands in the editor.

    Attributes:
        text: As it stands there.
        plain: Whether the content is the text itself; if not, it is YAML of the content.
        beside: Once it was looked at: each chosen side by its label, with what the merge changes of it.
    """

    text: str
    plain: bool
    beside: Sequence[tuple[str, Sequence[Member]]] = ()


async def show(visit: Visit) -> Response:
    """The editor, with what the side says that the query names, else the candidate that one comes from."""
    job, case, sides = await _open(visit, visit.asked("c"), None)
    start = next((side for side in sides if side.name == visit.asked("from", case.candidate_id)), sides[0])
    return _answer(visit, job, case, sides, Draft(*editable(start.content)))


async def write(visit: Visit) -> Response:
    """Show a merge beside what it is made of; or propose it, and go back to the job."""
    fields = await form(visit.request, visit.visitor)
    names = {name.removeprefix(_FIELD) for name in fields if name.startswith(_FIELD)}
    job, case, sides = await _open(visit, fields.get("candidate", ""), names)
    text, plain = written(fields.get("content", "")), fields.get("kind") == "text"
    draft = Draft(text, plain)
    try:
        content = edited(text, plain=plain)
        if fields.get("action") == "propose":
            _check(sides, names, case, fields)
            await visit.desk.merge(job.namespace, job.name, _request(content, sides, fields))
            here = f"/jobs/{job.namespace}/{job.name}"
            return visit.go(f"{here}?c={quote(case.candidate_id)}&done=merge")
        beside = [(side.label, members(side.content, content)) for side in sides if side.chosen]
    except (
        ConflictError, ForbiddenError, NotFoundError, InvalidInputError, QuotaExceededError, TooLargeError,
    ) as error:  # fmt: skip
        return _answer(visit, job, case, sides, draft, error=error, status=error.status)
    return _answer(visit, job, case, sides, Draft(text, plain, beside))


async def _open(
    visit: Visit, chosen: str, names: set[str] | None
) -> tuple[ConsolidationJob, KnowledgeCandidate, list[Side]]:
    """The job, the candidate that one comes from, and what may be merged with it; names: what was chosen of that."""
    namespace = visit.name("namespace")
    job = await visit.client.job(namespace, visit.name("job"))
    if not await visit.desk.may_decide(namespace):
        raise ForbiddenError(
            f"You may not decide in {namespace}.", hint="Ask for the verb update on consolidationjobs/review."
        )
    found, _ = await reading.candidates(visit.client, job)
    case = next((each for each in found if each.candidate_id == chosen and mergeable(each)), None)
    if case is None:
        raise NotFoundError("There is nothing to merge here any more.", hint="Go back to the job.")
    sides = [
        Side(
            name=each.candidate_id,
            label=f"{'Merge' if each.origin == 'merge' else 'Finding'} {number}",
            content=each.content,
            chosen=each.candidate_id in names if names is not None else each.origin == "finding",
        )
        for number, each in enumerate(partners(found, case), 1)
    ]
    if case.canonical is not None and not case.canonical.tombstone:
        chose = names is None or RECORD in names
        sides.insert(0, Side(name=RECORD, label="The record", content=case.canonical.content, chosen=chose))
    return job, case, sides


def mergeable(candidate: KnowledgeCandidate) -> bool:
    """Whether a text can be made of a candidate."""
    return (
        candidate.state == "waiting" and candidate.op == "put" and candidate.mark is None and candidate.key is not None
    )


def partners(found: Sequence[KnowledgeCandidate], case: KnowledgeCandidate) -> list[KnowledgeCandidate]:
    """A candidate, and the others for its key that a text can be made of."""
    return [each for each in found if each.key == case.key and mergeable(each)]


def _check(sides: Sequence[Side], names: set[str], case: KnowledgeCandidate, fields: Mapping[str, str]) -> None:
    """Refuse a merge of what is open no more, or against another record than its writer saw."""
    if names - {side.name for side in sides}:
        raise ConflictError(
            "One of what the merge was made of waits no more.", hint="Look again, and merge what is open still."
        )
    if fields.get("revision") != (case.canonical.revision if case.canonical else "0"):
        raise ConflictError(
            "The record that it would replace is another than you saw.", hint="Look again, and merge what you see."
        )


def _request(content: Any, sides: Sequence[Side], fields: Mapping[str, str]) -> MergeRequest:
    try:
        return MergeRequest(
            content=content,
            inputs=tuple(side.name for side in sides if side.chosen and side.name != RECORD),
            base_revision=fields.get("revision", ""),
            with_record=any(side.chosen for side in sides if side.name == RECORD),
        )
    except ValidationError as error:
        raise InvalidInputError(told(misfits(error.errors())), hint="Nothing was proposed.") from None


def _answer(  # noqa: PLR0913  (what a page shows)
    visit: Visit,
    job: ConsolidationJob,
    case: KnowledgeCandidate,
    sides: Sequence[Side],
    draft: Draft,
    *,
    error: AnabranchError | None = None,
    status: int = 200,
) -> Response:
    return visit.show(
        "merge.html", status=status, job=job, candidate=case, sides=sides, draft=draft, field=_FIELD,
        revision=case.canonical.revision if case.canonical else "0", error=error,
    )  # fmt: skip
