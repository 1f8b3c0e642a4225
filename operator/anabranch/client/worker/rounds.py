"""One round with the API: what waits goes up, what is missing comes down.

A round sends before it asks for anything, since what the agent found matters most. Whatever ends it, what was done
stays done, and the next one goes on. A grant that is gone ends what it had allowed: the replica goes as its terms say,
and the caller is told.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

from anabranch.client.worker import layers, rebase, replica, snapshot, state
from anabranch.client.worker.following import Follower
from anabranch.client.worker.sending import Sender
from anabranch.client.worker.values import Follow, Synced
from anabranch.model.answers import BranchPending
from anabranch.model.errors import (
    AnabranchError,
    ConflictError,
    ForbiddenError,
    GoneError,
    NotFoundError,
    NotReadyError,
)

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import AsyncIterator, Callable

    from anabranch.client import AnabranchClient
    from anabranch.client.worker.file import WorkerFile
    from anabranch.model.objects import BranchManifest
    from anabranch.model.requests import BranchRequest


class Rounds:
    """Rounds of one worker.

    Args:
        file: The worker's.
        client: Of the API.
        namespace: Of the Branch.
        branch: The Branch: its name, or a request by which it is created.
        follow: Says what becomes of accepted changes now; None: what the Branch says.
    """

    def __init__(
        self,
        file: WorkerFile,
        client: AnabranchClient,
        *,
        namespace: str,
        branch: BranchRequest | str,
        follow: Callable[[], Follow | None],
    ) -> None:
        self._file = file
        self._client = client
        self._namespace = namespace
        self._asked = branch
        self._follow = follow
        self._sender = Sender(file, client, namespace)
        self._sending = asyncio.Lock()
        self._receiving = asyncio.Lock()
        self.work = asyncio.Event()
        self.trouble: AnabranchError | None = None

    async def sync(self) -> Synced:
        """Do one round (see `Worker.sync`)."""
        try:
            branch = await self._known()
            sent, refused = await self._send(branch)
            await self._look(branch)
            received = applied = 0
            more = self._followed(branch) is not Follow.OFF
            while more:
                came, done, more = await self._receive(branch)
                received, applied = received + came, applied + done
            await self._tell(branch)
        except AnabranchError as error:
            self.trouble = error
            raise
        self.trouble = None
        return Synced(sent=sent, refused=refused, received=received, applied=applied)

    async def rebase(self) -> None:
        """Make the branch's parent the parent snapshot here (see `Worker.rebase`)."""
        branch = await self._known()
        async with self._receiving, self._granted():
            at = await self._file.read(layers.run)
            if at["base"] not in {None, branch.parent.generation}:
                namespace, name = baseline_of(branch)
                follower = self._follower(branch)
                generation = branch.parent.generation
                await rebase.rebase(
                    self._file, self._client, follower, namespace=namespace, name=name, generation=generation
                )
        await self._look(branch)

    async def _tell(self, branch: BranchManifest) -> None:
        """Renew the lease, and save how far the worker has applied the feed."""
        if branch.phase in {"Completed", "Expired"}:
            return
        at = await self._file.read(layers.run)
        cursor = at["applied_cursor"]
        try:
            if cursor is not None and cursor != at["saved_cursor"] and branch.follow != "Off":
                await self._client.save_cursor(self._namespace, branch.branch_id, cursor)
                await self._file.write(_saved, cursor)
            await self._client.presence(self._namespace, branch.branch_id)
        except (ConflictError, GoneError):
            return  # the run is over, or the feed has gone on: the next look tells

    async def _known(self) -> BranchManifest:
        """The branch as the API says now; it is created where it is not there."""
        known = await self._file.read(state.branch)
        branch = await (self._first() if known is None else self._again(known))
        await self._file.write(state.keep_branch, branch)
        if not (await self._file.read(layers.run))["recovered"]:
            await self._recover(branch)
        if branch.phase == "Denied":
            await replica.give_up(self._file, "the grant to fork is gone")
            raise ForbiddenError("The branch's grant was revoked.", hint="Ask the owner of the Baseline.")
        return branch

    async def _again(self, known: BranchManifest) -> BranchManifest:
        """The branch that the file knows; one that is not to be seen any more says nothing of the records' grants."""
        try:
            return await self._client.branch(self._namespace, known.branch_id)
        except (ForbiddenError, NotFoundError):
            namespace, name = baseline_of(known)
            async with self._granted():
                await self._client.baseline(namespace, name)
                await replica.purge_unreadable(self._file, self._client, namespace=namespace, name=name)
            raise

    async def _first(self) -> BranchManifest:
        """The branch that the file knows nothing of yet.

        Raises:
            NotReadyError: If it is not there, or has not forked yet.
        """
        if isinstance(self._asked, str):
            try:
                return await self._client.branch(self._namespace, self._asked)
            except NotFoundError as error:
                raise NotReadyError(error.detail, hint="Sync again once the Branch is there and has forked.") from None
        made = await self._client.create_branch(self._namespace, self._asked)
        if isinstance(made, BranchPending):
            raise NotReadyError(
                f"The branch has not forked yet. {made.detail}", hint="Sync again; `kubectl get branch` says more."
            )
        return made

    async def _recover(self, branch: BranchManifest) -> None:
        last = branch.last_submitted_sequence
        async for batch in self._client.batches(self._namespace, branch.branch_id):
            last = max(last, batch.sequence)
        records = [one async for one in self._client.private_records(self._namespace, branch.branch_id)]
        kept = [one async for one in self._client.checkpoints(self._namespace, branch.branch_id)]
        await self._file.write(state.recover, last_sequence=last, records=records, kept=kept[::-1])

    async def _send(self, branch: BranchManifest) -> tuple[int, int]:
        async with self._sending:
            self.work.clear()
            try:
                return await self._sender.send(branch)
            except BaseException:
                self.work.set()
                raise

    async def _look(self, branch: BranchManifest) -> None:
        """Look at the terms and the grants, and download what is missing of the parent snapshot."""
        namespace, name = baseline_of(branch)
        async with self._receiving:
            async with self._granted():
                terms = (await self._client.baseline(namespace, name)).replica
                at = await self._file.read(layers.run)
                if at["base"] is None:
                    generation = branch.parent.generation
                    await snapshot.download(
                        self._file, self._client, namespace=namespace, name=name, generation=generation
                    )
                    await self._file.write(_downloaded, generation)
                else:
                    await replica.purge_unreadable(self._file, self._client, namespace=namespace, name=name)
            await self._file.write(replica.seen, terms)

    async def _receive(self, branch: BranchManifest) -> tuple[int, int, bool]:
        async with self._receiving, self._granted():
            return await self._follower(branch).receive(apply=self._followed(branch) is Follow.APPLY)

    def _followed(self, branch: BranchManifest) -> Follow:
        """What becomes of accepted changes: what the agent says, else what the Branch says."""
        return self._follow() or Follow(branch.follow)

    def _follower(self, branch: BranchManifest) -> Follower:
        namespace, name = baseline_of(branch)
        return Follower(self._file, self._client, namespace=namespace, name=name)

    @contextlib.asynccontextmanager
    async def _granted(self) -> AsyncIterator[None]:
        """Purge the replica, where its terms say so, when what is done in here turns out not to be granted."""
        try:
            yield
        except (ForbiddenError, NotFoundError) as error:
            await replica.give_up(self._file, error.detail.rstrip("."))
            raise


def baseline_of(branch: BranchManifest) -> tuple[str, str]:
    """Namespace and name of a branch's Baseline."""
    namespace, _, name = branch.baseline.partition("/")
    return namespace, name


def _downloaded(db: sqlite3.Connection, generation: int) -> None:
    """Let reads go to a generation that is there as a whole; a purge is made good."""
    db.execute(
        "UPDATE run SET base = ?, purged = NULL, start = coalesce(start, ?),"
        " applied_generation = coalesce(applied_generation, ?)",
        (generation, generation, generation),
    )


def _saved(db: sqlite3.Connection, cursor: str) -> None:
    """The API has a place of the feed."""
    db.execute("UPDATE run SET saved_cursor = ?", (cursor,))
