"""Candidates: imported once, decided where they belong, shown with both sides."""

from __future__ import annotations

from dataclasses import replace

from tests.store import building
from tests.store.branching import candidate, claimed, digest, new_job

from anabranch.model.limits import CONTENT_BYTES, PAGE_BYTES
from anabranch.store import candidates, contents, openings


async def test_candidates_come_back_as_they_were_put_in(db):
    job = await new_job(db)
    rows = [candidate(job, n, origin_runs=("r1", "r2"), key=f"ключ-{n}") for n in range(3)]
    async with db.connection() as conn:
        await candidates.insert(conn, reversed(rows))
        assert await candidates.of_job(conn, line=job.line, job_id=job.job_id) == rows
        assert await candidates.get(conn, rows[1].candidate_id) == rows[1]


async def test_an_import_that_runs_twice_keeps_the_first_ids(db):
    job = await new_job(db)
    first, again = [candidate(job, n) for n in range(3)], [candidate(job, n) for n in range(4)]
    async with db.connection() as conn:
        await candidates.insert(conn, first)
        await candidates.insert(conn, again)
        found = await candidates.of_job(conn, line=job.line, job_id=job.job_id)
    assert found == [*first, again[3]]


async def test_outcomes_are_saved_for_the_job_that_still_has_the_candidate(db):
    job = await claimed(db)
    kept, moved = candidate(job, 0), candidate(job, 1)
    async with db.transaction() as conn:
        await candidates.insert(conn, [kept, moved])
        held = await openings.open_held(conn, job=job, counts={})
        where = {"line": job.line, "from_job": job.job_id, "to_job": held.job_id}
        assert await candidates.move(conn, **where, candidate_ids=[moved.candidate_id]) == 1
        assert await candidates.move(conn, **where, candidate_ids=[moved.candidate_id]) == 0
        outcome = {
            "state": "accepted",
            "conflicting": True,
            "reason": "Why",
            "detail": "because",
            "canonical_revision": 4,
            "canonical_hash": digest("theirs"),
            "sources": ({"locator": "x", "status": "verified", "detail": ""},),
            "origin_runs": ("r1", "r2"),
        }
        await candidates.save_outcomes(conn, [replace(kept, **outcome), replace(moved, **outcome)])
        assert await candidates.get(conn, kept.candidate_id) == replace(kept, **outcome)
        assert await candidates.get(conn, moved.candidate_id) == replace(moved, job_id=held.job_id)
        assert await candidates.of_job(conn, line=job.line, job_id=held.job_id) == [replace(moved, job_id=held.job_id)]


async def test_candidates_that_wait_are_found_by_key(db):
    job = await new_job(db)
    waiting, other, decided = (
        candidate(job, 0, key="a", state="waiting"),
        candidate(job, 1, key="b", state="waiting"),
        candidate(job, 2, key="a", state="rejected"),
    )
    async with db.connection() as conn:
        await candidates.insert(conn, [waiting, other, decided])
        assert await candidates.waiting_on_keys(conn, line=job.line, keys=["a", "c"]) == [waiting]


async def test_a_reviewer_sees_both_sides(db):
    job = await new_job(db)
    await building.publish_versions(db, job.line, building.version("b", {"text": "theirs"}, scope="team/x"))
    body = b'{"text":"mine"}'
    conflict = candidate(
        job, 0, key="b", content_hash=digest("mine"), canonical_revision=2, canonical_hash=digest("x"), state="waiting"
    )
    new, deletion = candidate(job, 1, key="new"), candidate(job, 2, key="a", op="tombstone", canonical_revision=1)
    async with db.connection() as conn:
        await contents.put_many(conn, line=job.line, bodies={digest("mine"): body, deletion.content_hash: b"null"})
        await candidates.insert(conn, [conflict, new, deletion])
        shown, more = await candidates.with_content(conn, line=job.line, job_id=job.job_id, limit=2)
        assert more
        rest, more = await candidates.with_content(
            conn, line=job.line, job_id=job.job_id, after=shown[-1].candidate.candidate_id, limit=2
        )
        assert not more
        assert await candidates.view(conn, conflict.candidate_id) == shown[0]
    assert [view.candidate for view in (*shown, *rest)] == [conflict, new, deletion]
    assert shown[0].content == body
    assert shown[0].canonical is not None
    assert (shown[0].canonical.revision, shown[0].canonical.scope) == (2, "team/x")
    assert shown[0].canonical.body == b'{"text":"theirs"}'
    assert b"origin_runs" in shown[0].canonical.fact_body
    assert (shown[1].content, shown[1].canonical) == (None, None)
    assert rest[0].content is None
    assert rest[0].canonical.body == b'{"text":"first"}'


async def test_a_page_of_large_candidates_ends_early_and_the_next_one_goes_on(db):
    job = await new_job(db)
    large = b'"%s"' % (b"x" * 900_000)
    rows = [candidate(job, n, key=f"k{n}", content_hash=digest("large" if n > 50 else "small")) for n in range(60)]
    seen, more = [], True
    async with db.connection() as conn:
        await contents.put_many(conn, line=job.line, bodies={digest("large"): large, digest("small"): b"1"})
        await candidates.insert(conn, rows)
        while more:
            after = seen[-1].candidate_id if seen else ""
            shown, more = await candidates.with_content(
                conn, line=job.line, job_id=job.job_id, after=after, limit=1_000
            )
            assert sum(len(view.content) for view in shown) < PAGE_BYTES + CONTENT_BYTES
            seen += [view.candidate for view in shown]
    assert seen == rows


async def test_contents_are_stored_once(db):
    job = await new_job(db)
    async with db.connection() as conn:
        await contents.put_many(conn, line=job.line, bodies={b"1" * 32: b"one", b"2" * 32: b"two"})
        await contents.put_many(conn, line=job.line, bodies={b"2" * 32: b"two", b"3" * 32: b"three"})
        await contents.put_many(conn, line=job.line, bodies={})
        assert await contents.get(conn, line=job.line, content_hash=b"3" * 32) == b"three"
        assert await contents.get(conn, line=job.line, content_hash=b"4" * 32) is None
        assert await contents.get_many(conn, line=job.line, hashes=[b"1" * 32, b"4" * 32]) == {b"1" * 32: b"one"}
