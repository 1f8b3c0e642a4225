"""The calls of an agent on its own branch: its overlay, its evidence, its findings, the end of its run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import httpx
from pydantic import TypeAdapter

from anabranch.client.errors import error_from
from anabranch.client.transport import Transport, parse, path
from anabranch.model.answers import (
    BatchPage,
    BatchState,
    BranchPage,
    BranchPending,
    BulkAnswer,
    CompletionState,
    EvidenceState,
    PrivatePage,
    PrivateRecord,
    ViewedRecord,
)
from anabranch.model.canonical import canonical_bytes, hash_text, sha256
from anabranch.model.errors import NotFoundError
from anabranch.model.found import SearchMode, SearchPage
from anabranch.model.objects import BranchManifest, FindingBatch, Publication, Receipt, batch_hash
from anabranch.model.requests import PrivateWrite

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from datetime import datetime

    from anabranch.model.errors import AnabranchError
    from anabranch.model.objects import Change, RunCompletion
    from anabranch.model.requests import BranchRequest
    from anabranch.model.wire import Layer, Visibility

_JSON = {"Content-Type": "application/json"}
_ACKNOWLEDGEMENT: TypeAdapter[Receipt | Publication] = TypeAdapter(Receipt | Publication)


class BranchCalls(Transport):
    """Calls about branches. Each takes the Branch's namespace, then its id or name."""

    async def branches(self, namespace: str) -> AsyncIterator[BranchManifest]:
        """The branches of a namespace that you may see, by name."""
        async for page in self.pages(BranchPage, path(namespace, "branches")):
            for item in page.items:
                yield item

    async def branch(self, namespace: str, branch: str) -> BranchManifest:
        """A branch."""
        return await self.get(BranchManifest, path(namespace, "branches", branch))

    async def create_branch(self, namespace: str, request: BranchRequest) -> BranchManifest | BranchPending:
        """Create a Branch; pending if it has not forked within a moment. The same request again is the same branch."""
        body = request.model_dump_json(exclude_unset=True).encode()
        response = await self.send("POST", path(namespace, "branches"), body=body, headers=_JSON)
        if response.status_code == httpx.codes.ACCEPTED:
            return parse(BranchPending, response)
        return parse(BranchManifest, response)

    async def private_records(self, namespace: str, branch: str) -> AsyncIterator[PrivateRecord]:
        """The private overlay, by key."""
        async for page in self.pages(PrivatePage, path(namespace, "branches", branch, "records")):
            for item in page.items:
                yield item

    async def get_private(self, namespace: str, branch: str, key: str) -> PrivateRecord:
        """A record of the private overlay."""
        return await self.get(PrivateRecord, path(namespace, "branches", branch, "records", key))

    async def put_private(  # noqa: PLR0913  (all but the place by keyword)
        self,
        namespace: str,
        branch: str,
        key: str,
        content: Any,
        *,
        scope: str = "shared",
        visibility: Visibility | None = None,
        if_match: str | None = None,
        if_none_match: bool = False,
        base_revision: str | None = None,
    ) -> PrivateRecord:
        """Write a record of the private overlay.

        Args:
            namespace: Of the Branch.
            branch: Its id or name.
            key: The record's.
            content: Any JSON value.
            scope: The record's.
            visibility: Whether it may be shared later; None: what the branch's sharing policy says.
            if_match: Only over this revision.
            if_none_match: Only where there is none.
            base_revision: The revision beneath that this settles, after a rebase or an update; None: what the first
                write was based on stays.

        Raises:
            PreconditionFailedError: If the record is at another revision.
        """
        write = PrivateWrite(content=content, scope=scope, visibility=visibility, base_revision=base_revision)
        conditions = _conditions(if_match, if_none_match=if_none_match)
        response = await self.send(
            "PUT",
            path(namespace, "branches", branch, "records", key),
            body=canonical_bytes(write.model_dump(mode="json", exclude_unset=visibility is None)),
            headers={**_JSON, **conditions},
            repeatable=not conditions,  # the second attempt would fail on what the first one wrote
        )
        return parse(PrivateRecord, response)

    async def delete_private(self, namespace: str, branch: str, key: str, *, if_match: str | None = None) -> None:
        """Delete a record of the private overlay; with ``if_match`` only that revision."""
        await self.send(
            "DELETE",
            path(namespace, "branches", branch, "records", key),
            headers=_conditions(if_match),
            repeatable=False,
        )

    async def view(self, namespace: str, branch: str, key: str, *, layer: Layer = "merged") -> ViewedRecord:
        """A record of one layer, or as they lie over each other, naming its layer and revision.

        Args:
            namespace: Of the Branch.
            branch: Its id or name.
            key: The record's.
            layer: ``base``: the parent manifest. ``shared``: what the followed updates say otherwise. ``private``: the
                overlay. ``merged``: what the agent sees, the latter ones over the former.
        """
        return await self.get(ViewedRecord, path(namespace, "branches", branch, "view", key), query={"layer": layer})

    async def search_branch(  # noqa: PLR0913  (all but the place by keyword)
        self,
        namespace: str,
        branch: str,
        text: str,
        *,
        mode: SearchMode | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> SearchPage:
        """What the branch sees that answers some words best: its private records, else those of its parent.

        Args:
            namespace: Of the branch.
            branch: Its id or resource name.
            text: Words; nothing in them is an operator.
            mode: ``words``, or ``hybrid``: by meaning too. The answer says how it was; None: as the installation says.
            limit: Hits at most; ten unless given.
            cursor: ``next_cursor`` of the page before.
        """
        query = {"q": text, "mode": mode, "limit": limit, "cursor": cursor}
        return await self.get(SearchPage, path(namespace, "branches", branch, "search"), query=query)

    async def base_revision(self, namespace: str, branch: str, key: str) -> str:
        """What a change of this key names as its base: the revision beneath what the agent sees of it, or "0".

        That is what its private record is based on, if it has one: a conflict that a rebase left is found by it.
        """
        try:
            return (await self.view(namespace, branch, key)).base_revision
        except NotFoundError:
            return "0"

    async def put_evidence(
        self, namespace: str, branch: str, body: bytes, *, media_type: str = "application/octet-stream"
    ) -> str:
        """Upload evidence; gives the locator that findings cite it by."""
        place = path(namespace, "branches", branch, "evidence", hash_text(sha256(body)))
        response = await self.send("PUT", place, body=body, headers={"Content-Type": media_type})
        return parse(EvidenceState, response).locator

    async def get_evidence(self, namespace: str, branch: str, locator: str) -> bytes:
        """The bytes of evidence, by its locator or digest."""
        digest = locator.removeprefix("evidence:")
        return (await self.send("GET", path(namespace, "branches", branch, "evidence", digest))).content

    async def submit_batch(  # noqa: PLR0913  (the members of a batch, by keyword)
        self,
        namespace: str,
        branch_id: str,
        *,
        sequence: int,
        changes: Sequence[Change],
        sources: Sequence[Sequence[str]],
        base_revisions: Sequence[str],
        observed_at: datetime | None = None,
        final: bool = False,
        last_acknowledged_sequence: int | None = None,
    ) -> Receipt | Publication:
        """Submit a batch of findings. The same again is answered with the same receipt.

        Args:
            namespace: Of the Branch.
            branch_id: Its id.
            sequence: From 1; the next free one.
            changes: What is proposed.
            sources: Source locators, a list for each change.
            base_revisions: One for each change; "0" for a new key.
            observed_at: When it was found.
            final: Whether this is the run's last batch.
            last_acknowledged_sequence: With ``final``: the last receipt that was seen.

        Raises:
            ConflictError: If another batch has this sequence, or the run is complete.
            ForbiddenError: If the agent may not write one of the scopes; nothing of the batch was received.
        """
        unsigned = FindingBatch.model_construct(
            branch_id=branch_id,
            sequence=sequence,
            content_hash="",
            changes=tuple(changes),
            source_locators=tuple(map(tuple, sources)),
            base_revisions=tuple(base_revisions),
            observed_at=observed_at,
            final=final,
            last_acknowledged_sequence=last_acknowledged_sequence,
        ).model_dump(mode="json")
        batch = FindingBatch.model_validate_json(canonical_bytes({**unsigned, "content_hash": batch_hash(unsigned)}))
        return await self.submit(namespace, batch)

    async def submit(self, namespace: str, batch: FindingBatch) -> Receipt | Publication:
        """Submit a batch that was made before, such as one from an outbox.

        The members that it was made with are sent, since those are what its ``content_hash`` covers.
        """
        place = path(namespace, "branches", batch.branch_id, "batches", batch.sequence)
        body = canonical_bytes(batch.model_dump(mode="json", exclude_unset=True))
        return _acknowledgement(await self.send("PUT", place, body=body, headers=_JSON))

    async def submit_bulk(
        self, namespace: str, branch: str, batches: Sequence[bytes]
    ) -> list[Receipt | Publication | AnabranchError]:
        """Submit several batches of one branch, each as its bytes; each is received or refused by itself.

        Args:
            namespace: Of the Branch.
            branch: Its id or name.
            batches: FindingBatch objects as JSON, 100 at most.

        Returns:
            What became of each: its acknowledgement, or why it was refused.
        """
        body = b'{"batches":[' + b",".join(batches) + b"]}"
        answer = await self.send("POST", path(namespace, "branches", branch, "batches"), body=body, headers=_JSON)
        return [
            error_from(result.answer, status=result.status)
            if result.status >= httpx.codes.BAD_REQUEST
            else _ACKNOWLEDGEMENT.validate_python(result.answer, extra="ignore")
            for result in parse(BulkAnswer, answer).results
        ]

    async def batch(self, namespace: str, branch: str, sequence: int) -> Receipt | Publication:
        """What became of a batch: its receipt, or the publication that its job ended with."""
        return _acknowledgement(await self.send("GET", path(namespace, "branches", branch, "batches", sequence)))

    async def batches(self, namespace: str, branch: str) -> AsyncIterator[BatchState]:
        """The received batches, by sequence."""
        async for page in self.pages(BatchPage, path(namespace, "branches", branch, "batches")):
            for item in page.items:
                yield item

    async def complete(self, namespace: str, branch: str, completion: RunCompletion) -> CompletionState:
        """Close the run, once every batch that the completion speaks of is in. The same again changes nothing."""
        body = canonical_bytes(completion.model_dump(mode="json"))
        place = path(namespace, "branches", branch, "completion")
        return parse(CompletionState, await self.send("PUT", place, body=body, headers=_JSON))

    async def completion(self, namespace: str, branch: str) -> CompletionState:
        """How the run was completed, and whether batches are missing still."""
        return await self.get(CompletionState, path(namespace, "branches", branch, "completion"))


def _conditions(if_match: str | None, *, if_none_match: bool = False) -> dict[str, str]:
    conditions = {} if if_match is None else {"If-Match": f'"{if_match}"'}
    return {**conditions, "If-None-Match": "*"} if if_none_match else conditions


def _acknowledgement(response: httpx.Response) -> Receipt | Publication:
    return _ACKNOWLEDGEMENT.validate_json(response.content, extra="ignore")
