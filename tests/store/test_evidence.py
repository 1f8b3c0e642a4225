"""Evidence: blobs of one branch, each once, within its budget."""

from __future__ import annotations

import asyncio

import pytest
from tests.store.branching import digest, new_branch

from anabranch.model.errors import NotFoundError, TooLargeError
from anabranch.model.ids import new_branch_id
from anabranch.store import evidence


async def put(conn, branch, text: str) -> bool:
    return await evidence.put(
        conn,
        line=branch.line,
        branch_id=branch.branch_id,
        digest=digest(text),
        media_type="text/plain",
        body=text.encode(),
    )


async def test_a_blob_is_kept_once_and_answers_only_its_branch(db):
    branch, other = await new_branch(db), await new_branch(db, name="run-2")
    async with db.connection() as conn:
        assert await put(conn, branch, "log")
        assert not await put(conn, branch, "log")
        found = await evidence.get(conn, line=branch.line, branch_id=branch.branch_id, digest=digest("log"))
        assert await evidence.get(conn, line=other.line, branch_id=other.branch_id, digest=digest("log")) is None
        present = await evidence.exists(
            conn, line=branch.line, branch_id=branch.branch_id, digests=[digest("log"), digest("none")]
        )
    assert found is not None
    assert (found.body, found.size, found.media_type) == (b"log", 3, "text/plain")
    assert present == {digest("log")}


async def test_uploads_at_once_do_not_exceed_the_budget_together(db, monkeypatch):
    monkeypatch.setattr(evidence, "EVIDENCE_BRANCH_BYTES", 25)
    branch = await new_branch(db)

    async def once(text: str) -> bool:
        async with db.connection() as conn:
            return await put(conn, branch, text)

    answers = await asyncio.gather(*(once(f"ten bytes{n}") for n in range(6)), return_exceptions=True)
    assert answers.count(True) == 2
    refused = [answer for answer in answers if isinstance(answer, TooLargeError)]
    assert len(refused) == 4
    assert refused[0].extra == {"limit": 25}
    async with db.connection() as conn:
        assert await put(conn, branch, "five ")


async def test_the_same_blob_at_once_is_kept_once(db):
    branch = await new_branch(db)

    async def once() -> bool:
        async with db.connection() as conn:
            return await put(conn, branch, "log")

    assert (await asyncio.gather(*(once() for _ in range(6)))).count(True) == 1


async def test_a_branch_that_does_not_exist_keeps_none(db):
    branch = await new_branch(db)
    async with db.connection() as conn:
        with pytest.raises(NotFoundError):
            await evidence.put(
                conn,
                line=branch.line,
                branch_id=new_branch_id(branch.line),
                digest=digest("x"),
                media_type="text/plain",
                body=b"x",
            )


async def test_the_api_may_upload(db, api_db):
    branch = await new_branch(db)
    async with api_db.connection() as conn:
        assert await put(conn, branch, "log")
