"""Key-value namespaces of a branch: bytes as they came, one counter, and each record one of the private overlay too."""

from __future__ import annotations

import asyncio
import json

import httpx
import pytest
from tests.store.branching import blocked, new_branch
from tests.store.served import serving
from tests.store.working import RUN
from tests.store.world import AGENTS

from anabranch.branches import evidence, layers
from anabranch.branches import private as overlay
from anabranch.kv import records
from anabranch.model.answers import ViewedRecord
from anabranch.model.canonical import sha256
from anabranch.model.errors import (
    ConflictError,
    InvalidInputError,
    NotFoundError,
    QuotaExceededError,
    ReclaimedError,
    TooLargeError,
)
from anabranch.search.asking import Search, search
from anabranch.store import branches, kv, kv_namespaces, private


@pytest.fixture
async def branch(db):
    return await new_branch(db)


class Space:
    """A namespace, as the API's role writes to it."""

    def __init__(self, db, branch, name="knowledge"):
        self.db, self.branch, self.name = db, branch, name

    async def put(self, key, raw, *, ttl=None, expected=None):
        return await records.put(
            self.db, self.branch, namespace=self.name, key=key, raw=raw, ttl_seconds=ttl, expected=expected, readable=()
        )

    async def get(self, key):
        return await records.get(self.db, self.branch, namespace=self.name, key=key)

    async def delete(self, key, *, expected=None):
        await records.delete(self.db, self.branch, namespace=self.name, key=key, expected=expected)

    async def keys(self, prefix="", *, after="", limit=100):
        found = await records.page(self.db, self.branch, namespace=self.name, prefix=prefix, after=after, limit=limit)
        return [info.key for info in found]

    async def stats(self):
        usage = await records.stats(self.db, self.branch, namespace=self.name)
        return (usage.entries, usage.bytes, usage.revision)

    async def expire(self, *keys):
        """Let the time of some records be over."""
        async with self.db.connection() as conn:
            await conn.execute(
                "UPDATE private_records SET expires_at = now() - interval '1 s' WHERE key = ANY($1)",
                [f"kv/{self.name}/{key}" for key in keys],
            )


@pytest.fixture
def space(api_db, branch):
    return Space(api_db, branch)


@pytest.mark.parametrize(
    ("raw", "media_type", "content"),
    [
        (b'{ "b": 1,  "a": [2] }', "application/json", {"a": [2], "b": 1}),
        (b'{"a":1}', "application/json", {"a": 1}),
        (b"12", "application/json", 12),
        (b'{"id": 12345678901234567890}', "text/plain; charset=utf-8", '{"id": 12345678901234567890}'),
        ("größer".encode(), "text/plain; charset=utf-8", "größer"),
        (b"", "text/plain; charset=utf-8", ""),
        (b"\xff\x00", "application/octet-stream", {"encoding": "base64", "data": "/wA="}),
    ],
    ids=["spaced JSON", "canonical JSON", "a number", "large integers", "text", "nothing", "bytes"],
)
async def test_a_value_comes_back_byte_for_byte_and_is_json_in_the_overlay(space, branch, raw, media_type, content):
    receipt = await space.put("a key", raw)
    row = await space.get("a key")
    assert (row.value, row.media_type, row.revision) == (raw, media_type, receipt.revision)
    assert receipt.bytes == len(raw)
    said = await layers.view(space.db, branch, "kv/knowledge/a key", layer="merged", scopes=())
    viewed = ViewedRecord.model_validate_json(said)
    assert (viewed.layer, viewed.content, viewed.visibility) == ("private", content, "private")


async def test_a_namespace_counts_its_writes_and_never_gives_a_revision_twice(space, api_db, branch):
    assert [(await space.put(key, b"1")).revision for key in ("a", "b", "a")] == [1, 2, 3]
    await space.delete("a")
    assert (await space.put("a", b"1")).revision == 4
    assert (await Space(api_db, branch, "other").put("a", b"1")).revision == 1
    assert await space.stats() == (2, 4, 4)


async def test_conditional_writes_hold_or_are_a_conflict(space):
    first = await space.put("a", b"1", expected=0)
    with pytest.raises(ConflictError, match="is at revision 1"):
        await space.put("a", b"2", expected=0)
    with pytest.raises(ConflictError):
        await space.put("a", b"2", expected=first.revision + 1)
    with pytest.raises(ConflictError):
        await space.delete("a", expected=7)
    second = await space.put("a", b"2", expected=first.revision)
    await space.delete("a", expected=second.revision)
    with pytest.raises(ConflictError, match="is absent"):
        await space.put("a", b"3", expected=second.revision)
    with pytest.raises(NotFoundError):
        await space.delete("a")
    assert (await space.put("a", b"3", expected=0)).revision == 3


