"""The private overlay: conditional writes, and revisions that are never used twice."""

from __future__ import annotations

import asyncio

import pytest
from tests.store.branching import digest, new_branch

from anabranch.model.errors import NotFoundError, PreconditionFailedError
from anabranch.model.limits import CONTENT_BYTES, PAGE_BYTES
from anabranch.store import private


async def put(conn, branch, *, expected=None, text="note", key="k", base=0) -> private.PrivateRow:
    return await private.put(
        conn,
        line=branch.line,
        branch_id=branch.branch_id,
        key=key,
        scope="shared",
        visibility="private",
        content_hash=digest(text),
        body=text.encode(),
        base_revision=base,
        expected=expected,
    )


async def test_a_record_is_written_read_and_written_again(db):
    branch = await new_branch(db)
    where = {"line": branch.line, "branch_id": branch.branch_id, "key": "k"}
    async with db.connection() as conn:
        first = await put(conn, branch, base=7)
        second = await put(conn, branch, text="other", base=9)
        assert await private.get(conn, **where) == second
    assert (first.revision, first.body) == (1, b"note")
    assert (second.revision, second.body, second.base_revision) == (2, b"other", 7)


@pytest.mark.parametrize(
    ("state", "expected", "revision"),
    [
        ("absent", None, 1),
        ("absent", 0, 1),
        ("absent", 1, None),
        ("present", None, 2),
        ("present", 0, None),
        ("present", 1, 2),
        ("present", 2, None),
        ("deleted", None, 3),
        ("deleted", 0, 3),
        ("deleted", 1, None),
        ("deleted", 2, None),
    ],
)
async def test_a_write_needs_the_revision_that_the_writer_saw(db, state, expected, revision):
    branch = await new_branch(db)
    where = {"line": branch.line, "branch_id": branch.branch_id, "key": "k"}
    async with db.connection() as conn:
        if state != "absent":
            await put(conn, branch)
        if state == "deleted":
            await private.delete(conn, **where, expected=1)
        if revision is not None:
            assert (await put(conn, branch, expected=expected, text="new")).revision == revision
            return
        before = await private.get(conn, **where)
        with pytest.raises(PreconditionFailedError) as caught:
            await put(conn, branch, expected=expected, text="new")
        assert await private.get(conn, **where) == before
    assert caught.value.extra == {"revision": "1" if state == "present" else "0"}


async def test_of_writers_that_saw_the_same_one_wins(db):
    branch = await new_branch(db)

    async def once(text: str) -> private.PrivateRow:
        async with db.connection() as conn:
            return await put(conn, branch, expected=0, text=text)

    answers = await asyncio.gather(*(once(f"text {n}") for n in range(8)), return_exceptions=True)
    assert sum(isinstance(answer, private.PrivateRow) for answer in answers) == 1
    assert sum(isinstance(answer, PreconditionFailedError) for answer in answers) == 7


async def test_a_deletion_needs_the_revision_too(db):
    branch = await new_branch(db)
    where = {"line": branch.line, "branch_id": branch.branch_id, "key": "k"}
    async with db.connection() as conn:
        with pytest.raises(NotFoundError):
            await private.delete(conn, **where, expected=None)
        await put(conn, branch)
        with pytest.raises(PreconditionFailedError):
            await private.delete(conn, **where, expected=2)
        assert await private.delete(conn, **where, expected=1) == 2
        assert await private.get(conn, **where) is None
        with pytest.raises(NotFoundError):
            await private.delete(conn, **where, expected=2)
        assert await conn.fetchval("SELECT body FROM private_records") is None, "the content is gone"


async def test_records_are_listed_by_key_in_pages_without_the_deleted(db):
    branch, other = await new_branch(db), await new_branch(db, name="run-2")
    where = {"line": branch.line, "branch_id": branch.branch_id}
    async with db.connection() as conn:
        for key in ("d", "a", "c", "b"):
            await put(conn, branch, key=key)
        await put(conn, other, key="z")
        await private.delete(conn, **where, key="b", expected=None)
        first, more = await private.page(conn, **where, limit=2)
        assert more
        rest, more = await private.page(conn, **where, after=first[-1].key, limit=2)
    assert not more
    assert [row.key for row in (*first, *rest)] == ["a", "c", "d"]


async def test_a_page_of_large_records_ends_early_and_the_next_one_goes_on(db):
    branch = await new_branch(db)
    where = {"line": branch.line, "branch_id": branch.branch_id}
    keys = [f"small/{number:03}" for number in range(100)] + [f"x-large/{number}" for number in range(9)]
    async with db.connection() as conn:
        for key in keys:
            await put(conn, branch, key=key, text=f'"{key * 60_000}"' if key > "x" else '"small"')
        seen, more = [], True
        while more:
            page, more = await private.page(conn, **where, after=seen[-1] if seen else "", limit=1_000)
            assert sum(len(row.body) for row in page) < PAGE_BYTES + CONTENT_BYTES
            seen += [row.key for row in page]
    assert seen == keys
