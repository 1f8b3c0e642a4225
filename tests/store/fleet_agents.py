"""Agents that submit what they have found: twice, in disorder, too late, torn, or under a number that is taken."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from anabranch.branches import completion
from anabranch.consolidation import receipt
from anabranch.model.canonical import content_hash
from anabranch.model.errors import ConflictError, InvalidInputError
from anabranch.model.objects import RunCompletion
from anabranch.store import lines, records

if TYPE_CHECKING:
    from tests.store.world import World

    from anabranch.store.branches import BranchRow

IMPORTED = {"a": "first", "b": "first", "c": "first"}

Change = dict[str, Any]


@dataclass(eq=False)
class Agent:
    """An agent's run: what it has found, and what it was told of it.

    Attributes:
        world: Where it is.
        branch: Its branch.
        exports: Whether its private findings may leave it.
        outbox: Its batches, the first one is number 1: the changes, and whether it calls it its last.
        receipts: Ids by sequence, of what was acknowledged.
        completion: What its RunCompletion said, once it was sent.
    """

    world: World
    branch: BranchRow
    exports: bool
    outbox: list[tuple[list[Change], bool]] = field(default_factory=list)
    receipts: dict[int, str] = field(default_factory=dict)
    completion: dict[str, Any] | None = None

    @property
    def account(self) -> str:
        return self.branch.service_account

    @property
    def secret(self) -> str:
        return f"secret of {self.account}"

    def complete_through(self) -> int:
        """Up to where all its batches were acknowledged."""
        through = 0
        while through + 1 in self.receipts:
            through += 1
        return through

    async def compose(self, drawn: list[dict[str, Any]], *, final: bool = False) -> None:
        """Put a batch into the outbox. Of each change it knows the newest revision, or what it forked."""
        async with self.world.db.connection() as conn:
            head = await lines.head(conn, self.branch.line)
            newest = await records.current_of(
                conn, line=head.line, generation=head.head_generation, keys=[change["key"] for change in drawn]
            )
        changes = []
        for one in drawn:
            change = {name: value for name, value in one.items() if name != "knows_newest"}
            knows_newest = one["knows_newest"]
            base = newest[change["key"]].revision if knows_newest and change["key"] in newest else 0
            if not knows_newest and change["key"] in IMPORTED:
                base = 1
            if change.get("visibility") == "private" and change.get("op") != "tombstone":
                change["content"] = f"{self.secret}: {change['content']}"
            changes.append(change | {"base": base})
        self.outbox.append((changes, final))

    async def send(self, sequence: int) -> None:
        """Send a batch, perhaps again; it has one receipt, unless its run was over before it."""
        changes, final = self.outbox[sequence - 1]
        over = self.completion is not None and sequence > self.completion["last_submitted_sequence"]
        try:
            ack = await self.world.submit(self.branch, sequence, *changes, final=final)
        except ConflictError:
            assert over
        else:
            assert not over
            assert self.receipts.setdefault(sequence, ack.receipt_id) == ack.receipt_id

    async def catch_up(self) -> None:
        """Send all that was not acknowledged yet."""
        for sequence in range(1, len(self.outbox) + 1):
            if sequence not in self.receipts:
                await self.send(sequence)

    async def forge(self, sequence: int) -> None:
        """Send something else under a number that is taken."""
        with pytest.raises(ConflictError):
            await self.world.submit(self.branch, sequence, {"key": "a", "content": "forged"})

    async def tear(self) -> None:
        """Lose the connection in the middle of a batch."""
        torn = b'{"branch_id":"' + self.branch.branch_id.encode() + b'","sequence":1,"changes":[{"key":"a"'
        with pytest.raises(InvalidInputError):
            await receipt.read(torn)

    async def complete(self) -> None:
        """Say that nothing more comes than is in the outbox. Said again it is the same, and nothing else is taken."""
        if self.completion is None:
            self.completion = {
                "run_id": self.branch.run_id,
                "branch_id": self.branch.branch_id,
                "agent_id": self.branch.agent_id,
                "baseline_id": self.branch.parent_baseline_id,
                "last_submitted_sequence": len(self.outbox),
                "delta_hash": content_hash([]),
            }
        await self._complete(self.completion)
        with pytest.raises(ConflictError):
            await self._complete(self.completion | {"last_submitted_sequence": 1_000})

    async def _complete(self, raw: dict[str, Any]) -> None:
        await completion.submit(
            self.world.db, branch=self.branch, completion=RunCompletion.model_validate(raw), raw=raw
        )