async def test_of_writers_at_once_with_one_condition_one_wins_and_sums_stay_right(space):
    async def once(number):
        try:
            return await space.put("a", b"x" * number, expected=0)
        except ConflictError:
            return None

    answers = await asyncio.gather(*(once(number) for number in range(1, 7)))
    (won,) = [answer for answer in answers if answer]
    assert await space.stats() == (1, 1 + won.bytes, 1)
    await asyncio.gather(*(space.put(f"k{number}", b"12") for number in range(8)))
    assert await space.stats() == (9, 1 + won.bytes + 8 * 4, 9)


async def test_what_has_expired_is_seen_by_nobody_and_the_next_write_takes_it_out(space, branch, api_db, db):
    receipt = await space.put("soon", b"12345", ttl=60)
    assert receipt.expires_at_ms == pytest.approx(receipt.written_at_ms + 60_000, abs=2)
    await space.put("stays", b"1")
    gone = Space(db, branch)
    await gone.expire("soon")
    assert await space.keys() == ["stays"]
    assert await space.stats() == (1, 6, 2)
    with pytest.raises(NotFoundError):
        await space.get("soon")
    async with api_db.connection() as conn:
        where = {"line": branch.line, "branch_id": branch.branch_id}
        assert await private.get(conn, key="kv/knowledge/soon", **where) is None
        shown, _ = await private.page(conn, limit=9, **where)
        assert [row.key for row in shown] == ["kv/knowledge/stays"]
        assert await conn.fetchval("SELECT entries FROM kv_namespaces") == 2
    with pytest.raises(ConflictError):
        await space.put("soon", b"1", expected=receipt.revision)
    assert (await space.put("soon", b"1", expected=0)).revision == 3
    assert await space.stats() == (2, 11, 3)
    async with api_db.connection() as conn:
        assert await conn.fetchval("SELECT entries FROM kv_namespaces") == 2
    await space.put("soon", b"1")
    assert (await space.get("soon")).expires_at is None


async def test_a_search_of_the_branch_finds_a_record_until_it_expires(space, branch, db):
    await space.put("soon", b'"a needle"', ttl=60)
    asked = Search(line=branch.line, ref=branch.parent_generation, scopes=(), text="needle", branch=branch)

    async def found():
        return [hit.key for hit in (await search(space.db, asked, offset=0, limit=9)).hits]

    assert await found() == ["kv/knowledge/soon"]
    await Space(db, branch).expire("soon")
    assert await found() == []


async def test_keys_are_listed_by_prefix_in_pages(space):
    for key in ("a", "ab", "a/b", "b", "aé", "a\U0010ffff"):
        await space.put(key, b"1")
    await space.delete("b")
    assert await space.keys("a") == ["a", "a/b", "ab", "aé", "a\U0010ffff"]
    assert await space.keys("a\U0010ffff") == ["a\U0010ffff"]
    assert await space.keys("a/") == ["a/b"]
    assert await space.keys(limit=2) == ["a", "a/b"]
    assert await space.keys("a", after="ab", limit=1) == ["aé"]
    assert await space.keys("b") == []


async def test_what_is_no_key_is_refused(space):
    for key in ("", "__latest/a", "a\nb", "e\u0301", "x" * 510):
        with pytest.raises(InvalidInputError):
            await space.put(key, b"1")
    assert await space.stats() == (0, 0, 0)


async def test_a_value_or_its_form_in_the_overlay_over_a_mebibyte_is_refused(space):
    await space.put("largest", b"x" * ((1 << 20) - 2))
    for raw in (b"x" * (1 << 20), b"\xff" * 800_000, b'"' * 600_000):
        with pytest.raises(TooLargeError):
            await space.put("k", raw)


async def test_a_namespace_and_a_branch_hold_so_much_and_deleting_makes_room(space, api_db, branch, monkeypatch):
    monkeypatch.setattr(kv_namespaces, "KV_ENTRIES", 2)
    monkeypatch.setattr(kv_namespaces, "KV_BYTES", 10)
    monkeypatch.setattr(kv_namespaces, "KV_NAMESPACES", 2)
    await space.put("a", b"123")
    await space.put("b", b"123")
    with pytest.raises(QuotaExceededError, match="3 records"):
        await space.put("c", b"")
    with pytest.raises(QuotaExceededError, match="11 bytes"):
        await space.put("a", b"123456")
    await space.delete("b")
    await space.put("a", b"123456789")
    monkeypatch.setattr(kv_namespaces, "KV_BYTES", 5)
    assert (await space.put("a", b"12345678")).revision == 4, "less than before is let in, however much there is"
    await Space(api_db, branch, "second").put("a", b"1")
    third = Space(api_db, branch, "third")
    with pytest.raises(QuotaExceededError, match="2 namespaces"):
        await third.put("a", b"1")
    assert await third.stats() == (0, 0, 0)


