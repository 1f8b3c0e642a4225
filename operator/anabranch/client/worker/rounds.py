"""Rounds with the API: one, or as many as it takes for as long as the agent works.

A round sends what waits before it asks for anything, since what the agent found matters most. An API that cannot be
reached, or a token that has run out, ends a round and not the run: the next one comes after a pause. A grant that is
gone ends what it had allowed: the replica goes as its terms say, and the caller is told.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from typing import TYPE_CHECKING, Final

from anabranch.client.worker import layers, rebase, replica, snapshot, state
from anabranch.client.worker.following import Follower
from anabranch.client.worker.sending import Sender
from anabranch.client.worker.values import Follow, Synced
from anabranch.domain.backoff import delay
from anabranch.model.answers import BranchPending
from anabranch.model.errors import (
    AnabranchError,
    ForbiddenError,
    NotFoundError,
    NotReadyError,
    UnauthenticatedError,
    UnavailableError,
)

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import AsyncIterator, Callable

    from anabranch.client import AnabranchClient
    from anabranch.client.worker.file import WorkerFile
    from anabranch.model.objects import BranchManifest
    from anabranch.model.requests import BranchRequest

_POLL_SECONDS: Final = 10.0
"""How long a poll waits for an event; a rebase waits for a poll."""

_LOOK_SECONDS: Final = 60.0
"""From one look at the branch, the terms and the grants of scopes to the next."""

_FIRST_PAUSE: Final = 0.5
_LONGEST_PAUSE: Final = 30.0


class Rounds:
    """Rounds of one worker.

    Args:
        file: The worker's.
        client: Of the API.
        namespace: Of the Branch.
        request: The Branch.
        follow: Says what becomes of accepted changes now.
    """

    def __init__(
        self,
        file: WorkerFile,
        client: AnabranchClient,
        *,
        namespace: str,
        request: BranchRequest,
        follow: Callable[[], Follow],
    ) -> None:
        self._file = file
        self._client = client
        self._namespace = namespace
        self._request = request
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
            more = self._follow() is not Follow.OFF
            while more:
                came, done, more = await self._receive(branch, wait=0.0)
                received, applied = received + came, applied + done
        except AnabranchError as error:
            self.trouble = error
            raise
        self.trouble = None
        return Synced(sent=sent, refused=refused, received=received, applied=applied)

    async def run(self) -> None:
        """Stay in step until the run is completed (see `Worker.run`)."""
        failures = 0
        while True:
            try:
                await self.sync()
                failures = 0
                await self._keep_up()
            except (UnavailableError, UnauthenticatedError, NotReadyError) as error:
                self.trouble = error
                failures += 1
                chance = random.random()  # noqa: S311  (it spreads retries, it keeps no secret)
                await asyncio.sleep(delay(failures, chance=chance, base=_FIRST_PAUSE, limit=_LONGEST_PAUSE))
            else:
                return

    async def rebase(self) -> None:
        """Make the branch's parent the parent snapshot here (see `Worker.rebase`)."""
        branch = await self._known()
        async with self._receiving, self._granted():
            at = await self._file.read(layers.run)
            if at["base"] not in {None, branch.parent.generation}:
                namespace, name = _baseline(branch)
                follower = self._follower(branch)
                generation = branch.parent.generation
                await rebase.rebase(
                    self._file, self._client, follower, namespace=namespace, name=name, generation=generation
                )
        await self._look(branch)

    async def _keep_up(self) -> None:
        """Send what comes to wait and receive what is accepted, until the run is completed or something fails."""
        tasks = [asyncio.create_task(self._go_on_sending()), asyncio.create_task(self._go_on_receiving())]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _go_on_sending(self) -> None:
        while True:
            branch = await self._file.read(state.branch)
            if branch is None or branch.phase == "Completed":
                return
            await self.work.wait()
            await self._send(branch)

    async def _go_on_receiving(self) -> None:
        clock = asyncio.get_running_loop().time
        looked_at = clock()
        while True:
            if clock() - looked_at > _LOOK_SECONDS:
                await self._look(await self._known())
                looked_at = clock()
            branch = await self._file.read(state.branch)
            if branch is None or self._follow() is Follow.OFF:
                await asyncio.sleep(1.0)
            else:
                await self._receive(branch, wait=_POLL_SECONDS)

    async def _known(self) -> BranchManifest:
        """The branch as the API says now; it is created where it is not there."""
        known = await self._file.read(state.branch)
        if known is None:
            made = await self._client.create_branch(self._namespace, self._request)
            if isinstance(made, BranchPending):
                raise NotReadyError(
                    f"The branch has not forked yet. {made.detail}", hint="Sync again; `kubectl get branch` says more."
                )
            branch = made
        else:
            branch = await self._client.branch(self._namespace, known.branch_id)
        await self._file.write(state.keep_branch, branch)
        if not (await self._file.read(layers.run))["recovered"]:
            await self._recover(branch)
        if branch.phase == "Denied":
            await self._file.write(replica.revoked, "the grant to fork is gone")
            raise ForbiddenError("The branch's grant was revoked.", hint="Ask the owner of the Baseline.")
        return branch

    async def _recover(self, branch: BranchManifest) -> None:
        last = branch.last_submitted_sequence
        async for batch in self._client.batches(self._namespace, branch.branch_id):
            last = max(last, batch.sequence)
        records = [one async for one in self._client.private_records(self._namespace, branch.branch_id)]
        await self._file.write(state.recover, last_sequence=last, records=records)

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
        namespace, name = _baseline(branch)
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

    async def _receive(self, branch: BranchManifest, *, wait: float) -> tuple[int, int, bool]:
        async with self._receiving, self._granted():
            apply = self._follow() is Follow.APPLY
            return await self._follower(branch).receive(wait=wait, apply=apply)

    def _follower(self, branch: BranchManifest) -> Follower:
        namespace, name = _baseline(branch)
        return Follower(self._file, self._client, namespace=namespace, name=name)

    @contextlib.asynccontextmanager
    async def _granted(self) -> AsyncIterator[None]:
        """Purge the replica, where its terms say so, when what is done in here turns out not to be granted."""
        try:
            yield
        except (ForbiddenError, NotFoundError) as error:
            await self._file.write(replica.revoked, error.detail.rstrip("."))
            raise


def _baseline(branch: BranchManifest) -> tuple[str, str]:
    namespace, _, name = branch.baseline.partition("/")
    return namespace, name


def _downloaded(db: sqlite3.Connection, generation: int) -> None:
    """Let reads go to a generation that is there as a whole; a purge is made good."""
    db.execute(
        "UPDATE run SET base = ?, purged = NULL, start = coalesce(start, ?),"
        " applied_generation = coalesce(applied_generation, ?)",
        (generation, generation, generation),
    )
