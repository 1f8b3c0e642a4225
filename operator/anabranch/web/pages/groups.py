"""One decision on a group of near-identical candidates: it carries the digest of what its reviewer saw."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

from pydantic import ValidationError

from anabranch.model.errors import ConflictError, ForbiddenError, InvalidInputError, NotFoundError
from anabranch.model.misfits import misfits, told
from anabranch.model.requests import GroupDecisionRequest
from anabranch.web.guard import form
from anabranch.web.heard import ReasonMissingError
from anabranch.web.pages import jobs

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.responses import Response

    from anabranch.web.visit import Visit


async def decide(visit: Visit) -> Response:
    """Take a decision on a group, then show what comes next; or show the job as it is now, and why it was not taken."""
    fields = await form(visit.request, visit.visitor)
    namespace, job = visit.name("namespace"), visit.name("job")
    chosen = fields.get("candidate", "")
    try:
        decision = _decision(fields)
        await visit.desk.decide_group(namespace, job, decision)
    except (ConflictError, ForbiddenError, NotFoundError, InvalidInputError) as error:
        return await jobs.answer(
            visit, chosen=chosen, error=error, reason=fields.get("reason", ""), status=error.status
        )
    found = [each async for each in visit.client.candidates(namespace, job)]
    left = [each for each in found if each.state == "waiting" and each.group_id != decision.group_id]
    following = left[0].candidate_id if left else chosen
    return visit.go(f"/jobs/{namespace}/{job}?c={quote(following)}&done={decision.action}")


def _decision(fields: Mapping[str, str]) -> GroupDecisionRequest:
    reason = " ".join(fields.get("reason", "").split())
    if fields.get("action") == "reject" and not reason:
        raise ReasonMissingError("A rejection needs a reason: the agent gets to read it.", hint="Say why, in a line.")
    try:
        return GroupDecisionRequest.model_validate(
            {
                "group_id": fields.get("group", ""),
                "digest": fields.get("digest", ""),
                "action": fields.get("action", ""),
                "reason": reason,
            }
        )
    except ValidationError as error:
        raise InvalidInputError(told(misfits(error.errors())), hint="Nothing was decided.") from None