async def test_the_overlays_own_routes_leave_namespaces_alone(space, branch):
    await space.put("a", b"1")
    with pytest.raises(InvalidInputError, match="key-value namespaces"):
        await overlay.put(
            space.db, branch=branch, key="kv/knowledge/a", content=2, scope="shared", visibility=None, expected=None,
            readable=(),
        )  # fmt: skip
    with pytest.raises(InvalidInputError):
        await overlay.delete(space.db, branch=branch, key="kv/knowledge/a", expected=None)
    assert (await space.get("a")).value == b"1"


async def test_a_record_answers_its_own_branch_and_nothing_is_written_once_the_run_is_over(space, db):
    await space.put("a", b"1")
    other = Space(space.db, await new_branch(db, name="run-2"))
    with pytest.raises(NotFoundError):
        await other.get("a")
    async with db.connection() as conn:
        await branches.set_phase(conn, line=space.branch.line, branch_id=space.branch.branch_id, phase="Completed")
        over = await branches.get(conn, space.branch.branch_id)
    late = Space(space.db, over)
    with pytest.raises(ConflictError, match="Completed"):
        await late.put("a", b"2")
    with pytest.raises(ConflictError, match="Completed"):
        await late.delete("a")
    assert (await late.get("a")).value == b"1"


async def test_a_write_and_its_place_in_the_overlay_are_durable_together_or_not_at_all(space, monkeypatch):
    await space.put("a", b"1")
    real = kv.put

    async def dies_after(*args, **kwargs):
        await real(*args, **kwargs)
        raise RuntimeError("killed")

    monkeypatch.setattr(kv, "put", dies_after)
    with pytest.raises(RuntimeError):
        await space.put("a", b"22")
    monkeypatch.undo()
    assert (await space.get("a")).value == b"1"
    assert await space.stats() == (1, 2, 1)
    async with space.db.connection() as conn:
        row = await private.get(conn, line=space.branch.line, branch_id=space.branch.branch_id, key="kv/knowledge/a")
    assert (row.revision, json.loads(row.body)) == (1, 1)


async def test_a_text_that_postgres_cannot_keep_is_refused_wherever_it_stands(db, database):
    capsule = {"goal": "g", "summary": "s", "next_action": "n"}
    reference = {"namespace": "n", "key": "a\0", "revision": 1}
    checkpoint = {"id": "c", "agent_id": "a", "session_id": "s", "capsule": capsule, "references": [reference]}
    async with serving(db, database.api) as served:
        await served.world.import_documents({"a": "one"})
        client = await served.client()
        await client.create_branch(AGENTS, RUN)
        base = f"{served.url}/v1/namespaces/{AGENTS}/branches/run/kv/v1/namespaces/knowledge/"
        async with httpx.AsyncClient(base_url=base, headers={"Authorization": "Bearer ada"}) as http:
            for answer in (
                await http.get("records", params={"prefix": "a\0"}),
                await http.post("checkpoints", json=checkpoint),
                await http.post("search", json={"query": "a\0"}),
            ):
                assert (answer.status_code, answer.json()["error"]["code"]) == (400, "invalid_request")


@pytest.mark.parametrize(
    ("change", "error"),
    [("phase = 'Completed', finished_at = now()", ConflictError), ("kept = 'leaving'", ReclaimedError)],
    ids=["ended", "removed"],
)
async def test_nothing_is_written_to_a_run_that_has_ended_since_the_request_began(db, space, branch, change, error):
    members = {"content": 1, "scope": "shared", "visibility": None, "expected": None, "readable": ()}
    await space.put("there", b"1")
    await overlay.put(space.db, branch=branch, key="there", **members)
    async with db.connection() as conn:
        await conn.execute(f"UPDATE branches SET {change}")
        before = await conn.fetch("SELECT key, revision, body FROM private_records ORDER BY key")
    blob = b"evidence"
    attempts = [
        lambda: space.put("k", b"1"),
        lambda: space.delete("there"),
        lambda: overlay.put(space.db, branch=branch, key="k", **members),
        lambda: overlay.delete(space.db, branch=branch, key="there", expected=None),
    ]
    if error is ReclaimedError:  # a run that has only ended may still be told what its findings rest on
        attempts.append(
            lambda: evidence.keep(space.db, branch, digest=sha256(blob), media_type="text/plain", body=blob)
        )
    for attempt in attempts:
        with pytest.raises(error):
            await attempt()
    async with db.connection() as conn:
        assert await conn.fetch("SELECT key, revision, body FROM private_records ORDER BY key") == before
        assert await conn.fetchval("SELECT count(*) FROM evidence") == 0


async def test_a_write_and_the_end_of_its_run_wait_for_each_other(db, branch):
    async with db.transaction() as conn:
        await conn.fetchval("SELECT true FROM branches WHERE branch_id = $1 FOR UPDATE", branch.branch_id)
        await conn.execute("UPDATE branches SET kept = 'leaving' WHERE branch_id = $1", branch.branch_id)
        writing = asyncio.create_task(Space(db, branch).put("k", b"1"))
        await blocked(db, writing)
    with pytest.raises(ReclaimedError):
        await writing
