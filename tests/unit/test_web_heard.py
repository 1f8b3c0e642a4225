"""What the recall gate holds is accepted with a new reason alone: in a resource the same again says nothing."""

from __future__ import annotations

from types import SimpleNamespace

import click
import pytest

from anabranch.cli.review import check_held
from anabranch.model.errors import ConflictError
from anabranch.web.heard import ReasonMissingError, noted


class Client:
    """A job with one candidate, which was accepted before."""

    def __init__(self, reason: str) -> None:
        self._reason = reason

    async def candidates(self, *_):
        seen = {"canonical": None, "content_hash": "h", "hold": 2}
        yield SimpleNamespace(candidate_id="c", state="waiting", reason=self._reason, **seen)

    async def reviews(self, *_):
        return [SimpleNamespace(candidate_id="c", reviewer="ada", action="accept", reason="so it is", ordinal=1)]


async def taken(held: str, action: str, reason: str, *, hold: int | None = 2) -> None:
    seen = {"content_hash": "h", "base_revision": "0", "hold": hold}
    decision = SimpleNamespace(candidate_id="c", action=action, reason=reason, **seen)
    await noted(Client(held), "team", "job", decision)


@pytest.mark.parametrize("reason", ["", "so it is"])
async def test_what_is_held_for_its_recall_is_not_accepted_without_a_new_reason(reason):
    for held in ("RecallRegressed", "RecallBelowFloor"):
        with pytest.raises(ReasonMissingError):
            await taken(held, "accept", reason)
        await taken(held, "reject", reason)
    await taken("BaseRevisionSuperseded", "accept", reason)


async def test_a_new_reason_does():
    await taken("RecallRegressed", "accept", "the question is out of date")


@pytest.mark.parametrize("hold", [None, 1])
async def test_what_was_held_since_the_page_was_made_is_not_accepted_by_it(hold):
    with pytest.raises(ConflictError, match="since you looked"):
        await taken("RecallRegressed", "accept", "the question is out of date", hold=hold)
    await taken("RecallRegressed", "reject", "it is noise", hold=hold)


def test_in_the_terminal_it_needs_a_reason_too():
    check_held([{"reason": "BaseRevisionSuperseded"}])
    with pytest.raises(click.UsageError, match="--reason"):
        check_held([{"reason": "RecallRegressed"}])
