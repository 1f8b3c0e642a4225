"""The worker: an agent's run on its own machine, in step with the API whenever that can be reached.

Everything that the agent does goes to the worker's file first and is durable there, so the agent works on through
outages, restarts and lost connections. A round with the API (`sync`, or `run` for as long as the agent works) carries
the outbox up and the feed down. Reads come from the file and name the layer that they are from: the agent's private
overlay, the accepted changes that it follows, or the parent snapshot of its branch, which nothing but an explicit
rebase replaces.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Literal, Self

from anabranch.client.worker import layers, outbox, overlay, replica, shared, state
from anabranch.client.worker.file import WorkerFile
from anabranch.client.worker.rounds import Rounds
from anabranch.client.worker.values import Follow, ReplicaPurgedError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from datetime import datetime
    from pathlib import Path
    from types import TracebackType

    from anabranch.client import AnabranchClient
    from anabranch.client.worker.values import (
        Conflict,
        Finding,
        Held,
        LocalRecord,
        Refused,
        Status,
        Submitted,
        Synced,
    )
    from anabranch.model.objects import Publication, Receipt
    from anabranch.model.requests import BranchRequest
    from anabranch.model.wire import Visibility

_PAGE: Final = 500
"""Records that are read at once."""


class Worker:
    """One run of an agent; an asynchronous context manager, made by `open`."""

    def __init__(
        self, file: WorkerFile, client: AnabranchClient, *, namespace: str, request: BranchRequest, follow: Follow
    ) -> None:
        self._file = file
        self._client = client
        self._namespace = namespace
        self._follow = follow
        self._rounds = Rounds(file, client, namespace=namespace, request=request, follow=lambda: self._follow)

    @classmethod
    async def open(
        cls,
        path: Path,
        client: AnabranchClient,
        *,
        namespace: str,
        request: BranchRequest,
        follow: Follow = Follow.APPLY,
    ) -> Self:
        """Open the file of a run, or make it; the API need not be there.

        Args:
            path: Of the file, which is the run's alone. A file that was lost is made anew: what the API has of the run
                is taken up.
            client: Of the API; stays the caller's to close.
            namespace: Of the Branch.
            request: The Branch. It is created where it is not there, and the same request is the same branch.
            follow: What becomes of accepted changes.

        Raises:
            ConflictError: If the file is that of another run, or in use.
            InvalidInputError: If it is no worker's file.
        """
        file = await WorkerFile.open(path)
        try:
            await file.write(state.begin, namespace=namespace, name=request.name)
            await file.write(replica.expired)
        except BaseException:
            await file.close()
            raise
        return cls(file, client, namespace=namespace, request=request, follow=follow)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the file; what is in it waits for the next time."""
        await self._file.close()

    # Reading.

    async def read(self, key: str, *, layer: Literal["base", "shared", "private", "merged"] = "merged") -> LocalRecord:
        """A record, from the file.

        Args:
            key: Its key.
            layer: ``base``: the parent snapshot. ``shared``: the snapshot as accepted changes have made it.
                ``private``: the overlay. ``merged``: the overlay over ``shared``.

        Raises:
            NotFoundError: If there is none.
            SnapshotIncompleteError: If the snapshot is not there as a whole.
            ReplicaPurgedError: If it was purged, as its terms demand.
        """
        async with self._terms():
            return await self._file.read(layers.read, key, layer)

    async def records(self, *, prefix: str = "") -> AsyncIterator[LocalRecord]:
        """All records, merged, by key in the order of code points.

        Args:
            prefix: Only keys that begin so.

        Raises:
            SnapshotIncompleteError: If the snapshot is not there as a whole.
            ReplicaPurgedError: If it was purged, as its terms demand.
        """
        after: str | None = ""
        while after is not None:
            async with self._terms():
                found, after = await self._file.read(layers.page, prefix=prefix, after=after, limit=_PAGE)
            for record in found:
                yield record

    async def conflicts(self) -> list[Conflict]:
        """Private records that were written over another revision than is beneath them now, with other content."""
        return await self._file.read(layers.conflicts)

    # Writing.

    async def write(
        self,
        key: str,
        content: Any,
        *,
        scope: str = "shared",
        visibility: Visibility = "private",
        if_revision: str | None = None,
    ) -> str:
        """Write a private record: durable when this returns, and kept by the API once it can be reached.

        Args:
            key: Its key.
            content: Any JSON value, at most 1 MiB.
            scope: Its label.
            visibility: Whether it may be shared later.
            if_revision: Only over this revision of the overlay; "0": only where it has none.

        Returns:
            Its revision.

        Raises:
            InvalidInputError: If it cannot be kept.
            TooLargeError: If it is over the limit.
            PreconditionFailedError: If the record is at another revision.
        """
        revision = await self._file.write(
            overlay.put, key, content, scope=scope, visibility=visibility, if_revision=if_revision
        )
        self._rounds.work.set()
        return revision

    async def delete(self, key: str, *, if_revision: str | None = None) -> None:
        """Delete a private record: what is beneath it shows again.

        Raises:
            NotFoundError: If there is none.
            PreconditionFailedError: If it is at another revision.
        """
        await self._file.write(overlay.delete, key, if_revision=if_revision)
        self._rounds.work.set()

    async def submit(self, *findings: Finding, observed_at: datetime | None = None, final: bool = False) -> Submitted:
        """Submit findings as the run's next batch: durable when this returns, and sent once the API can be reached.

        Args:
            findings: What is proposed. What each is based on is what the worker shows of its key, unless it says so.
            observed_at: When it was found.
            final: Whether this is the run's last batch.

        Raises:
            InvalidInputError: If it can never be accepted.
            TooLargeError: If the batch or evidence is over its limit.
            NotReadyError: If the branch is not known yet, or the snapshot is not there as a whole.
            ConflictError: If the run is completed.
        """
        submitted = await self._file.write(outbox.submit, findings, observed_at=observed_at, final=final)
        self._rounds.work.set()
        return submitted

    async def complete(self, *, checkpoint: str | None = None) -> None:
        """Decide that the run is over; the API is told once it has every batch. Again it changes nothing.

        Args:
            checkpoint: Id of the checkpoint that the run ends with.

        Raises:
            NotReadyError: If the branch is not known yet.
        """
        await self._file.write(outbox.complete, checkpoint=checkpoint)
        self._rounds.work.set()

    async def refused(self) -> list[Refused]:
        """What the API will not take as it is."""
        return await self._file.read(outbox.refused)

    async def retry(self, sequence: int | None = None) -> int:
        """Send again what was refused, as after a grant was given: one batch, or everything; how much it is."""
        found = await self._file.write(outbox.retry, sequence)
        self._rounds.work.set()
        return found

    async def withdraw(self, sequence: int) -> None:
        """Give up the findings of a refused batch, so that what comes after it can be consolidated.

        Raises:
            NotFoundError: If no such batch was refused.
        """
        await self._file.write(outbox.withdraw, sequence)
        self._rounds.work.set()

    async def outcome(self, sequence: int) -> Receipt | Publication:
        """What became of a batch, as the API says now."""
        branch = await self._file.read(outbox.forked)
        return await self._client.batch(self._namespace, branch.branch_id, sequence)

    # Scratch.

    async def scratch_put(self, key: str, value: Any) -> None:
        """Keep a JSON value in the file, for this run alone; it is never sent."""
        await self._file.write(state.scratch_put, key, value)

    async def scratch_get(self, key: str, default: Any = None) -> Any:
        """A value that was kept."""
        return await self._file.read(state.scratch_get, key, default)

    async def scratch_delete(self, key: str) -> None:
        """Forget a value."""
        await self._file.write(state.scratch_delete, key)

    # Following.

    @property
    def follow(self) -> Follow:
        """What becomes of accepted changes; it can be set at any time."""
        return self._follow

    @follow.setter
    def follow(self, follow: Follow) -> None:
        self._follow = follow

    async def held(self, *, limit: int = 100) -> list[Held]:
        """The first accepted changes that have come and are not applied, with what they bring."""
        return await self._file.read(shared.held, limit)

    async def apply(self, through: int | None = None) -> int:
        """Apply what is held; how many events that were.

        Args:
            through: The last sequence to apply; None: all.
        """
        return await self._file.write(shared.apply_held, through=through)

    # Being in step.

    async def status(self) -> Status:
        """Where the worker is."""
        trouble = self._rounds.trouble
        return replace(await self._file.read(state.status), trouble=None if trouble is None else str(trouble))

    async def sync(self) -> Synced:
        """Do one round with the API: send what waits, download what is missing, receive what was accepted.

        Raises:
            AnabranchError: If the API cannot be reached, or takes or shows nothing to this agent. Nothing is lost:
                what was done stays done, and the next round goes on.
        """
        return await self._rounds.sync()

    async def run(self) -> None:
        """Stay in step with the API until the run is completed, through outages and new tokens.

        Raises:
            AnabranchError: If the API takes or shows nothing to this agent, as after a grant was taken away.
        """
        await self._rounds.run()

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[Self]:
        """Stay in step for the length of a block; why that ended early, if it did, is raised at its end."""
        task = asyncio.create_task(self.run())
        try:
            yield self
        finally:
            ended = task.done()
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait([task])
        if ended and not task.cancelled() and (error := task.exception()) is not None:
            raise error

    async def rebase(self) -> list[Conflict]:
        """Move to the parent that the branch has by now; before, reads stay with the old one.

        Returns:
            Private records that were written over something else than the new parent shows. They stay as they are.

        Raises:
            AnabranchError: If the API cannot be reached, or does not show the records; the old parent stays.
        """
        await self._rounds.rebase()
        return await self.conflicts()

    @contextlib.asynccontextmanager
    async def _terms(self) -> AsyncIterator[None]:
        """Purge what turns out to be older than its terms allow."""
        try:
            yield
        except ReplicaPurgedError:
            await self._file.write(replica.expired)
            raise
