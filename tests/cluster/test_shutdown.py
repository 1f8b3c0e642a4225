"""What becomes of the work in hand, and of what is held, when a process is told to end, as Kubernetes does it."""

from __future__ import annotations

import asyncio
import hashlib
import time
from urllib.parse import urlsplit

import asyncpg
import httpx
import pytest
from tests.cluster.places import BASELINE, eventually, finding
from tests.cluster.test_operator_killed import Crossing
from tests.pace import allowed

from anabranch.devcluster.processes import Processes
from anabranch.manifests import LEASE


@pytest.fixture
async def crossing(stack):
    conn = await asyncpg.connect(stack.admin_dsn)
    crossing = Crossing(conn)
    await crossing.remove()
    await crossing.install()
    yield crossing
    await crossing.remove()
    await conn.close()


def ends(stack, name):
    """Send a process SIGTERM and wait for its end: its exit code and how long it took."""
    process = Processes(stack.folder).running(name)
    began = time.monotonic()
    process.terminate()
    return process.wait(30), time.monotonic() - began


def leader(stack):
    spec = stack.cluster.get("lease", LEASE, f"--namespace={stack.namespace}")["spec"]
    return spec.get("holderIdentity") or None


async def test_an_operator_that_is_told_to_end_gives_back_all_that_it_holds_and_another_goes_on(stack, place, crossing):
    agent = await place.client("agent", "anabranch-agent")
    branch = await place.branch(agent)
    conn = crossing._conn
    line = await conn.fetchval("SELECT line FROM branches WHERE branch_id = $1", branch.branch_id)
    job = "SELECT holder FROM jobs WHERE branch_id = $1 AND from_sequence = 1"
    first = leader(stack)
    await asyncio.to_thread(stack.start_operator, "operator-2")
    second = Processes(stack.folder).running("operator-2")
    try:
        async with crossing.closed():
            await crossing.arm(line, "imported-writing")
            second.suspend()  # so that the job is the leader's
            await place.submit(agent, branch, finding(f"shutdown/{branch.name}", "found"))
            await crossing.blocked(1)
            assert await conn.fetchval(job, branch.branch_id) == first
            second.resume()
            code, seconds = await asyncio.to_thread(ends, stack, "operator")
            assert (code, seconds < allowed(10)) == (0, True), seconds
            assert await conn.fetchval(job, branch.branch_id) != first

        async def another() -> bool:
            return (await asyncio.to_thread(leader, stack)) not in {None, first}

        await eventually(another, within=allowed(5))  # sooner than a Lease runs out by itself
        began = time.monotonic()
        publication = await place.publication(agent, branch)
        assert time.monotonic() - began < allowed(15), "another waited for the lease of the job to run out"
        assert publication.published_baseline_id
    finally:
        second.resume()
        await asyncio.to_thread(stack.stop, "operator")
        await asyncio.to_thread(stack.start_operator)
        await asyncio.to_thread(stack.stop, "operator-2")


async def test_an_api_that_is_told_to_end_is_unready_first_and_answers_what_it_has_begun_to_read(stack, place):
    agent = await place.client("agent", "anabranch-agent")
    branch = await place.branch(agent)
    # Long enough to be seen, on a busy machine too.
    await asyncio.to_thread(lambda: stack.start_api("leaving", ANABRANCH_DRAIN_SECONDS="3"))
    url = stack.url("leaving")
    address = urlsplit(url)
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    try:
        body = b"what an agent has seen"
        digest = hashlib.sha256(body).hexdigest()
        path = f"/v1/namespaces/{place.namespace}/branches/{branch.branch_id}/evidence/{digest}"
        head = (
            f"PUT {path} HTTP/1.1\r\nHost: {address.netloc}\r\nAuthorization: Bearer {place._tokens['agent']}\r\n"
            f"Content-Type: text/plain\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        writer.write(head.encode() + body[:5])
        await writer.drain()
        async with httpx.AsyncClient(base_url=url, trust_env=False) as client:
            assert (await client.get("/readyz")).status_code == 200
            ending = asyncio.create_task(asyncio.to_thread(ends, stack, "leaving"))
            seen = []

            async def unready() -> bool:
                seen.append((await client.get("/readyz")).status_code)
                return seen[-1] == 503

            await eventually(unready, within=allowed(5))
            found = await client.get(f"/v1/namespaces/{place.namespace}/baselines/{BASELINE}")
            assert found.status_code == 401, "it still answers whoever has not heard of its end"
        writer.write(body[5:])
        status = await asyncio.wait_for(reader.readline(), 10)
        assert b" 201 " in status or b" 200 " in status, status
        code, seconds = await ending
        assert (code, seconds < allowed(10)) == (0, True), seconds
    finally:
        writer.close()
        await asyncio.to_thread(stack.stop, "leaving")
