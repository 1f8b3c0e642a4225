"""The worker: an agent's run on its own machine, in step with the API whenever that can be reached.

Everything that the agent does goes to the worker's file first and is durable there, so the agent works on through
outages, restarts and lost connections. A round with the API (`sync`, or `run` for as long as the agent works) carries
the outbox up and the feed down; nothing but an explicit rebase replaces the parent snapshot.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import replace
from typing import TYPE_CHECKING, Self

from anabranch.client.worker import outbox, replica, state
from anabranch.client.worker.desk import Desk
from anabranch.client.worker.file import WorkerFile
from anabranch.client.worker.running import Running

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path
    from types import TracebackType

    from anabranch.client import AnabranchClient
    from anabranch.client.agent_events import OnEvent
    from anabranch.client.worker.values import Conflict, Follow, Status, Synced
    from anabranch.model.objects import Publication, Receipt
    from anabranch.model.requests import BranchRequest


class Worker(Desk):
    """One run of an agent; an asynchronous context manager, made by `open`."""

    def __init__(  # noqa: PLR0913  (all but the file and the client by keyword)
        self,
        file: WorkerFile,
        client: AnabranchClient,
        *,
        namespace: str,
        branch: BranchRequest | str,
        follow: Follow | None,
        on_event: OnEvent | None,
    ) -> None:
        self._client = client
        self._namespace = namespace
        self._follow = follow
        self._rounds = Running(file, client, namespace=namespace, branch=branch, follow=lambda: self._follow)
        self._rounds.on_event = on_event
        super().__init__(file, waiting=self._rounds.work.set)

    @classmethod
    async def open(  # noqa: PLR0913  (all but the file and the client by keyword)
        cls,
        path: Path,
        client: AnabranchClient,
        *,
        namespace: str,
        branch: BranchRequest | str,
        follow: Follow | None = None,
        on_event: OnEvent | None = None,
    ) -> Self:
        """Open the file of a run, or make it; the API need not be there.

        Args:
            path: Of the file, which is the run's alone. A file that was lost is made anew: what the API has of the run
                is taken up.
            client: Of the API; stays the caller's to close.
            namespace: Of the Branch.
            branch: The Branch: its name, where somebody else makes it; or a request, by which it is created where it is
                not there. The same request is the same branch.
            follow: What becomes of accepted changes; None: what the Branch says.
            on_event: Deals with each event of the agent's instance while the worker runs: what happened to the agent in
                its other sessions, and what became of its findings. An event is acknowledged when this returns, and
                comes again when it raises. None: events are left to whoever else takes them.

        Raises:
            ConflictError: If the file is that of another run, or in use.
            InvalidInputError: If it is no worker's file.
        """
        file = await WorkerFile.open(path)
        try:
            await file.write(state.begin, namespace=namespace, name=branch if isinstance(branch, str) else branch.name)
            await replica.keep_terms(file)
        except BaseException:
            await file.close()
            raise
        return cls(file, client, namespace=namespace, branch=branch, follow=follow, on_event=on_event)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the file; what is in it waits for the next time."""
        await self._file.close()

    @property
    def follow(self) -> Follow | None:
        """What becomes of accepted changes, and None: what the Branch says. It can be set at any time."""
        return self._follow

    @follow.setter
    def follow(self, follow: Follow | None) -> None:
        self._follow = follow

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
            await asyncio.wait([task])
            await self._rounds.leave()
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

    async def outcome(self, sequence: int) -> Receipt | Publication:
        """What became of a batch, as the API says now."""
        branch = await self._file.read(outbox.forked)
        return await self._client.batch(self._namespace, branch.branch_id, sequence)
