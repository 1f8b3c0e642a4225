"""Submits findings on several branches until /tmp/stop is there, then waits until each is published, and tells.

It prints how many batches of each branch were acknowledged and which of them were not published, and what went wrong
on the way, by its cause: `tried_again` is what the client repeated by itself, `failed` is what it gave up. Arguments:
namespace, baseline, prefix of the branches' names, and `insist` if a batch that was given up is submitted once more.
"""

import asyncio
import json
import os
import sys
from collections import Counter
from pathlib import Path

import httpx

from anabranch.client import AnabranchClient
from anabranch.model.errors import AnabranchError
from anabranch.model.objects import BranchManifest, Change, Publication
from anabranch.model.requests import BranchRequest

BRANCHES = 3
PAUSE = 0.05
STOP = Path("/tmp/stop")
ACKNOWLEDGED = Path("/tmp/acknowledged")
SECONDS = 90

tried_again: Counter[str] = Counter()
failed: Counter[str] = Counter()


class Counted(httpx.AsyncBaseTransport):
    """Counts each answer that the client may repeat, and each that never came."""

    def __init__(self, inner: httpx.AsyncBaseTransport) -> None:
        self._inner = inner

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        try:
            response = await self._inner.handle_async_request(request)
        except httpx.TransportError as error:
            tried_again[type(error).__name__] += 1
            raise
        if response.status_code >= 500:
            tried_again[str(response.status_code)] += 1
        return response


def stopped() -> bool:
    """Whether it is to end."""
    return STOP.exists()


def show(sequence: int) -> None:
    """Tell how far it is."""
    ACKNOWLEDGED.write_text(f"{sequence}\n")


async def forked(client: AnabranchClient, namespace: str, request: BranchRequest) -> None:
    """Fork a branch, and wait until it is."""
    for _ in range(SECONDS):
        if isinstance(await client.create_branch(namespace, request), BranchManifest):
            return
        await asyncio.sleep(1)


async def submit(client: AnabranchClient, namespace: str, branch: str, *, insist: bool) -> int:
    """Submits one batch after the other; gives the last sequence that was acknowledged."""
    branch_id = (await client.branch(namespace, branch)).branch_id
    source = await client.put_evidence(namespace, branch, b"measured")
    sequence = 0
    while not stopped():
        change = Change(key=f"load/{branch}/{sequence + 1}", content=sequence, scope="shared", visibility="shareable")
        try:
            await client.submit_batch(
                namespace,
                branch_id,
                sequence=sequence + 1,
                changes=[change],
                sources=[[source]],
                base_revisions=["0"],
            )
        except AnabranchError as error:
            failed[f"{type(error).__name__}: {error.detail}"] += 1
            if not insist:
                return sequence
        else:
            sequence += 1
            show(sequence)
        await asyncio.sleep(PAUSE)
    return sequence


async def unpublished(client: AnabranchClient, namespace: str, branch: str, last: int) -> list[int]:
    """Waits for the publication of every batch; gives those that did not come."""
    waiting = list(range(1, last + 1))
    for _ in range(SECONDS):
        while waiting:
            try:
                answer = await client.batch(namespace, branch, waiting[-1])
            except AnabranchError:
                break
            if not isinstance(answer, Publication):
                break
            waiting.pop()
        if not waiting:
            break
        await asyncio.sleep(1)
    return waiting


async def main(namespace: str, baseline: str, prefix: str, insist: str) -> None:
    """Load it."""
    token = Path(os.environ["ANABRANCH_TOKEN_FILE"])
    async with AnabranchClient(os.environ["ANABRANCH_URL"], token_file=token) as client:
        names = [f"{prefix}-{number}" for number in range(BRANCHES)]
        for name in names:
            await forked(client, namespace, BranchRequest(name=name, baseline=baseline))
        client._http._transport = Counted(client._http._transport)
        work = (submit(client, namespace, name, insist=insist == "insist") for name in names)
        last = dict(zip(names, await asyncio.gather(*work), strict=True))
        seen = dict(tried_again)
        left = {name: await unpublished(client, namespace, name, count) for name, count in last.items()}
    sys.stdout.write(json.dumps({"acknowledged": last, "unpublished": left, "tried_again": seen, "failed": failed}))


STOP.unlink(missing_ok=True)
ACKNOWLEDGED.unlink(missing_ok=True)
asyncio.run(main(*sys.argv[1:]))
