"""What is read of jobs, and what their resources may change."""

from __future__ import annotations

from tests.store.branching import NAMESPACE, finish, new_job

from anabranch.store import jobs, leases


async def test_a_job_is_found_by_id_and_name(db):
    job = await new_job(db)
    async with db.connection() as conn:
        assert await jobs.get(conn, job.job_id) == job
        assert await jobs.by_name(conn, namespace=NAMESPACE, name=job.name) == job
        assert await jobs.by_name(conn, namespace="elsewhere", name=job.name) is None


async def test_jobs_are_listed_by_name_line_and_state(db):
    made = sorted([await new_job(db, name=name) for name in ("b", "a", "c")], key=lambda job: job.name)
    async with db.connection() as conn:
        await finish(conn, made[1])
        first = await jobs.page(conn, namespace=NAMESPACE, limit=2)
        rest = await jobs.page(conn, namespace=NAMESPACE, after=first[-1].name, limit=2)
        of_line = await jobs.page(conn, namespace=NAMESPACE, line=made[2].line, limit=9)
        published = await jobs.page(conn, namespace=NAMESPACE, state="published", limit=9)
    assert [job.job_id for job in (*first, *rest)] == [job.job_id for job in made]
    assert [job.job_id for job in of_line] == [made[2].job_id]
    assert [job.job_id for job in published] == [made[1].job_id]


async def test_a_job_is_unborn_until_its_resource_is_made(db):
    job = await new_job(db)
    async with db.connection() as conn:
        assert await jobs.unborn(conn, limit=5) == [job]
        where = {"line": job.line, "job_id": job.job_id}
        assert await jobs.set_uid(conn, **where, uid="uid-1", observed_generation=1)
        assert not await jobs.set_uid(conn, **where, uid="uid-1", observed_generation=1)
        assert await jobs.unborn(conn, limit=5) == []
        born = await jobs.get(conn, job.job_id)
    assert (born.uid, born.observed_generation, born.version) == ("uid-1", 1, job.version + 1)


async def test_a_deleted_resource_is_not_made_again_and_may_be_adopted(db):
    job = await new_job(db)
    where = {"line": job.line, "job_id": job.job_id}
    async with db.connection() as conn:
        await jobs.set_uid(conn, **where, uid="uid-1", observed_generation=1)
        await jobs.mark_deleted(conn, **where)
        assert await jobs.unborn(conn, limit=5) == []
        assert len((await leases.claim(conn, holder="worker", limit=5)).jobs) == 1, "its work goes on"
        assert await jobs.set_uid(conn, **where, uid="uid-2", observed_generation=1)
        adopted = await jobs.get(conn, job.job_id)
    assert (adopted.uid, adopted.deleted_at) == ("uid-2", None)


async def test_transitions_are_read_in_pages(db):
    job = await new_job(db)
    async with db.connection() as conn:
        await finish(conn, job)
        first = await jobs.transitions(conn, line=job.line, job_id=job.job_id, limit=1)
        rest = await jobs.transitions(conn, line=job.line, job_id=job.job_id, after=first[0].ordinal, limit=5)
    assert [step.to_state for step in (*first, *rest)] == ["received", "published"]
