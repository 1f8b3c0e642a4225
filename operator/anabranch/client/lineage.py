"""The calls about a record's lineage: where it comes from, where it went, and having one withdrawn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from anabranch.client.transport import Transport, parse, path
from anabranch.model.lineage import Retraction, RetractionPage, Trace
from anabranch.model.requests import RetractionRequest

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

_JSON: Final = {"Content-Type": "application/json"}


class LineageCalls(Transport):
    """Calls about lineage. Each takes the Baseline's namespace and name first."""

    async def trace(  # noqa: PLR0913  (all but the place by keyword)
        self,
        namespace: str,
        name: str,
        key: str,
        *,
        revision: str | int | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> Trace:
        """Where a record comes from and where it went: one page of what was derived from it, with all the rest.

        Args:
            namespace: Of the Baseline.
            name: Of the Baseline.
            key: The record's.
            revision: Whose content is traced; the newest unless given.
            limit: Derived versions at most.
            cursor: ``next_cursor`` of the page before.
        """
        query = {"revision": revision, "limit": limit, "cursor": cursor}
        return await self.get(Trace, path(namespace, "baselines", name, "records", key, "trace"), query=query)

    async def retract(
        self, namespace: str, name: str, key: str, *, reason: str, revision: str | int | None = None
    ) -> Retraction:
        """Ask for what a record says to be withdrawn, and for what was derived from it to be marked.

        Reviewers decide on it in the job that `retraction` names once the operator has made it. The same again, while
        it is not decided, is the same retraction.

        Args:
            namespace: Of the Baseline.
            name: Of the Baseline.
            key: The record's.
            reason: For reviewers, and for whoever cites the record later.
            revision: Whose content is meant; what is current unless given.
        """
        body = RetractionRequest(key=key, reason=reason, revision=None if revision is None else str(revision))
        place = path(namespace, "baselines", name, "retractions")
        return parse(Retraction, await self.send("POST", place, body=body.model_dump_json().encode(), headers=_JSON))

    async def retraction(self, namespace: str, name: str, retraction_id: str) -> Retraction:
        """What was asked to be withdrawn, and what came of it."""
        return await self.get(Retraction, path(namespace, "baselines", name, "retractions", retraction_id))

    async def retractions(self, namespace: str, name: str) -> AsyncIterator[Retraction]:
        """What was asked to be withdrawn in scopes that you may read, the newest first."""
        async for page in self.pages(RetractionPage, path(namespace, "baselines", name, "retractions")):
            for item in page.items:
                yield item
