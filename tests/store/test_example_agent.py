"""The example agent does what it says: it is killed, goes on where it was, and shares what nobody knew."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from tests.store.building import version
from tests.store.working import contents
from tests.store.world import AGENTS, TEAM

from anabranch.model.objects import Publication

ROOT = Path(__file__).parents[2]
AGENT = ROOT / "examples/agent/agent.py"
KNOWN = {"signature": "error: pool exhausted", "cause": "Too many jobs."}


async def run(place, *, until=None):
    """Run the agent, perhaps only until something is there; its exit status."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(AGENT),
        f"{AGENTS}/run",
        f"{TEAM}/facts",
        str(place.folder / "logs"),
        cwd=place.folder,
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT / "operator"),
            "ANABRANCH_URL": place.served.url,
            "ANABRANCH_TOKEN": "ada",
        },
    )
    if until is not None:
        while not await until():  # noqa: ASYNC110  (what is looked at is elsewhere)
            await asyncio.sleep(0.01)
        process.kill()
    return await process.wait()


async def test_the_example_agent_survives_its_end_and_shares_what_is_new(place):
    await place.publish(version("builds/failures/pool", KNOWN))
    logs = place.folder / "logs"
    logs.mkdir()
    for number in range(60):
        text = "step 1\nerror: pool exhausted\n" if number % 2 else f"linking {number}\nError: killed, exit {number}\n"
        (logs / f"{number:02}.log").write_text(text)

    async def begun():
        async with place.served.world.db.connection() as conn:
            return await conn.fetchval("SELECT count(*) FROM batches")

    assert await run(place, until=begun) == -9
    assert await run(place) == 0

    worker = await place.open()
    await worker.sync()
    assert (await worker.status()).phase == "Completed"
    notes = await contents(worker, prefix="notes/")
    assert len(notes) == 60
    assert notes["notes/01.log"]["known"] == "builds/failures/pool"
    await place.served.world.work()
    assert isinstance(await worker.outcome(1), Publication)
    facts = {record.key: record async for record in worker._client.records(TEAM, "facts", prefix="builds/failures/")}
    assert len(facts) == 1 + 30
    found = facts["builds/failures/error-killed-exit-28"]
    assert found.content == {"signature": "Error: killed, exit 28", "cause": "linking 28"}
    assert found.source_locators[0].startswith("evidence:sha256:")
