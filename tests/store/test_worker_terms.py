"""On which terms a replica is kept: what a grant had let in goes with the grant, and what is the agent's own stays."""

from __future__ import annotations

import time

import pytest
from tests.store.building import version
from tests.store.working import CONTENTS, contents, finding
from tests.store.world import TEAM

from anabranch.client.worker import ReplicaPurgedError
from anabranch.identity import grants
from anabranch.model.errors import ForbiddenError, NotFoundError, UnavailableError

REFUSED = (ForbiddenError, NotFoundError)


async def rows(worker):
    """How many rows of downloaded content the file has."""
    tables = ("base", "shared", "arrivals", "inbox")
    return await worker._file.read(
        lambda db: sum(db.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in tables)
    )


@pytest.fixture
async def worker(place):
    """A worker with records of its own and of others in every layer."""
    worker = await place.open()
    await worker.sync()
    await worker.write("mine", "my own")
    await place.publish(version("a", "changed"), version("build", 1, scope="team/build"))
    await worker.sync()
    await worker.submit(finding("found", 1))
    return worker


@pytest.mark.parametrize("grant", [grants.SEE_BASELINE, grants.READ_RECORDS, grants.FOLLOW_EVENTS])
async def test_a_replica_goes_with_its_grant_and_comes_back_with_it(place, worker, grant):
    place.served.world.permissions.deny(grant)
    with pytest.raises(REFUSED):
        await worker.sync()
    assert await rows(worker) == 0
    with pytest.raises(ReplicaPurgedError):
        await worker.read("a")
    with pytest.raises(ReplicaPurgedError):
        await contents(worker)
    assert (await worker.read("mine")).content == "my own"
    assert (await worker.status()).purged
    with pytest.raises(REFUSED):
        await worker.sync()
    place.served.world.permissions.give_back()
    await worker.sync()
    assert await contents(worker) == {**CONTENTS, "a": "changed", "build": 1, "mine": "my own"}
    status = await worker.status()
    assert (status.purged, status.waiting, status.unsaved) == (None, 0, 0)


@pytest.mark.parametrize("more", [(), (grants.READ_RECORDS,), (grants.SEE_BASELINE, grants.READ_RECORDS)])
async def test_an_agent_that_does_not_even_see_its_branch_keeps_what_it_may_read(place, worker, more):
    for grant in (grants.SEE_BRANCH, *more):
        place.served.world.permissions.deny(grant)
    with pytest.raises(REFUSED):
        await worker.sync()
    assert (await rows(worker) == 0) is bool(more)
    assert (await worker.read("mine")).content == "my own"


async def test_what_was_purged_cannot_be_found_in_the_file_any_more(place, worker, tmp_path):
    await place.publish(version("secret", "a sentence that nobody else would write"))
    await worker.sync()
    assert any(b"nobody else would write" in file.read_bytes() for file in tmp_path.iterdir())
    place.served.world.permissions.deny(grants.READ_RECORDS)
    with pytest.raises(REFUSED):
        await worker.sync()
    assert not any(b"nobody else would write" in file.read_bytes() for file in tmp_path.iterdir())


async def test_a_scope_that_is_not_readable_any_more_goes_alone(place, worker):
    place.served.world.permissions.deny(grants.SCOPE_READ, name="team/build")
    await worker.sync()
    assert await contents(worker) == {**CONTENTS, "a": "changed", "mine": "my own"}
    assert (await worker.status()).purged is None


async def test_a_branch_whose_fork_was_revoked_keeps_no_replica(place, worker):
    place.served.world.permissions.deny(grants.FORK)
    await place.served.resources.reconcile("run")
    with pytest.raises(ForbiddenError):
        await worker.sync()
    assert await rows(worker) == 0


async def test_a_baseline_may_let_a_replica_be_kept(place, worker):
    await place.declare(retention={"replica": {"onRevoke": "Keep"}})
    await worker.sync()
    place.served.world.permissions.deny(grants.READ_RECORDS)
    with pytest.raises(REFUSED):
        await worker.sync()
    assert (await worker.read("a")).content == "changed"


@pytest.mark.parametrize("at", ["a read", "the next start"])
async def test_a_replica_that_was_not_seen_to_be_granted_for_too_long_goes_even_offline(place, worker, monkeypatch, at):
    await place.declare(retention={"replica": {"maxAge": "1h"}})
    await worker.sync()
    await place.served.stop()
    now = time.time()
    monkeypatch.setattr("anabranch.client.worker.layers.time.time", lambda: now + 3_500)
    with pytest.raises(UnavailableError):
        await worker.sync()
    assert (await worker.read("a")).content == "changed"
    monkeypatch.setattr("anabranch.client.worker.layers.time.time", lambda: now + 3_700)
    if at == "a read":
        with pytest.raises(ReplicaPurgedError, match="3600 s"):
            await worker.read("a")
    else:
        worker = await place.reopen(worker)
    assert await rows(worker) == 0
    assert (await worker.read("mine")).content == "my own"
    await place.served.start()
    await worker.sync()
    assert (await worker.read("a")).content == "changed"


async def test_a_clock_that_was_set_back_does_not_lengthen_the_terms(worker, monkeypatch):
    now = time.time()
    monkeypatch.setattr("anabranch.client.worker.layers.time.time", lambda: now - 86_400)
    with pytest.raises(ReplicaPurgedError):
        await worker.read("a")


async def test_the_api_tells_the_terms(place, worker):
    await place.declare(retention={"replica": {"maxAge": "2d", "onRevoke": "Keep"}})
    terms = (await worker._client.baseline(TEAM, "facts")).replica
    assert (terms.max_age_seconds, terms.on_revoke) == (172_800, "Keep")
