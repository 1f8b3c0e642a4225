"""Backups of the database as a whole, ordered from CloudNativePG: what of a line is in them, and when that counts."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from tests.store.backing import AUTOMATIC, all_due, recorded, standing, turns
from tests.store.building import publish_versions, version
from tests.store.world import World

from anabranch.backup import database as database_backups
from anabranch.backup.config import BackupTarget, DatabaseTarget
from anabranch.backup.turning import Targets
from anabranch.kube.errors import AlreadyExistsError

ENTRY = DatabaseTarget(namespace="postgres", cluster="main")
TARGETS = Targets({"vault": BackupTarget(cloud_native_pg=ENTRY)})


class Cluster:
    """The Backups of a namespace, and a CloudNativePG that does what a test says."""

    def __init__(self):
        self.backups = {}
        self.ordered_at = datetime.now(UTC)

    async def find(self, _kind, *, namespace, name):
        return self.backups.get((namespace, name))

    get = find

    async def create(self, _kind, body, *, namespace):
        place = (namespace, body["metadata"]["name"])
        if place in self.backups:
            raise AlreadyExistsError("It is there.")
        metadata = {**body["metadata"], "creationTimestamp": self.ordered_at.strftime("%Y-%m-%dT%H:%M:%SZ")}
        self.backups[place] = {**body, "metadata": metadata}
        return self.backups[place]

    def become(self, phase, **more):
        for body in self.backups.values():
            body["status"] = {"phase": phase, **more}


@pytest.fixture
def cluster():
    return Cluster()


@pytest.fixture
async def world(db):
    return World(db)


@pytest.fixture
async def line(world):
    line = (await world.import_documents({"a": "one"}, **AUTOMATIC)).line.line
    async with world.db.connection() as conn:
        await conn.execute("UPDATE manifests SET created_at = created_at - interval '1 hour'")
    return line


async def again(world, looking):
    async with world.db.connection() as conn:
        await conn.execute("UPDATE backup_turns SET due_at = now()")
    return await all_due(looking)


async def test_a_backup_of_the_database_counts_once_it_is_completed(world, line, cluster):
    branch = await world.apply_branch("one")
    await world.submit(branch, 1, {"key": "new", "content": "found", "scope": "shared", "op": "put"})
    await world.work()
    looking = turns(world.db, TARGETS, cluster)
    assert await all_due(looking) == 1
    (body,) = cluster.backups.values()
    assert body["spec"] == {"cluster": {"name": "main"}, "method": "volumeSnapshot"}
    for phase in ("pending", "started", "running", "finalizing"):
        cluster.become(phase)
        await again(world, looking)
        await world.work()
        assert await recorded(world, line) == []
    cluster.become("completed")
    await again(world, looking)
    (backup,) = await recorded(world, line)
    assert (backup.generation, backup.bytes, backup.place) == (1, None, f"postgres/{body['metadata']['name']}")
    assert len(cluster.backups) == 1
    await world.work()
    assert (await world.contents(line))["new"] == '"found"'


async def test_what_was_published_after_it_was_ordered_is_not_in_it(world, line, cluster):
    await publish_versions(world.db, line, version("late", "one"))
    cluster.ordered_at += timedelta(seconds=30)  # a clock that is ahead
    looking = turns(world.db, TARGETS, cluster)
    await all_due(looking)
    cluster.become("completed")
    await again(world, looking)
    assert [backup.generation for backup in await recorded(world, line)] == [1]


async def test_a_line_that_is_younger_than_a_backup_waits_for_the_next(world, cluster):
    line = (await world.import_documents({"a": "one"}, **AUTOMATIC)).line.line
    looking = turns(world.db, TARGETS, cluster)
    await all_due(looking)
    cluster.become("completed")
    await again(world, looking)
    assert await recorded(world, line) == []
    assert (await standing(world, line)).error is None


async def test_a_backup_that_fails_is_told_and_another_one_is_ordered(world, line, cluster):
    looking = turns(world.db, TARGETS, cluster)
    await all_due(looking)
    cluster.become("failed", error="no room")
    await again(world, looking)
    assert "has failed: no room" in (await standing(world, line)).error
    await again(world, looking)
    assert len(cluster.backups) == 2
    cluster.become("completed")
    await again(world, looking)
    assert (await standing(world, line)).error is None


async def test_lines_that_are_due_at_the_same_time_share_one(cluster):
    now = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)

    async def order(moment, max_age=timedelta(hours=12)):
        asked = await database_backups.order(
            cluster, name="vault", target=ENTRY, max_age=max_age, attempt=0, now=moment
        )
        return asked.place

    assert await order(now) == await order(now + timedelta(minutes=9)) != await order(now + timedelta(minutes=10))
    assert await order(now, timedelta(minutes=8)) != await order(now + timedelta(minutes=1), timedelta(minutes=8))
