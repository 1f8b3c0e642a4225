"""Backups from end to end: the operator makes one before it publishes, says so, and that is a Baseline again."""

from __future__ import annotations

import hashlib
import secrets
from pathlib import Path

import asyncpg
import pytest
import yaml
from tests.cluster.places import RECORDS, Place, eventually, finding

BACKED_UP = {"backup": {"policy": "BeforePublish", "maxAge": "12h", "target": "volume"}}


@pytest.fixture
async def town(stack):
    town = Place(stack, namespace=f"backups-{secrets.token_hex(4)}")
    stack.make_namespace(town.namespace)
    yield town
    await town.close()


@pytest.fixture
def volume(stack):
    """The folder of the target that the operator's configuration names."""
    return Path(yaml.safe_load((stack.folder / "config.yaml").read_text())["backupTargets"]["volume"]["folder"]["path"])


def baseline(town, name):
    return town.stack.cluster.get("baseline", name, f"--namespace={town.namespace}")


def backed_up(item):
    """Reason and message of the condition."""
    return next(
        (each["reason"], each["message"]) for each in item["status"]["conditions"] if each["type"] == "BackedUp"
    )


async def contents(client, town, name):
    return {record.key: (record.scope, record.content) async for record in client.records(town.namespace, name)}


@pytest.fixture
async def conn(stack):
    conn = await asyncpg.connect(stack.admin_dsn)
    yield conn
    await conn.close()


async def test_what_the_operator_backs_up_before_it_publishes_becomes_a_baseline_again(town, volume, conn):
    away = volume.rename(volume.with_name("away"))
    town.baseline("kept", review={"mode": "Automatic"}, **BACKED_UP)
    agent = await town.client("agent", "anabranch-agent")
    branch = await town.branch(agent, baseline="kept")
    await town.submit(agent, branch, finding("build/wait", "Wait for the linker."))

    async def waits():
        reasons = town.kubectl("get", "consolidationjobs", "--output=jsonpath={.items[*].status.conditions[*].reason}")
        return "BackupAwaited" in reasons and backed_up(baseline(town, "kept"))[0] == "BackupFailed"

    await eventually(waits)
    assert baseline(town, "kept")["status"]["head"]["generation"] == 1
    away.rename(volume)
    await conn.execute("UPDATE backup_turns SET due_at = now() WHERE attempt > 0")  # it is minutes until the next try
    await town.publication(agent, branch)

    async def told():
        item = baseline(town, "kept")
        return item if item["status"].get("lastBackup") and item["status"]["head"]["generation"] == 2 else None

    item = await eventually(told)
    last = item["status"]["lastBackup"]
    assert (last["generation"], last["target"]) == (1, "volume"), "of what was there before it was published"
    assert backed_up(item) == ("Recorded", "Generation 1 is backed up in volume.")
    (made,) = volume.glob(f"{town.namespace}/kept/**/*.anabranch")
    assert last["manifestHash"] == (await agent.manifest(town.namespace, "kept", 1)).manifest_hash

    digest = f"sha256:{hashlib.sha256(made.read_bytes()).hexdigest()}"
    owner = await town.client("owner", "anabranch-publisher")
    town.apply("Baseline", "again", {"import": {"archive": {"digest": digest}}})
    await town.archive_missing("again")
    await owner.upload_archive(town.namespace, "again", made, digest)
    town.kubectl("wait", "--for=condition=Ready", "baseline/again", "--timeout=60s")
    assert await contents(agent, town, "again") == RECORDS
    assert (await contents(agent, town, "kept")).keys() == {*RECORDS, "build/wait"}
