"""The proposal's gates 5 and 5a, of agents that are away for a while, quoted and shown."""

from __future__ import annotations

import pytest
from tests.store.building import version
from tests.store.working import CONTENTS, contents, finding

from anabranch.client.worker import ReplicaPurgedError
from anabranch.identity import grants
from anabranch.model.errors import ForbiddenError, NotFoundError, UnavailableError
from anabranch.model.objects import Publication


async def test_gate_5_offline_reconnect_tombstones_revoked_grants_and_partial_baselines_behave_as_documented(place):
    """5. "Offline/reconnect, tombstones, revoked grants and partial baselines behave as documented"."""
    await place.publish(version("build", 1, scope="team/build"))
    permissions = place.served.world.permissions
    permissions.deny(grants.SCOPE_READ, name="team/build", account="ada")
    worker = await place.open()
    await worker.sync()
    assert await contents(worker) == CONTENTS, "a partial baseline: what its scopes show"

    await place.served.stop()
    await worker.write("mine", "written offline")
    await worker.submit(finding("found", "offline"))
    with pytest.raises(UnavailableError):
        await worker.sync()
    await place.publish(version("a"), version("build", 2, scope="team/build"))
    await place.served.start()
    await worker.sync()
    own = {"mine": "written offline"}
    assert await contents(worker) == {"b": "two", "c": "three", **own}, (
        "the tombstone came, and the other scope did not"
    )
    await place.served.world.work()
    assert isinstance(await worker.outcome(1), Publication)

    permissions.deny(grants.READ_RECORDS)
    with pytest.raises((ForbiddenError, NotFoundError)):
        await worker.sync()
    with pytest.raises(ReplicaPurgedError):
        await worker.read("b")
    assert (await worker.read("mine")).content == "written offline"


async def test_gate_5a_disconnect_replay_duplicate_events_and_expired_cursors_preserve_private_work(place, worker):
    """5a. "Disconnect/replay, duplicate events, expired cursors, … preserve private work …"."""
    await worker.write("a", "my own")
    own = {"a": "my own"}
    await place.publish(version("a", "second"), version("b", "second"))
    await worker.sync()
    worker = await place.reopen(worker)
    await worker._file.write(lambda db: db.execute("UPDATE run SET cursor = NULL"))
    assert (await worker.sync()).received == 0, "all of it comes again, and nothing of it is new"
    assert await contents(worker) == {**CONTENTS, "b": "second", **own}

    await place.publish(version("b"), version("new", 1))
    async with place.served.world.db.connection() as conn:
        await conn.execute("DELETE FROM events WHERE line = $1", place.line)
        await conn.execute("UPDATE line_heads SET event_floor = event_sequence WHERE line = $1", place.line)
    await worker.sync()
    assert await contents(worker) == {"c": "three", "new": 1, **own}
    assert (await worker.read("a", layer="shared")).content == "second"
    assert [conflict.key for conflict in await worker.conflicts()] == ["a"]
