"""A move to another parent: only when the agent says so, with its own records kept and what they contradict listed."""

from __future__ import annotations

import pytest
from tests.store.building import version
from tests.store.working import CONTENTS, contents, finding

from anabranch.client.worker import Follow, snapshot
from anabranch.model.errors import NotFoundError, UnavailableError


async def move(place, worker, generation):
    """Somebody moves the branch; the worker hears of it."""
    await place.served.resources.change("run", rebase={"toGeneration": generation})
    await worker.sync()


@pytest.fixture
async def worker(place):
    """A worker of generation 1 with records of its own, which has followed to generation 3."""
    worker = await place.open()
    await worker.sync()
    await worker.write("a", "mine")
    await worker.write("c", "mine")
    await place.publish(version("a", "second"), version("b"))
    await place.publish(version("new", 1))
    await worker.sync()
    return worker


async def base(worker, key):
    return (await worker.read(key, layer="base")).content


async def shared(worker):
    return await worker._file.read(lambda db: [row["key"] for row in db.execute("SELECT key FROM shared ORDER BY key")])


async def test_a_moved_branch_is_read_as_before_until_the_agent_rebases(place, worker):
    before = await contents(worker)
    await move(place, worker, 2)
    status = await worker.status()
    assert (status.generation, status.rebase_to) == (1, 2)
    assert await base(worker, "a") == "one"
    assert await contents(worker) == before
    (conflict,) = await worker.rebase()
    assert (conflict.key, conflict.base_revision, conflict.shown_revision) == ("a", "1", "2")
    status = await worker.status()
    assert (status.generation, status.rebase_to) == (2, None)
    assert await base(worker, "a") == "second"
    with pytest.raises(NotFoundError):
        await worker.read("b", layer="base")
    assert await contents(worker) == before, "what was followed beyond the new parent is still followed"
    assert await shared(worker) == ["new"]
    await place.publish(version("new", 2))
    assert (await worker.sync()).received == 1
    assert (await worker.read("new")).content == 2


async def test_a_parent_ahead_of_what_was_applied_is_followed_from_there(place, worker):
    worker.follow = Follow.HOLD
    await place.publish(version("a", "third"))
    await worker.sync()
    assert len(await worker.held()) == 1
    await move(place, worker, 4)
    await worker.rebase()
    assert await base(worker, "a") == "third"
    assert await shared(worker) == []
    assert await worker.held() == []
    await place.publish(version("d", 1))
    assert (await worker.sync()).received == 1
    assert await worker.apply() == 1
    assert (await worker.read("d")).content == 1


async def test_a_rebase_that_breaks_off_leaves_the_old_parent_and_is_gone_on_with(place, worker, monkeypatch):
    await move(place, worker, 3)
    monkeypatch.setattr(snapshot, "PAGE_MAX", 1)
    get, asked = worker._client.get, []

    async def breaks(kind, path, *, query=None, wait=0.0):
        if path.endswith("/records"):
            asked.append(query["cursor"])
            if len(asked) == 2:
                raise UnavailableError("The API went away.")
        return await get(kind, path, query=query, wait=wait)

    monkeypatch.setattr(worker._client, "get", breaks)
    with pytest.raises(UnavailableError):
        await worker.rebase()
    assert (await worker.status()).generation == 1
    assert await base(worker, "a") == "one"
    await worker.rebase()
    assert asked[1] == asked[2]
    assert await base(worker, "a") == "second"
    assert await base(worker, "new") == 1


async def test_a_rebase_under_a_pin_shows_what_is_current(place, worker):
    await place.declare(pin={"generation": 1})
    await worker.sync()
    await move(place, worker, 3)
    await worker.rebase()
    await worker.sync()
    assert await base(worker, "new") == 1
    assert await contents(worker) == {**CONTENTS, "a": "mine", "c": "mine"}
    assert (await worker.read("b", layer="shared")).content == "two"


async def test_a_finding_about_a_conflicting_record_still_says_what_it_was_based_on(place, worker):
    await move(place, worker, 3)
    await worker.rebase()
    await worker.submit(finding("a", "mine"), finding("b", "again"))
    await worker.sync()
    await place.served.world.work()
    outcomes = await place.served.world.outcomes()
    assert outcomes["a"] == [("waiting", "BaseRevisionSuperseded")]
    assert outcomes["b"] == [("published", "")]


async def test_a_record_that_says_what_the_new_parent_says_is_based_on_it_from_then_on(place, worker):
    worker.follow = Follow.OFF
    await worker.write("b", "the same")
    await place.publish(version("b", "the same"))
    await move(place, worker, 4)
    await worker.rebase()
    await worker.write("b", "more than that")
    record = await worker.read("b")
    assert record.base_revision == (await worker.read("b", layer="base")).revision == "4"
    assert [one.key for one in await worker.conflicts()] == ["a"]


async def test_without_a_move_a_rebase_changes_nothing(worker):
    before = await contents(worker)
    assert [one.key for one in await worker.rebase()] == ["a"]
    assert await contents(worker) == before
