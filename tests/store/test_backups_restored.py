"""The restore drill: the database is lost, a line comes back from its backup, and everybody finds their way."""

from __future__ import annotations

import secrets

import pytest
from tests.store.backing import AUTOMATIC, all_due, folder, turns
from tests.store.building import publish_versions, version
from tests.store.conftest import addresses
from tests.store.served import serving
from tests.store.world import TEAM

from anabranch.archive import ArchiveDigestError
from anabranch.backup import restoring
from anabranch.backup.description import BackupDescription
from anabranch.devcluster import databases
from anabranch.devcluster.stack import TEMPORARY
from anabranch.model.errors import ConflictError, DigestMismatchError, GoneError, NotFoundError
from anabranch.search import indexing
from anabranch.store import database as store
from anabranch.store import lines, reviving
from anabranch.store import restoring as restores_within

CONTENTS = {"a": "one", "b": "two", "c": "three"}
KEY = secrets.token_bytes(16)


@pytest.fixture
def vault(tmp_path):
    path = tmp_path / "vault"
    path.mkdir()
    return folder(path).archives("vault")


@pytest.fixture
async def another(postgres_server, template, role_passwords):
    """A new, empty database."""
    name = f"test_{secrets.token_hex(6)}"
    await databases.create(postgres_server.dsn, name, owner=TEMPORARY, template=template.name)
    yield addresses(postgres_server.dsn, name, role_passwords)
    await databases.drop(postgres_server.dsn, name)


@pytest.fixture
async def afresh(another):
    """That database, as the operator sees it."""
    opened = await store.Database.open(another.operator, application_name="test operator")
    yield opened
    await opened.close()


@pytest.fixture
async def before(db, database, tmp_path, vault):
    """A Baseline with a past, and a backup of its fourth generation."""
    async with serving(db, database.api, cursor_key=KEY) as served:
        world = served.world
        served.line = (await world.import_documents(CONTENTS, **AUTOMATIC)).line.line
        await publish_versions(db, served.line, version("b"), version("secret/key", "sesame", scope="team/red"))
        await publish_versions(db, served.line, version("a", "changed", run="run_x"))
        await restores_within.restore(db, line=served.line, generation=3, restore_id="once")
        await all_due(turns(db, folder(tmp_path / "vault")))
        served.place = await restoring.newest(vault, namespace=TEAM, name="facts")
        yield served


async def events(following, count):
    return [(await anext(following)) for _ in range(count)]


async def head(db, line):
    async with db.connection() as conn:
        return await lines.head(conn, line)


async def test_a_restored_line_has_the_same_roots_and_records_and_its_clients_recover(
    before, db, afresh, another, vault
):
    client = await before.client()
    manifest = await client.manifest(TEAM, "facts")
    facts = [fact async for fact in client.records(TEAM, "facts", "current", tombstones=True)]
    following = client.follow(TEAM, "facts", poll=True)
    cursor = (await events(following, 4))[-1].cursor
    await following.aclose()
    # What comes after the backup is lost, and clients have seen it.
    await publish_versions(db, before.line, version("lost", "gone"))
    following = client.follow(TEAM, "facts", after=cursor, poll=True)
    lost = (await anext(following)).cursor
    await following.aclose()
    old = await head(db, before.line)

    await restoring.restore(afresh, vault, place=before.place, root=manifest.manifest_hash)
    async with serving(afresh, another.api, cursor_key=KEY) as after:
        state = await after.world.import_documents(CONTENTS, **AUTOMATIC)  # as the operator finds it in the cluster
        assert (state.line.line, state.line.uid, state.head.head_generation) == (before.line, "uid-of-facts", 4)
        assert await after.world.check_roots(before.line) == 1
        client = await after.client()
        assert (await client.manifest(TEAM, "facts")).model_dump(exclude={"parent_id"}) == manifest.model_dump(
            exclude={"parent_id"}
        )
        assert [fact async for fact in client.records(TEAM, "facts", "current", tombstones=True)] == facts
        assert await after.world.jobs() == []  # its source is what was imported
        for place in (cursor, lost):
            following = client.follow(TEAM, "facts", after=place, poll=True)
            with pytest.raises(GoneError) as caught:
                await anext(following)
            assert caught.value.code == "CursorExpired"
            assert caught.value.extra["snapshot"]["manifest_hash"] == manifest.manifest_hash
        assert state.head.epoch > old.epoch
        # The generation's number is given again; its revisions are not, nor is anything of the old feed taken for new.
        again = await publish_versions(afresh, before.line, version("found", "anew"))
        assert again.generation == old.head_generation
        assert again.revision > old.revision + 1_000
        following = client.follow(TEAM, "facts", after=caught.value.extra["cursor"], poll=True)
        followed = await anext(following)
        await following.aclose()
        assert (followed.event.key, followed.event.revision) == ("found", str(again.revision))
        assert await after.world.check_roots(before.line) == 2
        while await indexing.turn(afresh):
            pass
        assert [hit.key for hit in (await client.search(TEAM, "facts", "anew")).items] == ["found"]
        assert [hit.key for hit in (await client.search(TEAM, "facts", "changed")).items] == ["a"]


