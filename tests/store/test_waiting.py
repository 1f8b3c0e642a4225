"""Resources that wait for a Baseline, a Branch or a grant."""

from __future__ import annotations

from datetime import timedelta

from anabranch.store import waiting

WHERE = {"namespace": "agents", "kind": "Branch", "name": "run-1"}


async def wait(conn, **values) -> waiting.WaitingRow:
    return await waiting.upsert(
        conn,
        **WHERE
        | {
            "uid": "uid-1",
            "observed_generation": 1,
            "condition": "Reconciling",
            "reason": "BaselineUnavailable",
            "message": "There is no such Baseline.",
            "needs_namespace": "team",
            "needs_name": "facts",
            "due_in": timedelta(minutes=1),
        }
        | values,
    )


async def test_the_same_wait_counts_attempts_without_a_new_status(db):
    async with db.connection() as conn:
        first, again = await wait(conn), await wait(conn)
        assert await waiting.get(conn, **WHERE) == again
    assert (first.attempt, again.attempt, again.version) == (0, 1, first.version)


async def test_another_wait_begins_anew(db):
    async with db.connection() as conn:
        await wait(conn)
        edited = await wait(conn, observed_generation=2)
        moved = await wait(conn, needs_name="other")
        replaced = await wait(conn, needs_name="other", uid="uid-2")
    assert (edited.attempt, edited.version) == (1, 2)
    assert (moved.attempt, moved.version) == (0, 3)
    assert (replaced.attempt, replaced.version) == (0, 4)


async def test_a_resource_is_due_when_its_time_comes_or_what_it_needs_does(db):
    async with db.connection() as conn:
        await wait(conn)
        await wait(conn, name="run-2", due_in=None)
        await wait(conn, name="run-3", due_in=timedelta(0))
        await wait(conn, name="run-4", needs_name="other")
        assert [row.name for row in await waiting.due(conn, limit=9)] == ["run-3"]
        assert await waiting.wake(conn, needs_namespace="team", needs_name="facts") == 3
        assert sorted(row.name for row in await waiting.due(conn, limit=9)) == ["run-1", "run-2", "run-3"]


async def test_what_waits_no_more_is_forgotten_unless_another_took_its_name(db):
    async with db.connection() as conn:
        await wait(conn, uid="uid-2")
        await waiting.delete(conn, **WHERE, uid="uid-1")
        assert await waiting.get(conn, **WHERE) is not None
        await waiting.delete(conn, **WHERE, uid="uid-2")
        assert await waiting.get(conn, **WHERE) is None
        await wait(conn)
        await waiting.delete(conn, **WHERE)
        assert await waiting.get(conn, **WHERE) is None
