"""Evidence for the proposal's gates 2 and 2a, word by word: how workers start from snapshots.

Each test quotes its gate and shows each of its claims in the gate's order, by the services that operator and API
run on. docs/spec/gates.md lists them.
"""

from __future__ import annotations

import asyncio

import pytest
from tests.store.gating import complete
from tests.store.retaining import retain
from tests.store.world import AUTOMATIC, TEAM, World

from anabranch.branches import layers, private
from anabranch.branches import read as branch_reads
from anabranch.devcluster import ephemeral, postgres
from anabranch.devcluster.postgres import with_database
from anabranch.devcluster.processes import Processes
from anabranch.identity import grants
from anabranch.model.answers import ViewedRecord
from anabranch.model.errors import PreconditionFailedError
from anabranch.store import database, migrate, roles

SCOPES = ["shared"]


@pytest.fixture
def world(db):
    return World(db)


def of(generation):
    return {"baselineRef": {"namespace": TEAM, "name": "facts", "generation": generation}}


async def note(world, branch, content, *, expected=None):
    return await private.put(
        world.db, branch=branch, key="a", content=content, scope="shared", visibility="private", expected=expected,
        readable=SCOPES,
    )  # fmt: skip


async def seen(world, branch, layer="merged"):
    return ViewedRecord.model_validate_json(await layers.view(world.db, branch, "a", layer=layer, scopes=SCOPES))


async def test_gate_2_two_workers_start_from_one_manifest_write_independently_and_retain_the_base_revision(world):
    """Gate 2, baseline + overlay: "Two workers start from one manifest, write independently, and retain the correct
    base revision".
    """
    line = (await world.import_documents({"a": "first"}, **AUTOMATIC)).line.line

    # "Two workers start from one manifest"
    one, two = await asyncio.gather(world.apply_branch("one"), world.apply_branch("two"))
    assert one.branch_id != two.branch_id
    assert one.parent_baseline_id == two.parent_baseline_id
    assert one.parent_manifest_hash == two.parent_manifest_hash

    # "write independently": the same key at the same time, and again; neither sees the other, nor does the baseline.
    await asyncio.gather(note(world, one, "of one"), note(world, two, "of two"))
    await note(world, one, "of one, again", expected=1)
    with pytest.raises(PreconditionFailedError):
        await note(world, two, "of two, again", expected=2)  # it is at 1: only the other one was written twice
    assert ((await seen(world, one)).content, (await seen(world, two)).content) == ("of one, again", "of two")
    assert await world.contents(line) == {"a": '"first"'}

    # "and retain the correct base revision": that of the manifest which they started from, whatever comes after it.
    await world.submit(one, 1, {"key": "a", "content": "second", "base": 1})
    await world.work()
    assert await world.contents(line) == {"a": '"second"'}
    await note(world, two, "of two, later")
    for branch in (one, two):
        assert (await seen(world, branch, "private")).base_revision == "1"
        base = await seen(world, branch, "base")
        assert (base.content, base.revision) == ("first", "1")
    # So a finding that was made of the old record is told from one that knew the new one.
    await world.submit(two, 1, {"key": "a", "content": "third", "base": 1})
    await world.work()
    assert await world.contents(line) == {"a": '"second"'}
    assert ("waiting", "BaseRevisionSuperseded") in (await world.outcomes())["a"]


@pytest.fixture
async def server():
    """A Postgres of the test's own, which it may kill."""
    with ephemeral.folder() as folder:
        yield await asyncio.to_thread(postgres.start, folder / "postgres", durable=True)


async def test_gate_2a_workers_fork_the_same_and_different_snapshots_and_lineage_survives_restart(server):
    """Gate 2a, historical branches: "Workers fork the same and different retained snapshots; lineage survives restart;
    unauthorized or expired snapshots are denied". (The last part is the next test.)
    """
    passwords = roles.RolePasswords(migrate="m", operator="o", api="a")
    await roles.ensure_roles(server.dsn, passwords)
    await migrate.upgrade(with_database(server.dsn, "postgres", user=migrate.MIGRATE_ROLE, password="m"))
    db = await database.Database.open(server.dsn, application_name="before")
    world = World(db)
    await three_generations(world)

    # "Workers fork the same and different retained snapshots"
    forks = {
        name: await world.apply_branch(name, **of(generation))
        for name, generation in {"old": 1, "old-too": 1, "middle": 2, "new": 3}.items()
    }
    read = {name: (await seen(world, fork, "base")).content for name, fork in forks.items()}
    assert read == {"old": "first", "old-too": "first", "middle": "second", "new": "third"}

    # "lineage survives restart": of the database, killed as soon as a run was told that it has its fork, and of whoever
    # asks it.
    folder = server.folder
    process = Processes(folder).running("postgres")
    forks["last"], read["last"] = await world.apply_branch("last", **of(2)), "second"
    process.kill()
    await asyncio.to_thread(process.wait)
    await db.close()
    restarted = await asyncio.to_thread(postgres.start, folder, durable=True)
    db = await database.Database.open(restarted.dsn, application_name="after")
    world = World(db)
    for name, before in forks.items():
        after = await branch_reads.get(db, before.branch_id)
        assert after == before
        assert (await seen(world, after, "base")).content == read[name]
    assert await world.check_roots(before.line) == 3
    await db.close()


async def test_gate_2a_unauthorized_or_expired_snapshots_are_denied(world):
    """Gate 2a, historical branches: "… unauthorized or expired snapshots are denied"."""
    line = await three_generations(world)
    kept = await world.apply_branch("kept", **of(1))

    # "unauthorized": it reads as one that is not there, of any generation.
    world.permissions.deny(grants.FORK, account="stranger")
    for generation in (1, 2, 3):
        assert await world.apply_branch("stranger", **of(generation)) is None
        assert await world.waits("Branch", "stranger") == "BaselineUnavailable"
    assert await world.apply_branch("lost", baseline="no-such-facts") is None
    assert await world.waits("Branch", "lost") == "BaselineUnavailable"

    # "or expired": generation 1 is retained while a run stands on it, and goes with the run.
    await retain(world.db, line)
    assert (await world.apply_branch("another", **of(1))).parent_generation == 1
    for branch in (kept, await world.apply_branch("another", **of(1))):
        await complete(world, branch, 0)
    await world.submit(await world.apply_branch("last"), 1, {"key": "b", "content": "later"})
    await world.work()
    await retain(world.db, line)
    assert await world.apply_branch("late", **of(1)) is None
    assert await world.waits("Branch", "late") == "GenerationPruned"


async def three_generations(world):
    """A baseline whose record a is first, second, third in generations 1, 2, 3; its line."""
    line = (await world.import_documents({"a": "first"}, **AUTOMATIC)).line.line
    writer = await world.apply_branch("writer")
    for revision, content in ((1, "second"), (2, "third")):
        await world.submit(writer, revision, {"key": "a", "content": content, "base": revision})
        await world.work()
    await complete(world, writer, 2)
    return line
