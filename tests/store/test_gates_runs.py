"""Gate 5a of the proposal, as far as leases go: what a silent agent leaves is all there, and its peers see it."""

from __future__ import annotations

from tests.store.world import AUTOMATIC, World

from anabranch.branches import checkpoints, following, layers, presence, private
from anabranch.domain.cursor import Sealer
from anabranch.feed.cursor import Position, seal
from anabranch.model.answers import ViewedRecord
from anabranch.model.runs import Capsule, CheckpointWrite, PresenceWrite
from anabranch.store import branches

SEALER = Sealer([b"k" * 32])


async def test_gate_5a_lease_expiry_preserves_private_work_and_exposes_stale_peers_accurately(db):
    world = World(db)
    await world.import_documents({"a": "first"}, **AUTOMATIC)
    silent, other = await world.apply_branch("silent"), await world.apply_branch("other")
    await world.submit(other, 1, {"key": "b", "content": "found"})
    await world.work()

    async def note(content):
        return await private.put(
            db, branch=silent, key="mine", content=content, scope="shared", visibility=None, expected=None,
            readable=["shared"],
        )  # fmt: skip

    async def seen(key):
        seen = await layers.view(db, silent, key, layer="merged", scopes=["shared"])
        return ViewedRecord.model_validate_json(seen).content

    async def states():
        found = await presence.peers(db, SEALER, line=silent.line, states=None, after="", limit=10)
        return {peer.agent_id: peer.state for peer in found}

    for branch in (silent, other):
        await presence.renew(db, SEALER, branch=branch, write=PresenceWrite())
    await note("half a thought")
    await following.save(db, SEALER, branch=silent, cursor=seal(SEALER, silent.line, Position(1, 1)))
    kept, _ = await checkpoints.keep(
        db, branch=silent, checkpoint_id="one", write=CheckpointWrite(capsule=Capsule(goal="go on"))
    )
    await world.submit(silent, 1, {"key": "c", "content": "found in time"})
    await presence.settle(db)
    assert await states() == {"silent": "active", "other": "active"}

    async with db.connection() as conn:
        await conn.execute(
            "UPDATE presence SET lease_deadline = now() - interval '1 s', due_at = now() WHERE branch_id = $1",
            silent.branch_id,
        )
    await presence.settle(db)

    assert await states() == {"silent": "stale", "other": "active"}
    async with db.connection() as conn:
        assert (await branches.get(conn, silent.branch_id)).phase == "Stale"
    assert (await seen("mine"), await seen("b"), await seen("a")) == ("half a thought", "found", "first")
    assert (await following.place(db, SEALER, branch=silent)).sequence == 1
    assert await checkpoints.find(db, branch=silent, checkpoint_id="one") == kept
    await world.work()
    assert (await world.contents(silent.line))["c"] == '"found in time"', "what it handed in goes its way"

    await note("the rest of it")
    await world.submit(silent, 2, {"key": "d", "content": "found late"})
    await world.work()
    assert await states() == {"silent": "stale", "other": "active"}, "only a lease makes it active, whatever comes in"
    await presence.renew(db, SEALER, branch=silent, write=PresenceWrite())
    assert await states() == {"silent": "active", "other": "active"}
