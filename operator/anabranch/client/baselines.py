"""The calls about Baselines: what they are, what their manifests have, what becomes of them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final, Literal, overload

from anabranch.archive import MEDIA_TYPE
from anabranch.client.transport import Transport, parse, path
from anabranch.domain.proven import ProvenRecord
from anabranch.model.answers import (
    ArchiveState,
    BaselinePage,
    BaselineState,
    DiffEntry,
    DiffPage,
    EventPage,
    ManifestPage,
    RecordPage,
)
from anabranch.model.errors import NotFoundError
from anabranch.model.found import SearchMode, SearchPage
from anabranch.model.limits import PAGE_MAX
from anabranch.model.objects import BaselineManifest, PublishedFact
from anabranch.model.quality import Quality

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

_PIECE: Final = 1 << 20


class BaselineCalls(Transport):
    """Calls about Baselines. Each takes the Baseline's namespace and name first."""

    async def baselines(self, namespace: str) -> AsyncIterator[BaselineState]:
        """The Baselines of a namespace that you may see, by name."""
        async for page in self.pages(BaselinePage, path(namespace, "baselines")):
            for item in page.items:
                yield item

    async def baseline(self, namespace: str, name: str) -> BaselineState:
        """A Baseline and where its line is."""
        return await self.get(BaselineState, path(namespace, "baselines", name))

    async def manifests(self, namespace: str, name: str) -> AsyncIterator[BaselineManifest]:
        """The retained manifests, newest first."""
        async for page in self.pages(ManifestPage, path(namespace, "baselines", name, "manifests")):
            for item in page.items:
                yield item

    async def manifest(self, namespace: str, name: str, ref: str | int = "current") -> BaselineManifest:
        """One manifest, by generation, baseline id, ``current`` or ``head``."""
        return await self.get(BaselineManifest, path(namespace, "baselines", name, "manifests", ref))

    async def signature(self, namespace: str, name: str, ref: str | int = "current") -> dict[str, Any]:
        """A manifest's signature: a DSSE envelope, which `anabranch.domain.signing.check` checks.

        Raises:
            NotFoundError: If the installation signs none.
        """
        answer = await self.send("GET", path(namespace, "baselines", name, "manifests", ref, "signature"))
        envelope: dict[str, Any] = answer.json()
        return envelope

    async def records(
        self,
        namespace: str,
        name: str,
        ref: str | int = "current",
        *,
        prefix: str | None = None,
        tombstones: bool = False,
    ) -> AsyncIterator[PublishedFact]:
        """All records of one manifest in scopes that you may read, by key.

        Args:
            namespace: Of the Baseline.
            name: Of the Baseline.
            ref: The manifest; what is current at the first page stays the manifest of all.
            prefix: Only keys that begin so.
            tombstones: Deleted keys too: the manifest's hash covers them.
        """
        query = {"prefix": prefix, "tombstones": "true" if tombstones else None, "limit": PAGE_MAX}
        place = path(namespace, "baselines", name, "manifests", ref, "records")
        async for page in self.pages(RecordPage, place, query=query):
            for item in page.items:
                yield item

    @overload
    async def record(
        self, namespace: str, name: str, key: str, *, ref: str | int = ..., proof: Literal[False] = ...
    ) -> PublishedFact: ...

    @overload
    async def record(
        self, namespace: str, name: str, key: str, *, ref: str | int = ..., proof: Literal[True]
    ) -> ProvenRecord: ...

    async def record(
        self, namespace: str, name: str, key: str, *, ref: str | int = "current", proof: bool = False
    ) -> PublishedFact | ProvenRecord:
        """One record of a manifest; with its proof, which `ProvenRecord.check` checks against a root that you trust."""
        place = path(namespace, "baselines", name, "manifests", ref, "records", key)
        if proof:
            return await self.get(ProvenRecord, place, query={"proof": "true"})
        return await self.get(PublishedFact, place)

    async def diff(
        self, namespace: str, name: str, *, from_generation: str | int, to_generation: str | int = "current"
    ) -> AsyncIterator[DiffEntry]:
        """The keys whose revision differs between two manifests, by key."""
        query = {"from": from_generation, "to": to_generation, "limit": PAGE_MAX}
        async for page in self.pages(DiffPage, path(namespace, "baselines", name, "diff"), query=query):
            for item in page.items:
                yield item

    async def search(  # noqa: PLR0913  (all but the place by keyword)
        self,
        namespace: str,
        name: str,
        text: str,
        *,
        ref: str | int = "current",
        mode: SearchMode | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> SearchPage:
        """The records of one manifest that answer some words best, in scopes that you may read: one page of them.

        Args:
            namespace: Of the Baseline.
            name: Of the Baseline.
            text: Words; nothing in them is an operator.
            ref: The manifest.
            mode: ``words``, or ``hybrid``: by meaning too. The answer says how it was; None: as the installation says.
            limit: Hits at most; ten unless given.
            cursor: ``next_cursor`` of the page before.
        """
        query = {"q": text, "generation": ref, "mode": mode, "limit": limit, "cursor": cursor}
        return await self.get(SearchPage, path(namespace, "baselines", name, "search"), query=query)

    async def quality(self, namespace: str, name: str, *, ref: str | int | None = None, history: int = 0) -> Quality:
        """What can be counted of a generation: sources, verification, age.

        Args:
            namespace: Of the Baseline.
            name: Of the Baseline.
            ref: The manifest; None: the newest that is counted.
            history: How many generations before it to tell of.
        """
        query = {"generation": ref, "history": history or None}
        return await self.get(Quality, path(namespace, "baselines", name, "quality"), query=query)

    async def upload_archive(
        self,
        namespace: str,
        name: str,
        file: Path,
        digest: str,
        *,
        progress: Callable[[int], None] | None = None,
    ) -> ArchiveState:
        """Upload an archive for a Baseline that was applied; one that is there already is not sent again.

        Args:
            namespace: Of the Baseline.
            name: Of the Baseline.
            file: The archive.
            digest: Its SHA-256, ``sha256:…``.
            progress: Takes how many bytes are sent; from the beginning again where the API was away.
        """
        place = path(namespace, "baselines", name, "archives", digest)
        try:
            return await self.get(ArchiveState, place)
        except NotFoundError:
            headers = {"Content-Type": MEDIA_TYPE}
            answer = await self.send("PUT", place, body=lambda: _pieces(file, progress), headers=headers)
            return parse(ArchiveState, answer)

    async def events(  # noqa: PLR0913  (all but the place by keyword)
        self,
        namespace: str,
        name: str,
        *,
        after: str | None = None,
        generation: str | int | None = None,
        limit: int = 100,
        wait: float = 0.0,
    ) -> EventPage:
        """The events after a place; without one, from the beginning of what is kept.

        Args:
            namespace: Of the Baseline.
            name: Of the Baseline.
            after: ``cursor`` of the answer before, or ``shared_feed_cursor`` of a branch.
            generation: Instead: begin behind all that this manifest includes.
            limit: Events at most.
            wait: Seconds that the API may wait for a first one, up to 30.

        Raises:
            GoneError: With code ``CursorExpired``: ``extra`` has the ``snapshot`` to read and the ``cursor`` to go on.
        """
        query = {"after": after, "generation": generation, "limit": limit, "wait": wait or None}
        return await self.get(EventPage, path(namespace, "baselines", name, "events"), query=query, wait=wait)


async def _pieces(file: Path, progress: Callable[[int], None] | None) -> AsyncIterator[bytes]:
    sent = 0
    with await asyncio.to_thread(file.open, "rb") as opened:
        while piece := await asyncio.to_thread(opened.read, _PIECE):
            yield piece
            sent += len(piece)
            if progress is not None:
                progress(sent)
