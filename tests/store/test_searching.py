"""Search on a real index: what is found and in which order, as of which generation, in which scopes, and by whom."""

from __future__ import annotations

import asyncio
import random
from collections import Counter

import pytest
from tests.store import branching, building, retaining
from tests.store.building import version
from tests.store.indexes import indexed, small_segments

from anabranch.domain import bm25
from anabranch.model.canonical import canonical_bytes, sha256
from anabranch.model.errors import GoneError, InvalidInputError, NotFoundError, UnavailableError
from anabranch.search import asking, indexing, scoring
from anabranch.search.asking import Search, search
from anabranch.store import private, searching

WORDS = [f"w{number}" for number in range(60)]


def texts(count, *, seed=1):
    """Texts whose words are as unevenly frequent as those of a language."""
    chance = random.Random(seed)
    weights = [1 / (place + 1) for place in range(len(WORDS))]
    return {
        f"note-{number:03}": " ".join(chance.choices(WORDS, weights, k=chance.randint(3, 30)))
        for number in range(count)
    }


def by_formula(contents, asked):
    """Keys by their score, computed over all texts by the definition of BM25."""
    counted = {key: Counter(indexing.words_of(key, canonical_bytes(content))) for key, content in contents.items()}
    mean = sum(counts.total() for counts in counted.values()) / len(counted)
    weights = {
        word: bm25.weight(sum(word in counts for counts in counted.values()), documents=len(counted))
        for word in dict.fromkeys(asked.split())
    }
    scale = bm25.Scale(weights, mean)
    scores = {
        key: scale.score({word: counts[word] for word in weights}, words=counts.total())
        for key, counts in counted.items()
    }
    found = [(key, round(score, 4)) for key, score in scores.items() if score]
    return sorted(found, key=lambda each: (-each[1], each[0]))


async def found(db, line, text, *, ref="current", scopes=("shared",), branch=None, offset=0, limit=100):
    asked = Search(line=line, ref=ref, scopes=scopes, text=text, branch=branch)
    return await search(db, asked, offset=offset, limit=limit)


async def keys(db, line, text, **options):
    return [hit.key for hit in (await found(db, line, text, **options)).hits]


async def scores(db, line, text, **options):
    hits = [(hit.key, hit.score) for hit in (await found(db, line, text, **options)).hits]
    return sorted(hits, key=lambda each: (-each[1], each[0]))


def check_same(found, expected):
    """The same scores in the same order, and the same keys but for equals at the end of a page."""
    assert [score for _, score in found] == pytest.approx([score for _, score in expected], abs=2e-4)
    least = expected[-1][1] + 1e-3
    assert {key for key, score in found if score > least} == {key for key, score in expected if score > least}


@pytest.fixture
def dense(monkeypatch):
    small_segments(monkeypatch)


@pytest.mark.parametrize("asked", ["w0", "w50", "w0 w1 w2", "w3 w40 w55 absent", "w0 w0 w59", "Note-017 w1"])
async def test_what_is_found_and_in_which_order_is_what_bm25_says(db, api_db, dense, asked):
    line = await building.new_line(db)
    contents = texts(150)
    await building.import_records(db, line, contents)
    await indexed(db, line)
    asked_for = asked.lower().replace("-", " ")
    check_same(await scores(api_db, line, asked, limit=50), by_formula(contents, asked_for)[:50])


async def test_the_index_says_the_same_whether_it_came_at_once_or_bit_by_bit(db, dense):
    line = await building.new_line(db)
    contents = texts(120)
    first, *rest = [dict(list(contents.items())[start : start + 10]) for start in range(0, 120, 10)]
    await building.import_records(db, line, first)
    for some in rest:
        await building.publish_versions(db, line, *(version(key, text) for key, text in some.items()))
        await indexed(db, line)
    for asked in ("w0 w30", "w1 w2 w45"):
        check_same(await scores(db, line, asked, limit=50), by_formula(contents, asked)[:50])


