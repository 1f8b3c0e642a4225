"""What an agent does with its worker's file, whether or not the API is there.

Whatever is written is durable when the call returns. Reads name the layer that they are from: the agent's private
overlay, the accepted changes that it follows, or the parent snapshot of its branch.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Final, Literal

from anabranch.client.worker import checkpoints, layers, outbox, overlay, replica, shared, state
from anabranch.client.worker.values import ReplicaPurgedError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence
    from datetime import datetime

    from anabranch.client.worker.file import WorkerFile
    from anabranch.client.worker.values import (
        Conflict,
        Finding,
        Held,
        LocalCheckpoint,
        LocalRecord,
        Refused,
        Submitted,
    )
    from anabranch.model.runs import Capsule
    from anabranch.model.wire import Visibility

_PAGE: Final = 500
"""Records that are read at once."""


class Desk:
    """The agent's side of a worker.

    Args:
        file: The worker's.
        waiting: Called when something has come to wait for the API.
    """

    def __init__(self, file: WorkerFile, *, waiting: Callable[[], None]) -> None:
        self._file = file
        self._waiting = waiting

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
        self._waiting()
        return revision

    async def delete(self, key: str, *, if_revision: str | None = None) -> None:
        """Delete a private record: what is beneath it shows again.

        Raises:
            NotFoundError: If there is none.
            PreconditionFailedError: If it is at another revision.
        """
        await self._file.write(overlay.delete, key, if_revision=if_revision)
        self._waiting()

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
        self._waiting()
        return submitted

    async def complete(self, *, checkpoint: str | None = None) -> None:
        """Decide that the run is over; the API is told once it has every batch. Again it changes nothing.

        Args:
            checkpoint: Id of the checkpoint that the run ends with.

        Raises:
            NotReadyError: If the branch is not known yet.
        """
        await self._file.write(outbox.complete, checkpoint=checkpoint)
        self._waiting()

    async def refused(self) -> list[Refused]:
        """What the API will not take as it is."""
        return await self._file.read(outbox.refused)

    async def retry(self, sequence: int | None = None) -> int:
        """Send again what was refused, as after a grant was given: one batch, or everything; how much it is."""
        found = await self._file.write(outbox.retry, sequence)
        self._waiting()
        return found

    async def withdraw(self, sequence: int) -> None:
        """Give up the findings of a refused batch, so that what comes after it can be consolidated.

        Raises:
            NotFoundError: If no such batch was refused.
        """
        await self._file.write(outbox.withdraw, sequence)
        self._waiting()

    # Checkpoints and scratch.

    async def checkpoint(self, capsule: Capsule, *, session: str = "default", references: Sequence[str] = ()) -> str:
        """Keep what the agent needs in order to go on, for good; ids of checkpoints are cited as ``checkpoint:<id>``.

        Args:
            capsule: Goal, summary, constraints, decisions, open tasks, next action; 16 KiB at most.
            session: Checkpoints of one session follow each other.
            references: Source locators of what the capsule speaks of.

        Returns:
            Its id.

        Raises:
            InvalidInputError: If it can never be accepted.
            TooLargeError: If the capsule is too large.
        """
        checkpoint_id = await self._file.write(checkpoints.keep, capsule, session=session, references=references)
        self._waiting()
        return checkpoint_id

    async def restore(self, *, session: str = "default") -> LocalCheckpoint:
        """The newest checkpoint of a session.

        Raises:
            NotFoundError: If it has none.
        """
        return await self._file.read(checkpoints.latest, session)

    async def scratch_put(self, key: str, value: Any) -> None:
        """Keep a JSON value in the file, for this run alone; it is never sent."""
        await self._file.write(state.scratch_put, key, value)

    async def scratch_get(self, key: str, default: Any = None) -> Any:
        """A value that was kept."""
        return await self._file.read(state.scratch_get, key, default)

    async def scratch_delete(self, key: str) -> None:
        """Forget a value."""
        await self._file.write(state.scratch_delete, key)

    # What is held.

    async def held(self, *, limit: int = 100) -> list[Held]:
        """The first accepted changes that have come and are not applied, with what they bring."""
        return await self._file.read(shared.held, limit)

    async def apply(self, through: int | None = None) -> int:
        """Apply what is held; how many events that were.

        Args:
            through: The last sequence to apply; None: all.
        """
        return await self._file.write(shared.apply_held, through=through)

    @contextlib.asynccontextmanager
    async def _terms(self) -> AsyncIterator[None]:
        """Purge what turns out to be older than its terms allow."""
        try:
            yield
        except ReplicaPurgedError:
            await replica.keep_terms(self._file)
            raise
