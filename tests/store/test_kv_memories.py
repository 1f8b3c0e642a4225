"""Structured memories: labels in one form, recalled by time, found by their words, forgotten."""

from __future__ import annotations

import contextlib
import json
import math

import httpx
import pytest
from tests.store.branching import new_branch
from tests.store.served import serving
from tests.store.working import RUN
from tests.store.world import AGENTS

from anabranch.domain.cursor import InvalidCursorError, Sealer
from anabranch.kv import memories, records
from anabranch.kv.memories import Recall
from anabranch.model.errors import ConflictError, InvalidInputError, NotFoundError
from anabranch.model.kv import MemorySearch, RememberRequest
from anabranch.search import asking
from anabranch.store import kv, kv_memories
from anabranch.store.kv_memories import NEWEST, Filters

SEALER = Sealer([b"0123456789abcdef"])


@pytest.fixture
async def branch(db):
    return await new_branch(db)


class Mind:
    """A namespace of memories."""

    def __init__(self, db, branch, name="knowledge"):
        self.db, self.branch, self.name = db, branch, name

    async def remember(self, key, content, *, if_revision=None, **members):
        request = RememberRequest.model_validate(
            {"key": key, "memory": {"content": content, **members}, "if_revision": if_revision}
        )
        return await memories.remember(self.db, self.branch, namespace=self.name, request=request, readable=())

    async def recall(self, **asked):
        return await memories.recall(self.db, self.branch, SEALER, namespace=self.name, asked=Recall(**asked))

    async def recalled(self, **asked):
        return [item.key for item in (await self.recall(**asked)).items]

    async def search(self, query, **asked):
        question = MemorySearch.model_validate({"query": query, **asked})
        return await memories.search(self.db, self.branch, SEALER, namespace=self.name, asked=question)

    async def found(self, query, **asked):
        return [item.key for item in (await self.search(query, **asked)).items]

    async def put(self, key, value):
        raw = value if isinstance(value, bytes) else json.dumps(value).encode()
        return await records.put(
            self.db, self.branch, namespace=self.name, key=key, raw=raw, ttl_seconds=None, expected=None, readable=()
        )

    async def forget(self, key, expected=None):
        await records.delete(self.db, self.branch, namespace=self.name, key=key, expected=expected, only_memory=True)


@pytest.fixture
def mind(api_db, branch):
    return Mind(api_db, branch)


async def test_a_memory_has_its_labels_in_one_form_and_comes_back_whole(mind):
    saved = await mind.remember(
        "preferences/language", "Prefer Rust", topic=" Preferences ", tags=["Local", "LOCAL", "a"],
        metadata={"source": {"type": "file"}, "confidence": 0.9}, occurred_at_ms=1_790_985_600_000,
    )  # fmt: skip
    assert (saved.memory.topic, saved.memory.tags) == ("preferences", ("a", "local"))
    assert await memories.exact(mind.db, mind.branch, namespace="knowledge", key="preferences/language") == saved
    row = await records.get(mind.db, mind.branch, namespace="knowledge", key="preferences/language")
    assert json.loads(row.value) == {
        "_instantkv_memory": 1,
        "content": "Prefer Rust",
        "topic": "preferences",
        "tags": ["a", "local"],
        "metadata": {"source": {"type": "file"}, "confidence": 0.9},
        "occurred_at_ms": 1_790_985_600_000,
    }


async def test_a_memory_is_new_unless_the_revision_that_it_replaces_is_named(mind):
    first = await mind.remember(None, "found")
    assert first.memory.occurred_at_ms == pytest.approx(first.written_at_ms, abs=2_000)
    with pytest.raises(ConflictError):
        await mind.remember(first.key, "again")
    second = await mind.remember(first.key, "again", if_revision=first.revision)
    assert second.revision == first.revision + 1
    with pytest.raises(ConflictError):
        await mind.forget(first.key, expected=first.revision)
    await mind.forget(first.key, expected=second.revision)
    assert await mind.recalled() == []
    with pytest.raises(NotFoundError):
        await memories.exact(mind.db, mind.branch, namespace="knowledge", key=first.key)


async def test_a_record_that_is_no_memory_is_neither_told_nor_forgotten(mind):
    await mind.put("plain", {"content": "Rust"})
    assert await mind.recalled() == await mind.found("rust") == []
    for refused in (mind.forget("plain"), memories.exact(mind.db, mind.branch, namespace="knowledge", key="plain")):
        with pytest.raises(NotFoundError):
            await refused


