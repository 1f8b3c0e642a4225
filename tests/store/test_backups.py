"""Backups: made when due, recorded when whole, and a publication waits for one that is young enough."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
from tests.store.backing import AUTOMATIC, BEFORE_PUBLISH, all_due, folder, grow_old, recorded, standing, turns
from tests.store.world import World

from anabranch.backup import making, restoring
from anabranch.backup.folder import Folder
from anabranch.backup.target import TargetError
from anabranch.model.canonical import hash_text
from anabranch.store import backups, leases, manifests

CONTENTS = {"a": "one", "b": "two"}
DAY = timedelta(days=1)


@pytest.fixture
def vault(tmp_path):
    path = tmp_path / "vault"
    path.mkdir()
    return path


@pytest.fixture
async def world(db):
    return World(db)


@pytest.fixture
def looking(db, vault):
    return turns(db, folder(vault))


async def finding(world, name="one", key="new", sequence=1):
    """A finding that nobody has to review, and that is ready to be published."""
    branch = await world.apply_branch(name)
    await world.submit(branch, sequence, {"key": key, "content": "found", "scope": "shared", "op": "put"})


async def states(world):
    return [(job.state, job.reason, job.attempt) for job in await world.jobs()]


async def test_a_baseline_that_asks_for_backups_is_backed_up_once_and_says_so(world, looking, vault):
    line = (await world.import_documents(CONTENTS, **BEFORE_PUBLISH)).line.line
    assert await all_due(looking) == 1
    (backup,) = await recorded(world, line)
    async with world.db.connection() as conn:
        manifest = await manifests.resolve(conn, line=line, ref="head")
    assert (backup.generation, backup.baseline_id, backup.manifest_hash) == (
        1,
        manifest.baseline_id,
        manifest.manifest_hash,
    )
    about = await restoring.check(Folder(folder(vault).entry("vault").folder), place=backup.place)
    assert about.manifest.manifest_hash == hash_text(manifest.manifest_hash)
    assert (about.archive.bytes, about.taken_at) == (backup.bytes, backup.taken_at)
    assert await all_due(looking) == 0


async def test_nothing_is_backed_up_where_nobody_asks(world, looking, vault):
    await world.import_documents(CONTENTS)
    assert await all_due(looking) == 0
    assert list(vault.iterdir()) == []


async def test_a_publication_waits_for_a_backup_and_goes_on_when_there_is_one(world, looking):
    line = (await world.import_documents(CONTENTS, **AUTOMATIC)).line.line
    await finding(world)
    await world.work()
    assert await states(world) == [("publishing", "BackupAwaited", 0)]
    assert await world.work_once() == 0  # it holds nobody up, and nobody asks again and again
    assert (await standing(world, line)).taken_at is None
    assert await all_due(looking) == 1
    await world.work()
    assert await states(world) == [("published", "", 0)]
    assert (await world.contents(line))["new"] == '"found"'
    assert [backup.generation for backup in await recorded(world, line)] == [1]
    await world.check_roots(line)


async def test_a_backup_that_is_too_old_lets_nothing_through_and_one_that_is_young_enough_does(world, looking):
    line = (await world.import_documents(CONTENTS, **AUTOMATIC)).line.line
    await all_due(looking)
    await grow_old(world, line, DAY - timedelta(minutes=1))
    await finding(world)
    await world.work()
    assert await states(world) == [("published", "", 0)]
    await grow_old(world, line, timedelta(minutes=1))
    await finding(world, "two", "more")
    await world.work()
    assert ("publishing", "BackupAwaited", 0) in await states(world)
    await all_due(looking)
    await world.work()
    assert {state for state, _, _ in await states(world)} == {"published"}
    assert [backup.generation for backup in await recorded(world, line)] == [2, 1]


async def test_a_line_that_has_changed_is_backed_up_at_half_the_age_and_one_that_has_not_is_left(world, looking):
    line = (await world.import_documents(CONTENTS, **AUTOMATIC)).line.line
    await all_due(looking)
    await grow_old(world, line, DAY / 2)
    assert await all_due(looking) == 1  # it is looked at
    assert len(await recorded(world, line)) == 1
    await grow_old(world, line, DAY / 4)
    await finding(world)
    await world.work()
    assert await all_due(looking) == 0  # not yet
    await grow_old(world, line, DAY / 4)
    await all_due(looking)
    assert [backup.generation for backup in await recorded(world, line)] == [2, 1]


async def test_without_the_policy_what_waits_goes_on(world, looking):
    line = (await world.import_documents(CONTENTS, **AUTOMATIC)).line.line
    await finding(world)
    await world.work()
    await world.import_documents(CONTENTS, generation=2, review={"mode": "Automatic"})
    await world.work()
    assert await states(world) == [("published", "", 0)]
    assert await standing(world, line) is None
    assert await all_due(looking) == 0


async def test_a_backup_in_another_target_than_the_one_that_is_asked_for_does_not_count(world, looking):
    line = (await world.import_documents(CONTENTS, **AUTOMATIC)).line.line
    await all_due(looking)
    elsewhere = {"backup": {"policy": "BeforePublish", "target": "elsewhere"}, "review": {"mode": "Automatic"}}
    await world.import_documents(CONTENTS, generation=2, **elsewhere)
    await finding(world)
    await world.work()
    assert await states(world) == [("publishing", "BackupAwaited", 0)]
    await all_due(looking)
    told = await standing(world, line)
    assert "no backup target 'elsewhere'; it has vault" in told.error


async def test_a_target_that_fails_is_tried_again_and_a_publication_waits_meanwhile(world, looking, vault):
    line = (await world.import_documents(CONTENTS, **AUTOMATIC)).line.line
    vault.rmdir()
    await finding(world)
    await world.work()
    await all_due(looking)
    told = await standing(world, line)
    assert f"There is no folder {vault}" in told.error
    assert told.failing_since is not None
    assert list(vault.parent.iterdir()) == []  # it is not filled where the volume should be
    vault.mkdir()
    async with world.db.connection() as conn:
        assert await conn.fetchval("SELECT due_at > now() AND claimed_until IS NULL FROM backup_turns")
        await conn.execute("UPDATE backup_turns SET due_at = now()")
    await all_due(looking)
    await world.work()
    assert await states(world) == [("published", "", 0)]
    assert (await standing(world, line)).error is None


async def test_two_operators_do_not_make_the_same_backup(world, vault):
    line = (await world.import_documents(CONTENTS, **BEFORE_PUBLISH)).line.line
    both = [turns(world.db, folder(vault)) for _ in range(2)]
    assert sorted(await asyncio.gather(*(each.look() for each in both))) == [False, True]
    assert len(await recorded(world, line)) == 1


class DeadError(Exception):
    """The process ends here."""


@pytest.mark.parametrize("after", [0, 1, 2])
async def test_dying_after_any_step_leaves_no_half_backup_and_the_next_operator_makes_one(
    world, looking, vault, after, monkeypatch
):
    line = (await world.import_documents(CONTENTS, **AUTOMATIC)).line.line
    await finding(world)
    await world.work()
    put, steps = Folder.put, []

    async def dying(self, place, file):
        if len(steps) == after:
            raise DeadError
        steps.append(place)
        await put(self, place, file)

    async def record(*_args, **_more):
        raise DeadError

    async with world.db.connection() as conn:
        turn = await backups.claim(conn, hold=timedelta())  # and its lease is over at once
    with monkeypatch.context() as patch:
        patch.setattr(Folder, "put", dying)
        patch.setattr(backups, "record", record)
        with pytest.raises(DeadError):
            await making.make(world.db, line=line, name="vault", target=folder(vault).archives("vault"), turn=turn)
    assert await recorded(world, line) == []
    listed = await restoring.listed(folder(vault).archives("vault"), namespace="platform", name="facts")
    assert len(listed) == (after == 2)
    await all_due(looking)
    await world.work()
    assert await states(world) == [("published", "", 0)]
    for each in await restoring.listed(folder(vault).archives("vault"), namespace="platform", name="facts"):
        await restoring.check(folder(vault).archives("vault"), place=each.place)


async def test_a_backup_that_is_recorded_while_a_job_looks_for_one_is_not_missed(world, looking, monkeypatch):
    line = (await world.import_documents(CONTENTS, **AUTOMATIC)).line.line
    await finding(world)
    advance, once = leases.advance, []

    async def late(conn, **more):
        if more.get("reason") == "BackupAwaited" and not once:
            once.append(await all_due(looking))
        return await advance(conn, **more)

    monkeypatch.setattr(leases, "advance", late)
    await world.work()
    assert once == [1]
    assert await states(world) == [("published", "", 0)]
    assert (await world.contents(line))["new"] == '"found"'


async def test_what_stands_in_a_folder_under_its_name_is_whole(tmp_path, vault, monkeypatch):
    target, file = folder(vault).archives("vault"), tmp_path / "file"
    file.write_bytes(b"x" * 100)
    await target.put("team/facts/one", file)
    monkeypatch.setattr("shutil.copyfileobj", lambda _source, copy: copy.write(b"half") and 1 / 0)
    with pytest.raises(ZeroDivisionError):
        await target.put("team/facts/two", file)
    assert await target.places("team/") == ["team/facts/one"]
    assert [path.name for path in vault.rglob("*") if path.is_file()] == ["one"]


async def test_a_folder_that_cannot_be_written_to_says_why(tmp_path, vault, monkeypatch):
    def full(*_args):
        raise OSError(28, "No space left on device")

    file = tmp_path / "file"
    file.touch()
    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(TargetError, match="No space left on device"):
        await folder(vault).archives("vault").put("team/facts/one", file)