async def test_a_restore_that_has_acted_does_not_act_again(before, afresh, vault):
    await restoring.restore(afresh, vault, place=before.place)
    told = await restores_within.restore(afresh, line=before.line, generation=3, restore_id="once")
    assert (told.from_generation, told.generation) == (3, 4)
    assert (await head(afresh, before.line)).head_generation == 4


async def test_a_line_that_is_there_is_not_overwritten(before, db, vault):
    with pytest.raises(ConflictError, match="is there"):
        await restoring.restore(db, vault, place=before.place, replace=True)


async def test_a_baseline_that_has_begun_anew_keeps_that_line_aside(before, afresh, another, vault):
    async with serving(afresh, another.api) as after:
        anew = (await after.world.import_documents(CONTENTS)).line.line
        with pytest.raises(ConflictError, match="has begun anew"):
            await restoring.restore(afresh, vault, place=before.place)
        await restoring.restore(afresh, vault, place=before.place, replace=True)
        state = await after.world.import_documents(CONTENTS, generation=2)
        assert state.line.line == before.line
        assert (await head(afresh, anew)).head_generation == 1
        assert await after.world.contents(anew) == {key: f'"{text}"' for key, text in CONTENTS.items()}


async def test_in_a_namespace_that_was_made_again_the_line_has_to_be_named(before, afresh, another, vault):
    await restoring.restore(afresh, vault, place=before.place)
    async with serving(afresh, another.api) as after:
        kube = after.world.kube

        async def other(_kind, *, name):
            return {"metadata": {"name": name, "uid": "made-again"}}

        kube.get = other
        assert await after.world.import_documents(CONTENTS) is None
        assert await after.world.waits("Baseline", "facts", namespace=TEAM) == "AdoptionRequired"
        state = await after.world.import_documents(CONTENTS, generation=2, adopt={"lineId": before.line})
        assert state.line.line == before.line


async def altered(target, tmp_path, place, change):
    """Change a description, as somebody could who may write to the target."""
    file = tmp_path / "description"
    await target.get(place, file)
    about = BackupDescription.parse(file.read_bytes())
    file.write_bytes(change(about).encode())
    await target.put(place, file)


async def test_a_backup_that_was_altered_is_refused_and_nothing_is_written(before, afresh, vault, tmp_path):
    about = await restoring.check(vault, place=before.place)
    file = tmp_path / "archive"
    await vault.get(about.archive.place, file)
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    await vault.put(about.archive.place, file)
    with pytest.raises(DigestMismatchError, match="is not what its description names"):
        await restoring.restore(afresh, vault, place=before.place)
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    await vault.put(about.archive.place, file)
    await altered(
        vault,
        tmp_path,
        before.place,
        lambda about: about.model_copy(update={"manifest": about.manifest.model_copy(update={"records": 99})}),
    )
    with pytest.raises(DigestMismatchError, match="do not lead to its manifest's root"):
        await restoring.restore(afresh, vault, place=before.place)
    with pytest.raises(DigestMismatchError, match="not sha256:0000"):
        await restoring.restore(afresh, vault, place=before.place, root="sha256:" + "0" * 64)
    other = about.manifest.model_copy(update={"manifest_hash": "sha256:" + "1" * 64})
    await altered(vault, tmp_path, before.place, lambda about: about.model_copy(update={"manifest": other}))
    with pytest.raises(ArchiveDigestError):
        await restoring.restore(afresh, vault, place=before.place)
    with pytest.raises(NotFoundError):
        await head(afresh, before.line)


async def test_after_the_database_was_set_back_as_a_whole_every_follower_begins_anew(before, db):
    client = await before.client()
    following = client.follow(TEAM, "facts", poll=True)
    cursor = (await events(following, 4))[-1].cursor
    await following.aclose()
    assert await reviving.renew_epochs(db) == 1
    following = client.follow(TEAM, "facts", after=cursor, poll=True)
    with pytest.raises(GoneError):
        await anext(following)
    again = await publish_versions(db, before.line, version("new", "one"))
    assert again.generation == 5
    assert again.revision > reviving.JUMP
    await before.world.check_roots(before.line)
