"""Faults do what they say, or they would be nothing to withstand."""

from __future__ import annotations

import asyncio
import contextlib
import random
from datetime import timedelta
from email.utils import parsedate_to_datetime

import httpx
import pytest
from tests.chaos import clocks, fault_failover, fault_processes
from tests.chaos.fault import GONE
from tests.cluster.places import eventually

from anabranch.manifests import LEASE


async def test_a_lease_that_is_taken_is_its_holders_no_more(stage):
    await stage.run_code(None)  # other tests have had them run what is wrong

    async def lease():
        async with stage.kube() as kube:
            path = f"/apis/coordination.k8s.io/v1/namespaces/{stage.stack.namespace}/leases/{LEASE}"
            return (await kube.get(path)).raise_for_status().json()["spec"]

    async def held():
        return (await lease())["holderIdentity"] not in {"", fault_processes.NOBODY}

    await eventually(held, within=60)
    before = await lease()
    assert await fault_processes.take_lease(stage, random.Random("it")) == LEASE
    assert (await lease())["holderIdentity"] == fault_processes.NOBODY
    await eventually(held, within=60)
    assert (await lease())["leaseTransitions"] > before["leaseTransitions"]


async def test_a_clock_that_jumps_is_seen_by_its_process_alone(stage):
    if not stage.clocks:
        pytest.skip("there is no compiler of C")
    await stage.run_code(None)
    seen = {}
    async with httpx.AsyncClient(trust_env=False) as client:
        for ahead in (86_400, 0):
            clocks.put(stage.stack.folder, "api-1", ahead)
            await asyncio.sleep(2)  # a server looks at the time for its answers' `Date` once a second
            answers = [await client.get(f"{stage.stack.inner_url(name)}/metrics") for name in ("api-1", "api-2")]
            seen[ahead] = [parsedate_to_datetime(answer.headers["date"]) for answer in answers]
    (there, other), (back, _) = seen[86_400], seen[0]
    assert there - other > timedelta(hours=23)
    assert back - other < timedelta(hours=1)


@pytest.mark.parametrize(("seed", "how"), [(1, "killed"), (0, "silent")])
async def test_what_was_committed_when_the_primary_is_lost_is_there_and_everybody_finds_the_new_one(stage, seed, how):
    await stage.run_code(None)
    chance = random.Random(seed)
    committed, before = [], stage.primary
    async with stage.admin() as conn:
        await conn.execute("CREATE TABLE IF NOT EXISTS written (number int)")

    async def write():
        while True:
            with contextlib.suppress(*GONE):
                async with stage.admin() as conn:
                    for number in range(len(committed), len(committed) + 20):
                        await conn.execute("INSERT INTO written VALUES ($1)", number, timeout=3)
                        committed.append(number)
            await asyncio.sleep(0.01)

    writing = asyncio.create_task(write())
    try:
        what = await fault_failover.fail_over(stage, chance)
    finally:
        writing.cancel()
        await asyncio.gather(writing, return_exceptions=True)
    assert what is not None
    assert how in what
    assert stage.primary != before
    async with stage.admin() as conn:
        there = {row["number"] for row in await conn.fetch("SELECT number FROM written")}
        await conn.execute("DROP TABLE written")
    assert len(committed) > 1
    assert set(committed) <= there

    async def ready():
        async with stage.admin() as conn:
            found = await conn.fetch("SELECT DISTINCT application_name AS name FROM pg_stat_activity")
            return len([row for row in found if row["name"].startswith("anabranch-")]) >= 2

    await eventually(ready, within=60)
