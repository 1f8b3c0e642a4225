"""What tests of the worker share: a run, its files, and what others publish meanwhile."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.store import building
from tests.store.world import AGENTS, AUTOMATIC, TEAM

from anabranch.client.worker import Evidence, Finding, Worker
from anabranch.model.requests import BranchRequest

if TYPE_CHECKING:
    from pathlib import Path

    from tests.store.served import Served

    from anabranch.model.ids import LineId
    from anabranch.store.publish import NewVersion

RUN = BranchRequest(name="run", baseline="facts", baseline_namespace=TEAM, task="find out")
PROOF = Evidence(b"a log", "text/plain")
CONTENTS = {"a": "one", "b": "two", "c": "three"}


def finding(key: str, content: Any, **members: Any) -> Finding:
    """A finding with evidence."""
    return Finding(key, content, sources=[PROOF], **members)


@dataclass
class Place:
    """A served Baseline, and a folder for workers' files.

    Attributes:
        served: The API and the world behind it.
        folder: Of the files.
        line: Of the Baseline.
    """

    served: Served
    folder: Path
    line: LineId = ""
    _workers: list[Worker] = field(default_factory=list)
    _generation: int = 1

    async def set_up(self, **spec: Any) -> None:
        state = await self.served.world.import_documents(CONTENTS, **AUTOMATIC, **spec)
        self.line = state.line.line

    async def open(self, file: str = "run.db", *, name: str = "run", account: str = "ada", **options: Any) -> Worker:
        """Open the worker of a run, by default always the same file."""
        client = await self.served.client(account)
        request = RUN.model_copy(update={"name": name})
        worker = await Worker.open(self.folder / file, client, namespace=AGENTS, branch=request, **options)
        self._workers.append(worker)
        return worker

    async def close(self, worker: Worker) -> None:
        self._workers.remove(worker)
        await worker.close()

    async def reopen(self, worker: Worker, **options: Any) -> Worker:
        await self.close(worker)
        return await self.open(**options)

    async def tear_down(self) -> None:
        for worker in self._workers:
            await worker.close()

    async def publish(self, *versions: NewVersion) -> int:
        """What somebody publishes; the generation."""
        return (await building.publish_versions(self.served.world.db, self.line, *versions)).generation

    async def declare(self, **spec: Any) -> None:
        """Change the Baseline's spec."""
        self._generation += 1
        spec = {"import": {"configMap": {"name": "facts"}}, **AUTOMATIC, **spec}
        await self.served.world.apply_baseline(generation=self._generation, **spec)


async def contents(worker: Worker, **options: Any) -> dict[str, Any]:
    """What a worker shows, by key."""
    return {record.key: record.content async for record in worker.records(**options)}
