"""Search over HTTP: in the scopes of the reader, as of a generation, and in what one's own branch sees."""

from __future__ import annotations

import pytest
from tests.cluster.places import BASELINE, eventually, told

from anabranch.model.errors import ForbiddenError, NotFoundError

SEARCHED = "searched"
RECORDS = {
    "exit-137": ("team/build", {"cause": "The kernel ended the linker for want of memory: exit code 137."}),
    "cache": ("shared", "Warm the cache first, or the linker waits."),
    "memory": ("shared", "A node has 16 GiB of memory."),
}


@pytest.fixture(scope="module")
async def viewer(place):
    place.baseline(SEARCHED, RECORDS)
    return await place.client("searches", "anabranch-viewer")


@pytest.fixture(scope="module")
async def narrow(place, viewer):
    client = await place.client("searches-narrowly", "get baselines,baselines/records")
    place.allow("searches-narrowly", "scopes", "read", "shared")
    return client


async def test_the_best_come_first_with_their_source_and_the_words_where_they_stand(place, viewer):
    page = await viewer.search(place.namespace, SEARCHED, "linker memory EXIT")
    assert len(page.items) == 3
    first = page.items[0]
    words = [first.snippet.text[begin:end] for begin, end in first.snippet.matches]
    assert words == ["linker", "memory", "exit"]
    assert (first.layer, first.scope, first.revision) == ("base", "team/build", "1")
    assert first.source_locators[0].startswith("import:")
    assert (page.manifest.generation, page.complete) == (1, True)


async def test_the_operator_makes_the_index_and_the_answers_stay_the_same(place, viewer):
    async def indexed():
        page = await viewer.search(place.namespace, SEARCHED, "memory linker")
        return page if page.indexed_through >= 1 else None

    page = await eventually(indexed)
    assert page.items[0].key == "exit-137"
    assert len(page.items) == 3


async def test_a_reader_finds_nothing_in_a_scope_of_others(place, viewer, narrow):
    page = await narrow.search(place.namespace, SEARCHED, "linker memory exit")
    assert sorted(hit.key for hit in page.items) == ["cache", "memory"]
    assert (await narrow.search(place.namespace, SEARCHED, "kernel")).items == ()


async def test_pages_are_of_one_generation_and_a_cursor_of_one_search(place, viewer):
    path = f"baselines/{SEARCHED}/search?q=memory+linker&limit=2"
    first = (await place.raw(viewer, "GET", path)).json()
    rest = (await place.raw(viewer, "GET", f"{path}&cursor={first['next_cursor']}")).json()
    assert (len(first["items"]), len(rest["items"]), rest["next_cursor"]) == (2, 1, None)
    other = await place.raw(viewer, "GET", f"baselines/{SEARCHED}/search?q=memory&cursor={first['next_cursor']}")
    assert (other.status_code, other.json()["code"]) == (422, "InvalidCursor")
    other = await place.raw(viewer, "GET", f"{path}&mode=hybrid&cursor={first['next_cursor']}")
    assert (other.status_code, other.json()["code"]) == (422, "InvalidCursor")


async def test_an_installation_without_an_embedder_searches_by_words_and_says_so(place, viewer):
    asked = await viewer.search(place.namespace, SEARCHED, "memory linker", mode="hybrid")
    assert (asked.mode, asked.words_alone, asked.without_vector) == ("words", "off", 0)
    plain = await viewer.search(place.namespace, SEARCHED, "memory linker")
    assert (plain.mode, plain.words_alone) == ("words", "asked")
    assert [hit.key for hit in plain.items] == [hit.key for hit in asked.items]


@pytest.mark.parametrize(
    "query",
    [
        "",
        "q=",
        "q=%E2%80%A6",
        "q=a&limit=101",
        "q=a&mode=meaning",
        "q=a&sort=key",
        "q=a%00b",
        f"q={'a' * 1025}",
        "q=a&cursor=x",
    ],
)
async def test_what_cannot_be_searched_is_refused(place, viewer, query):
    answer = await place.raw(viewer, "GET", f"baselines/{SEARCHED}/search?{query}")
    assert (answer.status_code, answer.json()["hint"] != "") == (422, True), answer.text


async def test_a_branch_finds_its_private_records_and_only_its_agent_does(place, viewer):
    agent = await place.client("searching-agent", "anabranch-agent")
    branch = await place.branch(agent, baseline=SEARCHED)
    await agent.put_private(place.namespace, branch.branch_id, "cache", "My hunch: memory.")
    page = await agent.search_branch(place.namespace, branch.branch_id, "memory linker")
    assert {hit.key: hit.layer for hit in page.items} == {"exit-137": "base", "cache": "private", "memory": "base"}
    with pytest.raises(NotFoundError):
        await viewer.search_branch(place.namespace, branch.branch_id, "memory")
    assert "cache" not in [hit.key for hit in (await viewer.search(place.namespace, SEARCHED, "hunch")).items]


async def test_who_may_not_read_is_told_no_more_than_by_a_read(place, viewer):
    client = await place.client("sees-and-searches", "get baselines")
    with pytest.raises(ForbiddenError) as caught:
        await client.search(place.namespace, BASELINE, "word")
    assert caught.value.extra["grant"] == "baselines/records:get"
    stranger = await place.client("searching-stranger")
    answers = [await place.raw(stranger, "GET", f"baselines/{name}/search?q=word") for name in (SEARCHED, "absent")]
    assert len({told(answer, name) for answer, name in zip(answers, (SEARCHED, "absent"), strict=True)}) == 1