async def test_each_generation_is_searched_as_it_was(db):
    line = await building.new_line(db)
    await building.import_records(db, line, {"exit": "code 137 means memory", "cache": "warm it first"})
    await building.publish_versions(db, line, version("exit", "code 137 means a signal"), version("new", "137 again"))
    await building.publish_versions(db, line, version("exit"))
    for between in (False, True):
        assert await keys(db, line, "memory", ref=1) == ["exit"]
        assert await keys(db, line, "memory", ref=2) == []
        assert sorted(await keys(db, line, "137", ref=2)) == ["exit", "new"]
        assert await keys(db, line, "137") == ["new"]
        assert await keys(db, line, "137", ref=1) == ["exit"]
        if not between:
            await indexed(db, line)


async def test_the_past_of_a_line_that_changes_much_is_found_by_a_second_deeper_look(db, monkeypatch):
    monkeypatch.setattr(scoring, "_MARGIN", 0)
    line = await building.new_line(db)
    names = [f"k{number:02}" for number in range(40)]
    await building.import_records(db, line, {name: f"{name} cache of the first" for name in names})
    for _ in range(2):
        await building.publish_versions(db, line, *(version(name, "cache") for name in names))
    await indexed(db, line)
    page = await found(db, line, "cache", ref=1, limit=10)
    assert {hit.revision for hit in page.hits} == {"1"}
    assert (len(page.hits), page.more) == (10, True)


async def test_what_was_published_a_moment_ago_is_found_before_it_is_indexed(db, monkeypatch):
    line = await building.new_line(db)
    await building.import_records(db, line, {"a": "cache", "b": "other"})
    await indexed(db, line)
    await building.publish_versions(db, line, version("a", "something else"), version("c", "the cache"))
    page = await found(db, line, "cache something")
    assert [(hit.key, hit.revision) for hit in page.hits] == [("a", "2"), ("c", "2")]
    assert (page.indexed_through, page.complete) == (1, True)
    before = [(hit.key, hit.score) for hit in page.hits]
    assert await keys(db, line, "cache", ref=1) == ["a"]

    monkeypatch.setattr(asking, "_LATE", 1)
    page = await found(db, line, "cache something")
    assert (page.hits, page.indexed_through, page.complete) == ([], 1, False)

    await indexed(db, line)
    page = await found(db, line, "cache something")
    assert [hit.key for hit in page.hits] == [key for key, _ in before]
    assert (page.indexed_through, page.complete) == (2, True)


async def test_a_scope_that_is_not_the_readers_neither_shows_nor_weighs(db):
    scopes = {"secret-1": "team/red", "secret-2": "team/red"}
    open_ones = {"a": "the launch window", "b": "the launch pad of the site", "c": "the coffee"}
    hidden = {"secret-1": "launch launch launch", "secret-2": "coffee launch codes"}
    both = await building.new_line(db, name="both", uid="u1")
    await building.import_records(db, both, {**open_ones, **hidden}, scopes=scopes)
    alone = await building.new_line(db, name="alone", uid="u2")
    await building.import_records(db, alone, open_ones)
    for _ in range(2):
        assert await scores(db, both, "launch codes coffee") == await scores(db, alone, "launch codes coffee")
        assert len(await keys(db, both, "launch", scopes=("shared", "team/red"))) == 4
        assert await keys(db, both, "launch", scopes=()) == []
        await indexed(db, both)
        await indexed(db, alone)


async def test_another_lines_records_are_not_found(db):
    lines = [await building.new_line(db, name=name, uid=name) for name in ("one", "two")]
    for line, key in zip(lines, ("a", "b"), strict=True):
        await building.import_records(db, line, {key: "cache"})
        await indexed(db, line)
    assert [await keys(db, line, "cache") for line in lines] == [["a"], ["b"]]


async def put(db, branch, key, content):
    body = canonical_bytes(content)
    async with db.connection() as conn:
        await private.put(
            conn, line=branch.line, branch_id=branch.branch_id, key=key, scope="shared", visibility="private",
            content_hash=sha256(body), body=body, base_revision=0, expected=None,
        )  # fmt: skip


