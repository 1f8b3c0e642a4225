"""Checkpoints of a key-value namespace: each once, in the order of its session, and a checkpoint of the branch too."""

from __future__ import annotations

import asyncio

import pytest
from tests.store.branching import new_branch

from anabranch.kv import checkpoints, records
from anabranch.model.errors import ConflictError, InvalidInputError, NotFoundError, QuotaExceededError
from anabranch.model.kv import KvCheckpointRequest
from anabranch.store import checkpoints as of_branches

CAPSULE = {
    "goal": "Ship",
    "summary": "Decided",
    "constraints": ["No keys in logs"],
    "decisions": [],
    "open_tasks": ["Measure"],
    "next_action": "Measure it",
}


@pytest.fixture
async def branch(db):
    return await new_branch(db)


class Session:
    def __init__(self, db, branch, name="session"):
        self.db, self.branch, self.name = db, branch, name

    async def save(self, key, *, after=None, capsule=CAPSULE, references=(), agent="agent"):
        request = KvCheckpointRequest.model_validate(
            {
                "id": key,
                "agent_id": agent,
                "session_id": self.name,
                "expected_latest_revision": after,
                "capsule": capsule,
                "references": references,
            }
        )
        return await checkpoints.save(self.db, self.branch, namespace="checkpoints", request=request)

    async def restore(self, key, max_bytes=32_768):
        return await checkpoints.restore(
            self.db, self.branch, namespace="checkpoints", checkpoint_id=key, max_bytes=max_bytes
        )

    async def latest(self):
        return await checkpoints.restore_latest(
            self.db, self.branch, namespace="checkpoints", agent_id="agent", session_id=self.name, max_bytes=32_768
        )

    async def delete(self, key):
        await checkpoints.delete(self.db, self.branch, namespace="checkpoints", checkpoint_id=key)

    async def put(self, key, raw):
        return await records.put(
            self.db, self.branch, namespace="knowledge", key=key, raw=raw, ttl_seconds=None, expected=None, readable=()
        )

    async def stats(self):
        return await records.stats(self.db, self.branch, namespace="checkpoints")


@pytest.fixture
def session(api_db, branch):
    return Session(api_db, branch)


async def test_a_checkpoint_is_restored_by_its_id_and_as_its_sessions_latest(session):
    first = await session.save("cp-1")
    assert (first.revision, first.latest_revision, first.is_latest) == (1, 2, True)
    assert first.locator == "instantkv://checkpoints/checkpoints/cp-1"
    second = await session.save("cp-2", after=2, capsule={**CAPSULE, "summary": "Measured"})
    assert (second.revision, second.latest_revision) == (3, 4)
    latest = await session.latest()
    assert (latest.checkpoint_id, latest.latest_revision, latest.capsule.summary) == ("cp-2", 4, "Measured")
    old = await session.restore("cp-1")
    assert (old.revision, old.latest_revision, old.capsule.model_dump(mode="json")) == (1, 4, CAPSULE)
    assert (await session.stats()).entries == 3, "two checkpoints and the place of the latest"


async def test_it_is_a_checkpoint_of_the_branch_that_findings_can_cite(session, branch):
    await session.save("cp-1")
    async with session.db.connection() as conn:
        row = await of_branches.require(
            conn, line=branch.line, branch_id=branch.branch_id, checkpoint_id="checkpoints.cp-1"
        )
    assert row.session_id == "agent.session"


async def test_the_same_again_is_the_same_checkpoint_and_does_not_turn_back_the_session(session):
    first = await session.save("cp-1")
    assert await session.save("cp-1") == first
    await session.save("cp-2", after=2)
    again = await session.save("cp-1")
    assert (again.revision, again.latest_revision, again.is_latest) == (1, 4, False)
    with pytest.raises(ConflictError, match="another content"):
        await session.save("cp-1", capsule={**CAPSULE, "goal": "Stop"})
    assert (await session.latest()).checkpoint_id == "cp-2"


async def test_of_two_instances_that_go_on_from_the_same_checkpoint_one_does(session):
    await session.save("cp-1")
    answers = await asyncio.gather(
        *(session.save(f"cp-2-{number}", after=2) for number in range(4)), return_exceptions=True
    )
    assert [isinstance(answer, ConflictError) for answer in answers].count(True) == 3
    with pytest.raises(ConflictError, match="at revision 4, not none"):
        await session.save("cp-9")
    other = Session(session.db, session.branch, "other")
    with pytest.raises(ConflictError, match="at revision none, not 2"):
        await other.save("cp-3", after=2)
    assert (await other.save("cp-3")).is_latest


async def test_an_old_checkpoint_is_deleted_its_id_is_not_given_again_and_the_latest_stays(session, branch):
    await session.save("cp-1")
    before = await session.stats()
    await session.save("cp-2", after=2)
    with pytest.raises(ConflictError, match="latest"):
        await session.delete("cp-2")
    await session.delete("cp-1")
    for gone in (session.restore("cp-1"), session.delete("cp-1"), session.restore("cp-3")):
        with pytest.raises(NotFoundError):
            await gone
    with pytest.raises(ConflictError, match="was deleted"):
        await session.save("cp-1")
    after = await session.stats()
    size = len(b',"expected_latest_revision":2') - len(b',"expected_latest_revision":null')
    assert (after.entries, after.bytes - before.bytes, after.revision) == (before.entries, size, 4)


async def test_what_a_checkpoint_stands_on_is_available_stale_or_missing(session):
    kept = await session.put("kept", b"1")
    changed = await session.put("changed", b"1")
    await session.put("changed", b"2")
    references = [
        {"namespace": "knowledge", "key": "kept", "revision": kept.revision},
        {"namespace": "knowledge", "key": "changed", "revision": changed.revision},
        {"namespace": "knowledge", "key": "never", "revision": 1},
    ]
    await session.save("cp-1", references=references)
    found = (await session.restore("cp-1")).references
    assert [(reference.key, reference.status) for reference in found] == [
        ("kept", "available"),
        ("changed", "stale"),
        ("never", "missing"),
    ]


async def test_a_capsule_that_says_too_little_or_too_much_is_refused_and_nothing_is_counted(session):
    for wrong in ({"next_action": " "}, {"summary": ""}, {"constraints": ["x" * 16_400]}):
        with pytest.raises(InvalidInputError):
            await session.save("cp-1", capsule={**CAPSULE, **wrong})
    assert (await session.stats()).revision == 0
    await session.save("cp-1")
    with pytest.raises(InvalidInputError, match="max_bytes"):
        await session.restore("cp-1", max_bytes=100)


async def test_a_branch_holds_so_many_checkpoints(session, monkeypatch):
    monkeypatch.setattr(of_branches, "CHECKPOINTS_BRANCH", 1)
    await session.save("cp-1")
    with pytest.raises(QuotaExceededError):
        await session.save("cp-2", after=2)
    assert (await session.stats()).revision == 2