async def test_a_record_that_marks_itself_is_a_memory_or_is_refused(mind):
    envelope = {
        "_instantkv_memory": 1, "content": "Use redb", "topic": "storage", "tags": [], "metadata": {},
        "occurred_at_ms": 5,
    }  # fmt: skip
    await mind.put("raw", envelope)
    assert await mind.found("redb") == ["raw"]
    for wrong in (
        {**envelope, "topic": "Storage"},
        {**envelope, "_instantkv_memory": 2},
        {**envelope, "content": "  "},
        {**envelope, "content": "a\0b"},
        {"_instantkv_memory": 1},
        {**envelope, "more": 1},
    ):
        with pytest.raises(InvalidInputError):
            await mind.put("wrong", wrong)
    with pytest.raises(InvalidInputError, match="256"):
        await mind.put("k" * 257, envelope)
    await mind.put("raw", b'"no memory any more"')
    assert await mind.recalled() == await mind.found("redb") == []


@pytest.mark.parametrize(
    ("content", "members"),
    [
        (" ", {}),
        ("x" * 16_385, {}),
        ("x", {"topic": ""}),
        ("x", {"topic": "t" * 65}),
        ("x", {"tags": ["a\nb"]}),
        ("x", {"metadata": {"m": "x" * 8_192}}),
    ],
    ids=["blank", "long", "no topic", "long topic", "control character", "much metadata"],
)
async def test_a_memory_that_does_not_fit_is_refused(mind, content, members):
    with pytest.raises(InvalidInputError):
        await mind.remember("k", content, **members)


async def test_memories_are_recalled_newest_first_by_labels_time_and_texts(mind):
    for key, at, topic, tags, content in (
        ("a", 10, "build", ["x"], "Cache the Wheels first"),
        ("b", 20, "build", ["x", "y"], "wheels are slow"),
        ("c", 20, "setup", ["y"], "Install Python"),
        ("d", 30, None, [], "100% of wheels"),
    ):
        await mind.remember(key, content, topic=topic, tags=tags, occurred_at_ms=at)
    assert await mind.recalled() == ["d", "c", "b", "a"]
    assert await mind.recalled(topic="BUILD") == ["b", "a"]
    assert await mind.recalled(tag="y") == ["c", "b"]
    assert await mind.recalled(topic="build", tag="y") == ["b"]
    assert await mind.recalled(since_ms=20, until_ms=20) == ["c", "b"]
    assert await mind.recalled(query="WHEELS ca") == ["a"]
    assert await mind.recalled(query="0%") == ["d"]
    for wrong in ({"query": " "}, {"query": "a " * 9}, {"since_ms": 2, "until_ms": 1}, {"tag": " "}):
        with pytest.raises(InvalidInputError):
            await mind.recall(**wrong)


async def test_pages_end_by_count_or_size_and_a_cursor_goes_on_with_the_same_filters_alone(mind):
    for number in range(7):
        await mind.remember(f"k{number}", "x" * 300, occurred_at_ms=number)
    seen, cursor, sizes = [], None, []
    while True:
        page = await mind.recall(limit=5, max_bytes=1_800, cursor=cursor)
        assert len(page.model_dump_json()) <= 1_800
        seen += [item.key for item in page.items]
        sizes.append(len(page.items))
        if (cursor := page.next_cursor) is None:
            break
    assert (seen, max(sizes)) == ([f"k{number}" for number in reversed(range(7))], 2)
    cursor = (await mind.recall(limit=5)).next_cursor
    with pytest.raises(InvalidCursorError):
        await mind.recall(topic="other", cursor=cursor)
    assert (await mind.recall(limit=7)).next_cursor is None
    await mind.remember("large", "x" * 2_000, occurred_at_ms=99)
    with pytest.raises(InvalidInputError, match="max_bytes"):
        await mind.recall(max_bytes=1_024)


async def test_a_page_looks_at_so_many_and_says_where_it_stopped(mind, monkeypatch):
    monkeypatch.setattr(memories, "_LOOKED_AT", 3)
    monkeypatch.setattr(memories, "_STEP", 2)
    for number in range(5):
        await mind.remember(f"k{number}", "needle" if number == 0 else "hay", occurred_at_ms=number)
    page = await mind.recall(query="needle")
    assert (page.items, page.scanned) == ((), 3)
    page = await mind.recall(query="needle", cursor=page.next_cursor)
    assert ([item.key for item in page.items], page.next_cursor) == (["k0"], None)