@pytest.mark.parametrize("late", [False, True], ids=["indexed", "not indexed yet"])
async def test_a_branch_sees_its_private_records_instead_of_its_parents_and_its_parents_otherwise(db, late):
    line = await building.new_line(db)
    await building.import_records(db, line, {"a": "the cache", "b": "the cache is warm", "c": "exit code"})
    if not late:
        await indexed(db, line)
    async with db.transaction() as conn:
        branch = await branching.fork(conn, line)
        other = await branching.fork(conn, line, name="run-2")
    await building.publish_versions(db, line, version("d", "cache of later"))
    await put(db, branch, "a", "my own note")
    await put(db, branch, "e", {"tip": "Clear the CACHE at the café"})

    async def layers(text, **options):
        return sorted(
            (hit.key, hit.layer) for hit in (await found(db, line, text, ref=1, branch=branch, **options)).hits
        )

    assert await layers("cache") == [("b", "base"), ("e", "private")]
    assert await layers("cafe note code") == [("a", "private"), ("c", "base"), ("e", "private")]
    assert await layers("cache", scopes=()) == [("e", "private")]
    async with db.connection() as conn:
        await private.delete(conn, line=line, branch_id=branch.branch_id, key="a", expected=None)
    assert await layers("cache note") == [("a", "base"), ("b", "base"), ("e", "private")]
    assert sorted(await keys(db, line, "cache note tip", ref=1, branch=other)) == ["a", "b"]
    assert sorted(await keys(db, line, "cache note tip")) == ["a", "b", "d"]


async def test_an_overlay_that_is_too_large_is_searched_in_part_and_the_answer_says_so(db, monkeypatch):
    line = await building.new_line(db)
    await building.import_records(db, line, {})
    async with db.transaction() as conn:
        branch = await branching.fork(conn, line)
    for key in "abc":
        await put(db, branch, key, f"cache {key * 50}")
    page = await found(db, line, "cache", ref=1, branch=branch)
    assert (len(page.hits), page.complete) == (3, True)
    monkeypatch.setattr(asking, "_READ_BYTES", 700)
    page = await found(db, line, "cache", ref=1, branch=branch)
    assert ([hit.key for hit in page.hits], page.complete) == (["a", "b"], False)


async def test_of_an_overlay_of_any_number_of_small_records_only_so_much_is_ever_read(db):
    line = await building.new_line(db)
    await building.import_records(db, line, {})
    async with db.transaction() as conn:
        branch = await branching.fork(conn, line)
        await conn.execute(
            "INSERT INTO private_records (line, branch_id, key, revision, scope, visibility, content_hash, body,"
            " base_revision) SELECT $1, $2, 'cache' || n, 1, 'shared', 'private', sha256('1'), '1', 0"
            " FROM generate_series(1, 2000) AS n",
            line,
            branch.branch_id,
        )
    async with searching.snapshot(db) as conn:
        where = {"line": line, "branch_id": branch.branch_id, "words": ["cache"]}
        some, is_all = await searching.overlay(conn, **where, size=10_000)
        assert (30 < len(some) < 40, is_all) == (True, False)
        some, is_all = await searching.overlay(conn, **where, size=1 << 20)
        assert (len(some), is_all) == (2000, True)


async def test_of_what_is_not_indexed_yet_only_so_many_bytes_are_ever_read(db, monkeypatch):
    line = await building.new_line(db)
    await building.import_records(db, line, {})
    await indexed(db, line)
    large = {key: f"cache {key * 500}" for key in "abc"}
    await building.publish_versions(db, line, *(version(key, text) for key, text in large.items()))
    page = await found(db, line, "cache")
    assert (len(page.hits), page.complete) == (3, True)
    monkeypatch.setattr(asking, "_READ_BYTES", 1200)
    page = await found(db, line, "cache")
    assert ([hit.key for hit in page.hits], page.complete) == (["a", "b"], False)
    await indexed(db, line)
    assert (await found(db, line, "cache")).complete


async def test_pages_follow_each_other_down_to_a_depth(db, dense, monkeypatch):
    line = await building.new_line(db)
    await building.import_records(db, line, texts(60))
    await indexed(db, line)
    whole = await keys(db, line, "w0 w1", limit=60)
    pages = [await found(db, line, "w0 w1", offset=offset, limit=7) for offset in range(0, 21, 7)]
    assert [hit.key for page in pages for hit in page.hits] == whole[:21]
    assert all(page.more for page in pages)
    assert not (await found(db, line, "w0 w1", limit=60)).more
    monkeypatch.setattr(asking, "SEARCH_DEPTH", 10)
    last = await found(db, line, "w0 w1", offset=7, limit=7)
    assert ([hit.key for hit in last.hits], last.more) == (whole[7:10], False)


