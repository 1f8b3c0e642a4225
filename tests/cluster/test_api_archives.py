"""The upload of an archive: apply first, then upload; whole or not at all; the same again changes nothing."""

from __future__ import annotations

import asyncio
import hashlib
import secrets

import asyncpg
import pytest
from tests.cluster.places import BASELINE

from anabranch.archive.directory import write_archive
from anabranch.archive.settings import ImportSettings
from anabranch.archive.walk import scan
from anabranch.model.errors import ForbiddenError, NotFoundError

PIECE = 1 << 20


@pytest.fixture(scope="module")
async def publisher(place):
    return await place.client("publisher", "anabranch-publisher")


async def chunks_of(place, digest: bytes) -> list[int]:
    conn = await asyncpg.connect(place.stack.operator_dsn)
    try:
        rows = await conn.fetch(
            "SELECT octet_length(body) AS size FROM archive_chunks WHERE digest = $1 ORDER BY ordinal", digest
        )
    finally:
        await conn.close()
    return [row["size"] for row in rows]


async def test_a_baseline_waits_for_its_archive_and_imports_it_when_it_comes(place, publisher, tmp_path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "cache.md").write_text("# Cache\n\nWarm it.\n")
    file = tmp_path / "docs.anabranch"
    with file.open("w+b") as output:
        made = write_archive(scan(tmp_path / "docs", ImportSettings()), output, created_by="test")
    digest = made.summary.digest
    place.apply("Baseline", "archived", {"import": {"archive": {"digest": digest}}})
    await place.archive_missing("archived")
    state = await publisher.upload_archive(place.namespace, "archived", file, digest)
    assert (state.digest, state.size) == (digest, file.stat().st_size)
    await asyncio.to_thread(place.kubectl, "wait", "--for=condition=Ready", "baseline/archived", "--timeout=60s")
    assert [record.key async for record in publisher.records(place.namespace, "archived")]
    assert await publisher.upload_archive(place.namespace, "archived", file, digest) == state


async def test_an_archive_is_kept_in_pieces_and_the_same_again_changes_nothing(place, publisher):
    body = secrets.token_bytes(3 * PIECE + 17)
    digest = hashlib.sha256(body)
    path = f"baselines/{BASELINE}/archives/sha256:{digest.hexdigest()}"
    assert (await place.raw(publisher, "HEAD", path)).status_code == 404

    async def pieces():
        for start in range(0, len(body), 100_000):
            yield body[start : start + 100_000]

    first = await place.raw(publisher, "PUT", path, content=pieces())
    again = await place.raw(publisher, "PUT", path, content=body)
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json() == again.json() == (await place.raw(publisher, "GET", path)).json()
    assert await chunks_of(place, digest.digest()) == [PIECE, PIECE, PIECE, 17]
    assert (await place.raw(publisher, "HEAD", path)).status_code == 200


async def test_two_uploads_of_the_same_archive_at_once_both_succeed(place, publisher):
    body = secrets.token_bytes(PIECE + 1)
    digest = hashlib.sha256(body)
    path = f"baselines/{BASELINE}/archives/{digest.hexdigest()}"
    answers = await asyncio.gather(*(place.raw(publisher, "PUT", path, content=body) for _ in range(2)))
    assert {answer.status_code for answer in answers} <= {200, 201}
    assert await chunks_of(place, digest.digest()) == [PIECE, 1]


async def test_a_torn_archive_leaves_nothing_behind(place, publisher):
    body = secrets.token_bytes(2 * PIECE)
    digest = hashlib.sha256(body)
    path = f"baselines/{BASELINE}/archives/{digest.hexdigest()}"
    answer = await place.raw(publisher, "PUT", path, content=body[:-1])
    assert (answer.status_code, answer.json()["code"]) == (400, "DigestMismatch")
    assert (await place.raw(publisher, "HEAD", path)).status_code == 404
    assert await chunks_of(place, digest.digest()) == []


async def test_uploading_needs_its_grant_and_a_baseline(place, publisher, tmp_path):
    file = tmp_path / "a"
    file.write_bytes(b"a")
    digest = f"sha256:{hashlib.sha256(b'a').hexdigest()}"
    viewer = await place.client("viewer", "anabranch-viewer")
    with pytest.raises(ForbiddenError) as caught:
        await viewer.upload_archive(place.namespace, BASELINE, file, digest)
    assert caught.value.extra["grant"] == "baselines/archives:create"
    with pytest.raises(NotFoundError):
        await publisher.upload_archive(place.namespace, "absent", file, digest)
