"""Evidence for the proposal's gate 3, word by word: what a queue must withstand.

Each test quotes its gate and shows each of its claims in the gate's order, by the services that operator and API
run on. docs/spec/gates.md lists them.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from tests.store.branching import expire_leases
from tests.store.dying import DyingDatabase, KilledError
from tests.store.gating import FIVE, complete, published_once
from tests.store.world import AUTOMATIC, World

from anabranch.branches import read as branch_reads
from anabranch.consolidation import receipt, schedule, work
from anabranch.model.canonical import canonical_bytes
from anabranch.model.errors import AnabranchError, NotFoundError
from anabranch.model.objects import batch_hash
from anabranch.store import leases


@pytest.fixture
def world(db):
    return World(db)


async def test_gate_3_duplicate_and_reordered_uploads_never_double_publish(world):
    """Gate 3, completion queue: "Duplicate/reordered uploads … never double-publish"."""
    line = (await world.import_documents({"a": "first"}, **AUTOMATIC)).line.line
    branch = await world.apply_branch("one")
    await complete(world, branch, 5)  # it overtakes all of them

    receipts = {}
    for sequence in (3, 5, 1, 4, 2):
        acks = await asyncio.gather(*(world.submit(branch, sequence, FIVE[sequence - 1]) for _ in range(3)))
        receipts[sequence] = {ack.receipt_id for ack in acks}
        await world.work()
    assert [len(ids) for ids in receipts.values()] == [1] * 5
    for sequence in (2, 1, 5, 3, 4):  # and all of it once more, when it is published
        again = await world.submit(branch, sequence, FIVE[sequence - 1])
        assert (again.ack, {again.receipt_id}) == ("publication", receipts[sequence])
        await world.work()

    await published_once(world, line)
    assert (await branch_reads.get(world.db, branch.branch_id)).phase == "Completed"


async def test_gate_3_an_interrupted_transfer_never_double_publishes(world):
    """Gate 3, completion queue: "… interrupted transfer … never double-publish"."""
    line = (await world.import_documents({"a": "first"}, **AUTOMATIC)).line.line
    branch = await world.apply_branch("one")
    source = await world.evidence(branch)
    batch = {
        "branch_id": branch.branch_id,
        "sequence": 1,
        "changes": [change | {"visibility": "shareable"} for change in FIVE],
        "source_locators": [[source]] * 5,
        "base_revisions": ["0"] * 5,
    }
    whole = canonical_bytes(batch | {"content_hash": batch_hash(batch)})

    # Cut anywhere, or damaged on its way, it is refused, and nothing of it is kept.
    for torn in [whole[:cut] for cut in range(0, len(whole), 97)] + [whole.replace(b'"content":3', b'"content":7')]:
        with pytest.raises(AnabranchError):
            await receipt.read(torn)
    with pytest.raises(NotFoundError):
        await receipt.acknowledgement(world.db, branch=branch, sequence=1)
    # The transfer may also end after the batch was stored, and before its agent was told: it is sent again.
    for _ in range(2):
        await receipt.receive(world.db, branch=branch, submission=await receipt.read(whole))
        await world.work()

    await published_once(world, line)


async def test_gate_3_lease_expiry_never_double_publishes(world):
    """Gate 3, completion queue: "… lease expiry … never double-publish"."""
    line = (await world.import_documents({"a": "first"}, **AUTOMATIC)).line.line
    branch = await world.apply_branch("one")
    await world.submit(branch, 1, *FIVE)
    await schedule.make_jobs(world.db)
    async with world.db.connection() as conn:
        (late,) = (await leases.claim(conn, holder="one that is late", limit=1)).jobs

    # Another one takes the job over. While the job is where it was, nothing but its fence tells the one that is late.
    await expire_leases(world.db)
    async with world.db.connection() as conn:
        (taken,) = (await leases.claim(conn, holder="another one", limit=1)).jobs
    with pytest.raises(leases.FencedError):
        await work.advance(world.services, late)
    await work.advance(world.services, taken)  # and publishes
    with pytest.raises(leases.FencedError):
        await work.advance(world.services, late)
    await world.work()

    await published_once(world, line)


@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
async def test_gate_3_worker_restart_never_double_publishes(world, before):
    """Gate 3, completion queue: "… worker restart never double-publish". Killed at every step, restarted each time."""
    line = (await world.import_documents({"a": "first"}, **AUTOMATIC)).line.line
    branch = await world.apply_branch("one")
    await world.submit(branch, 1, *FIVE)
    await schedule.make_jobs(world.db)
    async with world.db.connection() as conn:
        await conn.execute("UPDATE jobs SET retry_limit = 20")  # a step has more uses of the database than five

    at, killed = 0, []
    while True:
        async with world.db.connection() as conn:
            (job,) = (await leases.claim(conn, holder=f"worker {len(killed)}", limit=1)).jobs
        # From each durable state on, each gets one use of the database further than the one before.
        at = at + 1 if killed[-1:] == [job.state] else 1
        try:
            await work.advance(replace(world.services, db=DyingDatabase(world.db, at=at, before=before)), job)
        except KilledError:
            killed.append(job.state)
            await expire_leases(world.db)
            if (await world.job(job.name)).state == "published":
                break
        else:
            break
    await world.work()

    assert set(killed) == {"received", "importing", "validating", "publishing"}
    await published_once(world, line)
    assert (await world.job(job.name)).published_generation == 2  # and nobody was left to find nothing to publish