async def test_a_hit_carries_where_it_comes_from_and_the_piece_that_was_found(db):
    line = await building.new_line(db)
    await building.import_records(db, line, {"a": {"note": "x " * 50_000 + "the cache"}})
    await building.publish_versions(db, line, version("b", "the cache", run="run_1"))
    for _ in range(2):
        b, a = (await found(db, line, "cache")).hits
        assert a.source_locators == (f"import:a.md@sha256:{'0' * 64}",)
        assert (b.origin_runs, b.revision, b.visibility, b.layer) == (("run_1",), "2", "shareable", "base")
        assert [b.snippet.text[begin:end] for begin, end in b.snippet.matches] == ["cache"]
        await indexed(db, line)


async def test_what_cannot_be_searched_says_why(db):
    line = await building.new_line(db)
    await building.import_records(db, line, {"a": 1})
    with pytest.raises(InvalidInputError, match="no word"):
        await found(db, line, "… --")
    with pytest.raises(InvalidInputError, match="33 different words, the limit is 32"):
        await found(db, line, " ".join(f"w{number}" for number in range(33)))
    with pytest.raises(NotFoundError):
        await found(db, line, "word", ref=7)
    for content in (2, 3):
        await building.publish_versions(db, line, version("a", content))
    await retaining.retain(db, line)
    with pytest.raises(GoneError):
        await found(db, line, "word", ref=1)


async def test_a_search_that_takes_too_long_is_ended(db, monkeypatch):
    line = await building.new_line(db)
    await building.import_records(db, line, {"a": "word"})
    index = searching.index

    async def slow(conn, **options):
        await conn.execute("SET LOCAL statement_timeout = 50")
        await conn.execute("SELECT pg_sleep(5)")
        return await index(conn, **options)

    monkeypatch.setattr(searching, "index", slow)
    with pytest.raises(UnavailableError):
        await found(db, line, "word")
    monkeypatch.undo()
    assert await keys(db, line, "word") == ["a"]


async def test_slow_searches_leave_connections_to_others_and_tell_whoever_would_wait_long(api_db, db, monkeypatch):
    line = await building.new_line(db)
    await building.import_records(db, line, {"a": "word"})
    monkeypatch.setattr(asking, "_PATIENCE_SECONDS", 0.2)
    free, under_way = asyncio.Event(), 0
    index = searching.index

    async def slow(conn, **options):
        nonlocal under_way
        under_way += 1
        await free.wait()
        return await index(conn, **options)

    monkeypatch.setattr(searching, "index", slow)
    searcher = asking.Searcher(api_db)
    asked = Search(line=line, ref="current", scopes=["shared"], text="word")
    tasks = [asyncio.create_task(searcher.search(asked, offset=0, limit=1)) for _ in range(10)]
    done, _ = await asyncio.wait(tasks, timeout=60, return_when=asyncio.FIRST_COMPLETED)
    async with asyncio.timeout(60):
        while under_way < 4:  # noqa: ASYNC110  (nothing tells it)
            await asyncio.sleep(0.01)
    await asyncio.sleep(0.1)
    assert (under_way, api_db.use()["used"]) == (4, 4)
    free.set()
    ended = await asyncio.gather(*tasks, return_exceptions=True)
    assert done
    assert [type(end) for end in ended if isinstance(end, Exception)] == [UnavailableError] * 6
    assert (await searcher.search(asked, offset=0, limit=1)).hits[0].key == "a"


async def test_a_search_sees_one_moment(db, monkeypatch):
    line = await building.new_line(db)
    await building.import_records(db, line, {"a": "cache", "b": "cache"})
    late = asking.not_indexed

    async def meanwhile(conn, asked, **options):
        await indexed(db, line)
        await building.publish_versions(db, line, version("a"))
        return await late(conn, asked, **options)

    monkeypatch.setattr(asking, "not_indexed", meanwhile)
    assert sorted(await keys(db, line, "cache")) == ["a", "b"]
