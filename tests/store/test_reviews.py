"""Reviews: nothing is ever erased, and the latest of each reviewer counts."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import asyncpg
import pytest
from tests.store.branching import digest, new_job

from anabranch.store import reviews


def decision(reviewer: str = "ada", candidate: str = "cand-1", action: str = "accept") -> reviews.Decision:
    return reviews.Decision(
        candidate_id=candidate,
        reviewer=reviewer,
        content_hash=digest("seen"),
        base_revision=3,
        action=action,
        reason="sound",
    )


def told(rows: list[reviews.ReviewRow]) -> list[tuple[str, str, str]]:
    return sorted((row.candidate_id, row.reviewer, row.action) for row in rows)


async def append(db, job, *decisions: reviews.Decision) -> None:
    async with db.connection() as conn:
        await reviews.append(conn, line=job.line, job_id=job.job_id, decisions=decisions)


async def sync(db, job, generation: int, *decisions: reviews.Decision) -> bool:
    async with db.connection() as conn:
        return await reviews.sync_resource(
            conn, line=job.line, job_id=job.job_id, observed_generation=generation, decisions=decisions
        )


async def effective(db, job) -> list[tuple[str, str, str]]:
    async with db.connection() as conn:
        return told(await reviews.effective(conn, line=job.line, job_id=job.job_id))


async def history(db, job) -> list[reviews.ReviewRow]:
    async with db.connection() as conn:
        return await reviews.history(conn, line=job.line, job_id=job.job_id)


async def test_the_latest_decision_of_a_reviewer_counts_and_all_are_kept(db):
    job = await new_job(db)
    await append(db, job, decision(), decision("bob"), decision(candidate="cand-2"))
    await append(db, job, decision(action="reject"))
    assert await effective(db, job) == [
        ("cand-1", "ada", "reject"),
        ("cand-1", "bob", "accept"),
        ("cand-2", "ada", "accept"),
    ]
    rows = await history(db, job)
    assert len(rows) == 4
    assert (rows[0].content_hash, rows[0].base_revision, rows[0].reason, rows[0].via) == (
        digest("seen"),
        3,
        "sound",
        "http",
    )


async def test_a_decision_that_is_taken_back_counts_no_more(db):
    job = await new_job(db)
    await append(db, job, decision(), decision("bob"))
    await append(db, job, decision(action="withdraw"))
    assert await effective(db, job) == [("cand-1", "bob", "accept")]


async def test_a_resources_decisions_are_taken_over_once(db):
    job = await new_job(db)
    assert await sync(db, job, 2, decision(), decision("bob"))
    assert not await sync(db, job, 2, decision(), decision("bob"))
    assert len(await history(db, job)) == 2


async def test_a_changed_decision_is_added_and_a_vanished_one_withdrawn(db):
    job = await new_job(db)
    await sync(db, job, 2, decision(), decision("bob"), decision("eve"))
    assert await sync(db, job, 3, decision(action="reject"), replace(decision("eve"), base_revision=4))
    assert await effective(db, job) == [("cand-1", "ada", "reject"), ("cand-1", "eve", "accept")]
    assert [row.action for row in await history(db, job)] == ["accept"] * 3 + ["reject", "accept", "withdraw"]
    assert await sync(db, job, 4), "deleting all of them withdraws all"
    assert await effective(db, job) == []
    assert await sync(db, job, 5, decision("bob")), "and a decision may be taken up again"
    assert await effective(db, job) == [("cand-1", "bob", "accept")]


async def test_an_operator_with_an_older_resource_brings_nothing_back(db):
    job = await new_job(db)
    await sync(db, job, 2, decision())
    await sync(db, job, 3)
    assert not await sync(db, job, 2, decision())
    assert await effective(db, job) == []


async def test_two_operators_that_sync_at_once_note_each_decision_once(db):
    job = await new_job(db)
    changed = await asyncio.gather(*(sync(db, job, 2, decision(), decision("bob")) for _ in range(6)))
    assert [len(noted) for noted in changed if noted] == [2]
    assert len(await history(db, job)) == 2


async def test_what_vanishes_from_a_resource_does_not_take_back_what_was_said_by_http(db):
    job = await new_job(db)
    await sync(db, job, 2, decision())
    await append(db, job, decision(action="reject"))
    assert await effective(db, job) == [("cand-1", "ada", "reject")]
    await sync(db, job, 3)
    assert await effective(db, job) == [("cand-1", "ada", "reject")]


async def test_what_was_said_by_http_goes_along_with_a_candidate_and_what_a_resource_says_stays(db):
    job, held = await new_job(db), "job-held"
    await sync(db, job, 2, decision("eve"), decision("bob"))
    await append(db, job, decision("bob", action="reject"), decision(candidate="cand-2"))
    await append(db, job, decision(), decision("carol"))
    await append(db, job, decision(action="reject"), decision("carol", action="withdraw"))
    async with db.connection() as conn:
        followed = await reviews.follow(conn, line=job.line, from_job=job.job_id, to_job=held, candidate_ids=["cand-1"])
        found = await reviews.effective(conn, line=job.line, job_id=held)
    assert (followed, told(found)) == (2, [("cand-1", "ada", "reject"), ("cand-1", "bob", "reject")])
    assert {row.at for row in found} <= {row.at for row in await history(db, job)}


async def test_the_api_may_add_reviews_and_change_none(db, api_db):
    job = await new_job(db)
    await append(api_db, job, decision())
    for statement in ("UPDATE reviews SET action = 'accept'", "DELETE FROM reviews"):
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            async with api_db.connection() as conn:
                await conn.execute(statement)
