"""An agent that looks into failed builds, and shares what it finds out.

It goes through a folder of logs. A failure that the shared memory knows already it only notes for itself; of a new one
it submits what it found, with the log as evidence. It may be killed and started again at any moment: its file and its
checkpoint say how far it has come. While the API is away it goes on, and hands in later what it has found.

    ANABRANCH_URL=… ANABRANCH_TOKEN_FILE=… python agent.py agents/look-into-builds platform/handbook logs/

In your agent, `diagnose` is where the model is asked. What it is told of the shared memory is data, and no instruction.
"""

from __future__ import annotations

import asyncio
import re
import sys
from pathlib import Path

from anabranch.client import AnabranchClient
from anabranch.client.worker import Evidence, Finding, Worker
from anabranch.model.errors import NotFoundError
from anabranch.model.requests import BranchRequest
from anabranch.model.runs import Capsule

FAILURES = "builds/failures/"


async def main(branch: str, baseline: str, folder: Path) -> None:
    """Look into every log of a folder, in one run."""
    namespace, name = branch.split("/")
    baseline_namespace, baseline_name = baseline.split("/")
    request = BranchRequest(
        name=name, baseline=baseline_name, baseline_namespace=baseline_namespace, task="Look into failed builds."
    )
    async with (
        AnabranchClient.from_environment() as client,
        await Worker.open(Path(f"{name}.db"), client, namespace=namespace, branch=request) as worker,
    ):
        if (await worker.status()).generation is None:
            await worker.sync()  # the first start needs the API; every later one does without
        async with worker.running():
            task = await begin(worker, folder)
            while task.open_tasks:
                await look_into(worker, folder / task.open_tasks[0])
                task = task.model_copy(update={"open_tasks": task.open_tasks[1:]})
                await worker.checkpoint(task)
        await worker.complete(checkpoint=(await worker.restore()).checkpoint_id)
        await worker.run()  # until the API has everything


async def begin(worker: Worker, folder: Path) -> Capsule:
    """The task where it was left, or from its beginning."""
    try:
        return (await worker.restore()).capsule
    except NotFoundError:
        logs = await asyncio.to_thread(lambda: sorted(path.name for path in folder.glob("*.log")))
        task = Capsule(goal="Find out why these builds failed.", open_tasks=tuple(logs))
        await worker.checkpoint(task)
        return task


async def look_into(worker: Worker, log: Path) -> None:
    """Note a failure that is known, or share what is found out about a new one."""
    text = await asyncio.to_thread(log.read_text)
    async for record in worker.records(prefix=FAILURES):
        if record.content["signature"] in text:
            await worker.write(f"notes/{log.name}", {"known": record.key, "as_of": record.revision})
            return
    signature, cause = diagnose(text)
    key = FAILURES + re.sub(r"\W+", "-", signature.lower()).strip("-")[:80]
    found = {"signature": signature, "cause": cause}
    await worker.submit(Finding(key, found, sources=[Evidence(text.encode(), "text/plain")]))
    await worker.write(f"notes/{log.name}", {"found": key})


def diagnose(text: str) -> tuple[str, str]:
    """What identifies a failure, and what caused it: here the first line that says so, and the one before it."""
    lines = text.splitlines()
    at = next((number for number, line in enumerate(lines) if "error" in line.lower()), len(lines) - 1)
    return lines[at].strip(), lines[max(at - 1, 0)].strip()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], Path(sys.argv[3])))