async def test_memories_are_ranked_by_bm25_of_their_stemmed_words(mind):
    texts = {
        "a": "the build cache of the wheels",
        "b": "caching wheels: cache, cache and cache",
        "c": "installing python",
        "d": "wheels and more wheels of a long text about something else altogether and much more",
    }
    for key, content in texts.items():
        await mind.remember(key, content)
    page = await mind.search("cached WHEELS")
    assert [item.key for item in page.items] == ["b", "a", "d"]
    # By hand: 4 documents; without words such as "the", a has 3 words, b 5, c 2, d 8 of which 2 are "wheel".
    lengths = {"a": 3, "b": 5, "c": 2, "d": 8}
    average = sum(lengths.values()) / 4
    times = {"a": (1, 1), "b": (4, 1), "d": (0, 2)}

    def bm25(key):
        weights = (math.log(1 + (4 - 2 + 0.5) / 2.5), math.log(1 + (4 - 3 + 0.5) / 3.5))
        return sum(
            weight * each * 2.2 / (each + 1.2 * (0.25 + 0.75 * lengths[key] / average))
            for weight, each in zip(weights, times[key], strict=True)
        )

    assert {item.key: item.score for item in page.items} == pytest.approx({key: bm25(key) for key in times})
    assert (page.query_terms, page.scored_candidates, page.truncated) == (2, 3, False)
    assert await mind.found("the of and") == await mind.found("absent") == []


async def test_a_search_may_be_narrowed_and_related_words_count_less(mind):
    await mind.remember("own", "danger ahead", topic="t", occurred_at_ms=5)
    await mind.remember("related", "risk ahead", tags=["g"], occurred_at_ms=6)
    assert await mind.found("danger") == ["own"]
    page = await mind.search("danger", expansion_terms=["risks", "danger"])
    assert ([item.key for item in page.items], page.expansion_terms) == (["own", "related"], 1)
    assert page.items[1].score == pytest.approx(page.items[0].score / 4)
    assert await mind.found("ahead", topic="T") == ["own"]
    assert await mind.found("ahead", tag="g") == ["related"]
    assert await mind.found("ahead", until_ms=5) == ["own"]
    assert (await mind.search(" ".join(f"word{number}" for number in range(70)))).query_reduced
    for wrong in ("", "x" * 16_385):
        with pytest.raises(InvalidInputError):
            await mind.search(wrong)


async def test_a_ranked_cursor_is_good_until_the_namespace_is_written_to(mind):
    for number in range(5):
        await mind.remember(f"k{number}", "wheels " * (number + 1))
    whole = await mind.found("wheels", limit=100)
    first = await mind.search("wheels", limit=2)
    second = await mind.search("wheels", limit=2, cursor=first.next_cursor)
    third = await mind.search("wheels", limit=2, cursor=second.next_cursor)
    assert [item.key for page in (first, second, third) for item in page.items] == whole
    assert third.next_cursor is None
    await mind.put("other", b"1")
    with pytest.raises(InvalidCursorError, match="written to"):
        await mind.search("wheels", limit=2, cursor=first.next_cursor)


async def test_what_a_question_holds_is_never_taken_for_a_query_of_postgres(mind):
    await mind.remember("a", "it's \\ & | ! ( ) :* <-> 'quoted' wheels")
    for query in ("it's wheels", "'", "wheels & !absent", "\\", "a:* | b", "<->", "wheels\\'"):
        await mind.search(query)
    assert await mind.found("'quoted' | nothing") == ["a"]


async def test_each_row_of_a_namespace_is_looked_up_in_the_overlay_and_none_compared_with_all(mind):
    """The planner expects one row of a line that has just grown, and would join all with all."""
    for number in range(40):
        await mind.remember(f"k{number}", "wheels of the build", occurred_at_ms=number)
    place = records.place_of(mind.branch, "knowledge")
    async with mind.db.transaction() as conn:
        await kv_memories.page(conn, place, filters=Filters(), before=NEWEST, limit=40)
        await kv_memories.rank(conn, place, words=[("wheel", 1.0)], filters=Filters(), skip=0, limit=40)
        await kv.page(conn, place, prefix="", after="", limit=40)
        read = await conn.fetchval(
            """
            SELECT sum(idx_tup_fetch)::bigint FROM pg_stat_xact_user_tables
            WHERE relname IN ('private_records', 'kv_records')
            """
        )
    assert 6 * 40 <= read <= 8 * 40


async def test_searches_of_memories_take_turns_with_all_others(db, database, monkeypatch):
    monkeypatch.setattr(asking, "_PATIENCE_SECONDS", 0.05)
    async with serving(db, database.api) as served:
        await served.world.import_documents({"a": "one"})
        client = await served.client()
        await client.create_branch(AGENTS, RUN)
        url = f"{served.url}/v1/namespaces/{AGENTS}/branches/run/kv/v1/namespaces/knowledge/search"
        async with (
            httpx.AsyncClient(headers={"Authorization": "Bearer ada"}) as http,
            contextlib.AsyncExitStack() as all_,
        ):
            for _ in range(asking._AT_ONCE):
                await all_.enter_async_context(served.parts.stores.default.searcher.turn())
            busy = await http.post(url, json={"query": "tide"})
            assert (busy.status_code, busy.json()["error"]["retryable"]) == (503, True)
            await all_.aclose()
            assert (await http.post(url, json={"query": "tide"})).status_code == 200
