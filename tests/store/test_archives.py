"""Uploaded archives: whole, verified, and kept once."""

from __future__ import annotations

import asyncio
import hashlib

import httpx
import pytest
from tests.store import building
from tests.store.served import serving
from tests.store.world import TEAM

from anabranch.model.errors import DigestMismatchError, TooLargeError
from anabranch.store import archives

BYTES = bytes(range(256)) * 10_000  # three pieces
DIGEST = hashlib.sha256(BYTES).digest()


@pytest.fixture
async def line(db):
    return await building.new_line(db)


async def chunks(data, size=300_000):
    for start in range(0, len(data), size):
        await asyncio.sleep(0)
        yield data[start : start + size]


async def save(db, line, data=BYTES, digest=DIGEST, **kwargs):
    return await archives.save(db, line=line, digest=digest, uploaded_by="alice", chunks=chunks(data, **kwargs))


async def load(db, line, digest=DIGEST):
    async with db.connection() as conn:
        return [piece async for piece in archives.read(conn, line=line, digest=digest)]


async def find(db, line, digest=DIGEST):
    async with db.connection() as conn:
        return await archives.find(conn, line=line, digest=digest)


async def pieces(db, line):
    async with db.connection() as conn:
        return await conn.fetchval("SELECT count(*) FROM archive_chunks WHERE line = $1", line)


@pytest.mark.parametrize("size", [1_000, 1 << 20, 5 << 20])
async def test_an_archive_comes_back_as_it_came_in_whatever_pieces(api_db, db, line, size):
    row = await save(api_db, line, size=size)
    assert (row.size, row.uploaded_by, row.digest) == (len(BYTES), "alice", DIGEST)
    assert [len(piece) for piece in await load(db, line)] == [1 << 20, 1 << 20, len(BYTES) - (2 << 20)]
    assert b"".join(await load(db, line)) == BYTES
    assert await find(db, line) == row


async def test_bytes_with_another_digest_are_not_kept(api_db, db, line):
    with pytest.raises(DigestMismatchError, match=hashlib.sha256(BYTES[:-1]).hexdigest()):
        await save(api_db, line, BYTES[:-1])
    assert await find(db, line) is None
    assert await pieces(db, line) == 0


async def test_an_upload_that_breaks_is_not_kept_and_can_be_repeated(api_db, db, line):
    async def broken():
        yield BYTES[: 2 << 20]
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await archives.save(api_db, line=line, digest=DIGEST, uploaded_by="alice", chunks=broken())
    assert await pieces(db, line) == 0
    assert (await save(api_db, line)).size == len(BYTES)


async def test_the_same_again_changes_nothing(api_db, line):
    first = await save(api_db, line)
    assert await save(api_db, line, b"never read") == first


async def test_the_same_by_several_at_once_is_kept_once(api_db, db, line):
    rows = await asyncio.gather(*(save(api_db, line) for _ in range(3)))
    assert len(set(rows)) == 1
    assert await pieces(db, line) == 3


async def test_too_many_bytes_are_refused(api_db, db, line, monkeypatch):
    monkeypatch.setattr(archives, "ARCHIVE_BYTES", 1_000_000)
    with pytest.raises(TooLargeError, match="1,000,000"):
        await save(api_db, line)
    assert await pieces(db, line) == 0


async def test_an_archive_is_of_one_line(api_db, db, line):
    await save(api_db, line)
    other = await building.new_line(db, name="other")
    assert await find(db, other) is None
    assert await load(db, other) == []


@pytest.fixture
async def served(db, database):
    async with serving(db, database.api) as served:
        yield served


async def test_more_uploads_than_a_process_has_room_for_are_told_to_come_back(served):
    await served.world.import_documents({"a": "first"})
    path = f"/v1/namespaces/{TEAM}/baselines/facts/archives/sha256:{DIGEST.hex()}"
    async with httpx.AsyncClient(base_url=served.url, headers={"Authorization": "Bearer ada"}) as http:
        for _ in range(2):
            await served.parts.uploads.acquire()
        refused = await http.put(path, content=BYTES)
        assert (refused.status_code, "retry-after" in refused.headers) == (503, True)
        served.parts.uploads.release()
        assert (await http.put(path, content=BYTES)).status_code == 201
        assert (await http.put(path, content=BYTES[:-1])).status_code == 400
        assert (await http.put(path, content=BYTES)).status_code == 200
