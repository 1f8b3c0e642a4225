"""A worker in a process of its own, for a test to kill: tells each acknowledged write, and goes on until it is ended.

python -m tests.store.killed_worker FILE URL FIRST
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from tests.store.working import RUN
from tests.store.world import AGENTS

from anabranch.client import AnabranchClient, transport
from anabranch.client.worker import Evidence, Finding, Worker


def tell(*words: object) -> None:
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


async def main(file: str, url: str, first: int) -> None:
    transport.pause = lambda _attempt: 0.01
    async with (
        AnabranchClient(url, token="ada") as client,
        await Worker.open(Path(file), client, namespace=AGENTS, branch=RUN) as worker,
    ):
        await worker.sync()
        syncing = asyncio.create_task(worker.run())
        number = first
        while True:
            await worker.write(f"mine/{number % 40}", number)
            tell("wrote", number % 40, number)
            submitted = await worker.submit(Finding(f"found/{number}", number, sources=[Evidence(b"%d" % number)]))
            tell("submitted", submitted.sequence, number)
            number += 1
            await asyncio.sleep(0)
            if syncing.done():
                syncing.result()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
