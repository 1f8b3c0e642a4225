"""A decision: what a form carries of what its reviewer saw, and what becomes of it when that has changed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from pydantic import ValidationError

from anabranch.model.errors import ConflictError, ForbiddenError, InvalidInputError, NotFoundError
from anabranch.model.misfits import misfits, told
from anabranch.model.requests import DecisionRequest
from anabranch.web import reading
from anabranch.web.desk import Voice
from anabranch.web.guard import form
from anabranch.web.heard import ReasonMissingError
from anabranch.web.pages import jobs

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.responses import Response

    from anabranch.web.visit import Visit


async def decide(visit: Visit) -> Response:
    """Take a decision, then show what comes next; or show the job as it is now, and why it was not taken."""
    fields = await form(visit.request, visit.visitor)
    namespace, job = visit.name("namespace"), visit.name("job")
    chosen = fields.get("candidate", "")
    try:
        decision = _decision(fields)
        await visit.desk.decide(namespace, job, decision, heard=_heard(fields.get("heard", "")))
    except (ConflictError, ForbiddenError, NotFoundError, InvalidInputError) as error:
        return await jobs.answer(
            visit, chosen=chosen, error=error, reason=fields.get("reason", ""), status=error.status
        )
    found, _ = await reading.candidates(visit.client, await visit.client.job(namespace, job))
    person = visit.desk.person
    decided = [entry.candidate_id for entry in await visit.client.reviews(namespace, job) if entry.reviewer == person]
    following = jobs.next_waiting(found, chosen, decided)
    return visit.go(f"/jobs/{namespace}/{job}?c={quote(following)}&done={decision.action}")


def _decision(fields: Mapping[str, str]) -> DecisionRequest:
    reason = " ".join(fields.get("reason", "").split())
    if fields.get("action") == "reject" and not reason:
        raise ReasonMissingError("A rejection needs a reason: the agent gets to read it.", hint="Say why, in a line.")
    try:
        return DecisionRequest.model_validate_strings(
            {
                "candidate_id": fields.get("candidate", ""),
                "content_hash": fields.get("content", ""),
                "base_revision": fields.get("revision", ""),
                "action": fields.get("action", ""),
                "reason": reason,
                **({"hold": fields["hold"]} if "hold" in fields else {}),
            }
        )
    except ValidationError as error:
        raise InvalidInputError(told(misfits(error.errors())), hint="Nothing was decided.") from None


def _heard(text: str) -> set[Voice]:
    """What had been said of the candidate when the form was made."""
    try:
        pairs: Any = json.loads(text)
        return {Voice(str(reviewer), str(action)) for reviewer, action in pairs}
    except (ValueError, TypeError, RecursionError):
        raise InvalidInputError("What came is no form of these pages.", hint="Load the page again.") from None
