"""The calls about runs that go on: an agent's signs of life, its place in the feed, its checkpoints, and its peers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from anabranch.client.transport import Transport, parse, path
from anabranch.model.canonical import canonical_bytes
from anabranch.model.objects import AgentPresence
from anabranch.model.runs import (
    Checkpoint,
    CheckpointPage,
    CheckpointWrite,
    CursorWrite,
    FeedPlace,
    PeerPage,
    PresenceWrite,
    RebasePage,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from anabranch.model.objects import PeerState
    from anabranch.model.runs import Capsule, RebaseConflict

_JSON = {"Content-Type": "application/json"}


class RunCalls(Transport):
    """Calls about runs. Each takes the Branch's namespace, then its id or name; `peers` the Baseline's."""

    async def presence(
        self,
        namespace: str,
        branch: str,
        *,
        state: Literal["active", "stale"] = "active",
        task: str | None = None,
        observed_feed_cursor: str | None = None,
    ) -> AgentPresence:
        """Say that the agent is there, until the lease's deadline that is answered.

        Args:
            namespace: Of the Branch.
            branch: Its id or name.
            state: ``stale``: it goes away, and the lease ends now.
            task: What it is at; None: what the Branch says. Peers are told only where its sharing policy says so.
            observed_feed_cursor: Of what it has seen last of the feed; None: the saved place.

        Raises:
            ConflictError: If the run is over.
        """
        write = PresenceWrite(state=state, task=task, observed_feed_cursor=observed_feed_cursor)
        body = canonical_bytes(write.model_dump(mode="json"))
        place = path(namespace, "branches", branch, "presence")
        return parse(AgentPresence, await self.send("PUT", place, body=body, headers=_JSON))

    async def peers(
        self, namespace: str, baseline: str, *, state: PeerState | None = None
    ) -> AsyncIterator[AgentPresence]:
        """The live and the completed runs of a Baseline, or only those in a state, by branch id."""
        async for page in self.pages(PeerPage, path(namespace, "baselines", baseline, "peers"), query={"state": state}):
            for item in page.items:
                yield item

    async def feed_place(self, namespace: str, branch: str) -> FeedPlace:
        """Where the run goes on to follow the feed: the saved place, or the parent's where that is further on."""
        return await self.get(FeedPlace, path(namespace, "branches", branch, "cursor"))

    async def save_cursor(self, namespace: str, branch: str, cursor: str) -> FeedPlace:
        """Save how far the run has followed, once that is applied. Gives what is saved: a place never moves back.

        Raises:
            ConflictError: If the run is over, or does not follow (``spec.follow: Off``).
            GoneError: With code ``CursorExpired``: the feed does not reach there any more.
        """
        body = canonical_bytes(CursorWrite(cursor=cursor).model_dump(mode="json"))
        place = path(namespace, "branches", branch, "cursor")
        return parse(FeedPlace, await self.send("PUT", place, body=body, headers=_JSON))

    async def put_checkpoint(  # noqa: PLR0913  (all but the place by keyword)
        self,
        namespace: str,
        branch: str,
        checkpoint_id: str,
        capsule: Capsule,
        *,
        session_id: str = "default",
        references: Sequence[str] = (),
        expected_latest: str | None = None,
    ) -> Checkpoint:
        """Keep a checkpoint, for good. The same again changes nothing.

        Args:
            namespace: Of the Branch.
            branch: Its id or name.
            checkpoint_id: A new one for each checkpoint.
            capsule: What is needed to go on; 16 KiB at most.
            session_id: Checkpoints of one session follow each other.
            references: Source locators of what the capsule speaks of.
            expected_latest: Id of what must be the session's latest so far; empty: it must have none; None: whatever.

        Raises:
            ConflictError: If the id has another content, the session's latest is another one, or the run is over.
            TooLargeError: If the capsule is too large.
        """
        write = CheckpointWrite(
            session_id=session_id, capsule=capsule, references=tuple(references), expected_latest=expected_latest
        )
        body = canonical_bytes(write.model_dump(mode="json"))
        place = path(namespace, "branches", branch, "checkpoints", checkpoint_id)
        return parse(Checkpoint, await self.send("PUT", place, body=body, headers=_JSON))

    async def checkpoint(self, namespace: str, branch: str, checkpoint_id: str) -> Checkpoint:
        """A checkpoint of the run."""
        return await self.get(Checkpoint, path(namespace, "branches", branch, "checkpoints", checkpoint_id))

    async def checkpoints(
        self, namespace: str, branch: str, *, session_id: str | None = None
    ) -> AsyncIterator[Checkpoint]:
        """The checkpoints of the run, or of one session of it, newest first."""
        query = {"session": session_id}
        async for page in self.pages(CheckpointPage, path(namespace, "branches", branch, "checkpoints"), query=query):
            for item in page.items:
                yield item

    async def latest_checkpoint(self, namespace: str, branch: str, *, session_id: str = "default") -> Checkpoint | None:
        """A session's latest checkpoint; None: it has none."""
        place, query = path(namespace, "branches", branch, "checkpoints"), {"session": session_id, "limit": 1}
        page = await self.get(CheckpointPage, place, query=query)
        return page.items[0] if page.items else None

    async def rebase_conflicts(
        self, namespace: str, branch: str, *, to: str | int | None = None
    ) -> tuple[RebasePage, list[RebaseConflict]]:
        """Which private records another parent would contradict, or after a rebase the present one does.

        Args:
            namespace: Of the Branch.
            branch: Its id or name.
            to: The other parent, by generation, baseline id, ``current`` or ``head``; None: the present one.

        Returns:
            The answer, which tells both manifests and the lineage, and the conflicts of all its pages.

        Raises:
            NotFoundError: If there never was such a manifest.
            GoneError: If it was pruned.
        """
        place, query = path(namespace, "branches", branch, "rebase"), {"to": to}
        pages = [page async for page in self.pages(RebasePage, place, query=query)]
        return pages[0], [conflict for page in pages for conflict in page.items]
