"""LangGraph's store interface on a worker: what LangGraph's own tests expect of a store, and a graph that runs on it.

The expectations are those of the `langgraph-checkpoint` project's tests of its stores, of what does not need vectors.
"""

from __future__ import annotations

import asyncio
from typing import Any, TypedDict

import pytest
from langgraph.config import get_store
from langgraph.graph import END, START, StateGraph
from langgraph.store.base import GetOp, InvalidNamespaceError, Item, ListNamespacesOp, PutOp, SearchOp
from tests.store.building import version
from tests.store.working import PROOF, contents

from anabranch.client.langgraph import AnabranchStore
from anabranch.client.sync import SyncClient
from anabranch.client.worker import SnapshotIncompleteError
from anabranch.model.errors import InvalidInputError

NAMESPACES = [
    ("a", "b", "c"),
    ("a", "b", "d", "e"),
    ("a", "b", "d", "i"),
    ("a", "b", "f"),
    ("a", "c", "f"),
    ("b", "a", "f"),
    ("users", "123"),
    ("users", "456", "settings"),
    ("admin", "users", "789"),
]


@pytest.fixture
async def store(worker):
    return AnabranchStore(worker)


# ------------------------------------------------------------------------------------------------ LangGraph's own tests


async def test_an_item_is_put_found_changed_and_deleted(store):
    await store.aput(("docs", "user"), "report", {"title": "One", "tags": ["x"]})
    item = await store.aget(("docs", "user"), "report")
    assert isinstance(item, Item)
    assert (item.namespace, item.key, item.value) == (("docs", "user"), "report", {"title": "One", "tags": ["x"]})
    first = item.created_at
    assert first == item.updated_at
    await store.aput(("docs", "user"), "report", {"title": "Two"})
    item = await store.aget(("docs", "user"), "report")
    assert item.value == {"title": "Two"}
    assert item.created_at == first < item.updated_at
    await store.adelete(("docs", "user"), "report")
    assert await store.aget(("docs", "user"), "report") is None
    await store.adelete(("docs", "user"), "report")


async def test_operations_of_a_batch_are_answered_in_their_order_and_read_what_was_before(store):
    await store.aput(("test", "foo"), "key1", {"data": "value1"})
    await store.aput(("test", "bar"), "key2", {"data": "value2"})
    results = await store.abatch(
        [
            GetOp(("test", "foo"), "key1"),
            PutOp(("test", "bar"), "key2", {"data": "value2"}),
            SearchOp(("test",), filter={"data": "value1"}, limit=10, offset=0),
            ListNamespacesOp(match_conditions=None, max_depth=None, limit=10, offset=0),
            GetOp(("test",), "key3"),
        ]
    )
    assert results[0].value == {"data": "value1"}
    assert results[1] is None
    assert [item.key for item in results[2]] == ["key1"]
    assert set(results[3]) == {("test", "foo"), ("test", "bar")}
    assert results[4] is None
    results = await store.abatch(
        [
            SearchOp(("test",), filter=None, limit=5, offset=0),
            PutOp(("test",), "key3", {"data": "value3"}),
            PutOp(("test",), "key3", {"data": "later"}),
            GetOp(("test",), "key3"),
        ]
    )
    assert len(results[0]) == 2
    assert results[3] is None
    assert (await store.aget(("test",), "key3")).value == {"data": "later"}
    assert await store.abatch([PutOp(("test",), "key4", None)]) == [None]


async def test_a_search_filters_pages_and_looks_below_its_namespace(store):
    docs = [
        ("doc1", {"color": "red", "score": 4.5, "by": {"name": "ada"}}),
        ("doc2", {"color": "red", "score": 3.0, "by": {"name": "bob"}}),
        ("doc3", {"color": "green", "score": 4.0}),
        ("doc4", {"color": "blue", "score": 3.5}),
    ]
    for key, value in docs:
        await store.aput(("test", key), key, value)
    await store.aput(("tests",), "other", {"color": "red"})

    async def keys(**options):
        return sorted(item.key for item in await store.asearch(("test",), **options))

    assert await keys() == ["doc1", "doc2", "doc3", "doc4"]
    assert await keys(filter={"color": "red"}) == ["doc1", "doc2"]
    assert await keys(filter={"score": {"$gt": 3.2, "$lte": 4.0}}) == ["doc3", "doc4"]
    assert await keys(filter={"color": {"$ne": "red"}}) == ["doc3", "doc4"]
    assert await keys(filter={"by": {"name": "bob"}}) == ["doc2"]
    assert len(await store.asearch(("test",), limit=3)) == 3
    assert len(await store.asearch(("test",), limit=3, offset=3)) == 1
    assert len(await store.asearch(())) == 5
    assert await store.asearch(("absent",)) == []


async def test_a_query_ranks_by_words_and_fills_up_with_the_rest(store):
    await store.aput(("notes",), "1", {"text": "The linker is killed with exit 137."})
    await store.aput(("notes",), "2", {"text": "Warm the cache before the build."})
    await store.aput(("notes",), "3", {"text": "Exit 137: the pool ends jobs at 8 GiB, so the linker is killed."})
    found = await store.asearch(("notes",), query="linker exit 137", limit=2)
    assert {item.key for item in found} == {"1", "3"}
    assert found[0].score >= found[1].score > 0
    found = await store.asearch(("notes",), query="cache", limit=10)
    assert found[0].key == "2"
    assert [item.score for item in found[1:]] == [None, None]
    assert len(await store.asearch(("notes",), query='"!@#$%^&*() -- OR')) == 3
    assert len(await store.asearch(("notes",), query="", filter={"text": {"$ne": "x"}})) == 3


async def test_namespaces_are_listed_by_prefix_suffix_wildcard_and_depth(store):
    for number, namespace in enumerate(NAMESPACES):
        await store.aput(namespace, f"id_{number}", {"data": f"value_{number:02d}"})
    assert sorted(await store.alist_namespaces()) == sorted(NAMESPACES)
    assert sorted(await store.alist_namespaces(prefix=("a", "b"))) == NAMESPACES[:4]
    assert await store.alist_namespaces(suffix=("f",)) == [("a", "b", "f"), ("a", "c", "f"), ("b", "a", "f")]
    assert await store.alist_namespaces(prefix=("a",), suffix=("f",)) == [("a", "b", "f"), ("a", "c", "f")]
    assert await store.alist_namespaces(prefix=("a", "b"), max_depth=3) == [
        ("a", "b", "c"),
        ("a", "b", "d"),
        ("a", "b", "f"),
    ]
    assert await store.alist_namespaces(prefix=("a", "b"), limit=2) == NAMESPACES[:2]
    assert await store.alist_namespaces(prefix=("a", "b"), offset=2) == [("a", "b", "d", "i"), ("a", "b", "f")]
    assert await store.alist_namespaces(prefix=("a", "*", "f")) == [("a", "b", "f"), ("a", "c", "f")]
    assert await store.alist_namespaces(prefix=("users", "123")) == [("users", "123")]
    assert await store.alist_namespaces(prefix=("none",)) == []


async def test_a_namespace_that_cannot_be_is_refused(store):
    doc = {"foo": "bar"}
    for namespace in ((), ("the", "thing.about"), ("some", "fun", ""), ("langgraph", "foo")):
        with pytest.raises(InvalidNamespaceError):
            await store.aput(namespace, "foo", doc)
    await store.aput(("foo", "langgraph", "foo"), "bar", doc)
    assert (await store.aget(("foo", "langgraph", "foo"), "bar")).value == doc
    assert (await store.asearch(("foo", "langgraph", "foo")))[0].value == doc
    with pytest.raises(NotImplementedError, match="ttl"):
        await store.aput(("a",), "b", doc, ttl=1.0)


async def test_puts_and_gets_that_come_together_are_one_batch(store, monkeypatch):
    batches = []
    abatch = AnabranchStore.abatch

    async def counted(self, ops):
        batches.append(list(ops))
        return await abatch(self, batches[-1])

    monkeypatch.setattr(AnabranchStore, "abatch", counted)
    await asyncio.gather(*(store.aput(("test",), "key", {"value": number}) for number in (1, 2)))
    assert [list(map(type, batch)) for batch in batches] == [[PutOp]]
    results = await asyncio.gather(*(store.aget(("test",), "key") for _ in range(3)))
    assert [item.value for item in results] == [{"value": 2}] * 3
    assert len(batches[1]) == 1


# ---------------------------------------------------------------------------------------------- what is a worker's here


@pytest.mark.parametrize(
    ("label", "key"),
    [("a/b", "c"), ("a", "b/c"), ("100%", "%2F"), ("e\u0301", "\u0301"), ("\x01", "\n"), ("ü", "日本"), ("..", ".")],
)
async def test_any_label_and_key_stands_for_itself(store, label, key):
    label = label.replace(".", "-")
    await store.aput(("n", label), key, {"of": [label, key]})
    item = await store.aget(("n", label), key)
    assert (item.namespace, item.key) == (("n", label), key)
    assert [one.key for one in await store.asearch(("n", label))] == [key]
    assert await store.alist_namespaces() == [("n", label)]


async def test_a_name_that_is_too_long_is_refused_and_says_so(store):
    with pytest.raises(InvalidInputError, match="512"):
        await store.aput(("n" * 300, "n" * 300), "k", {})


async def test_items_of_others_are_found_once_they_are_accepted_and_can_be_hidden(place, worker, store):
    await place.publish(version("store/team/facts", {"text": "shared"}), version("store/team/more", "text alone"))
    await worker.sync()
    assert (await store.aget(("team",), "facts")).value == {"text": "shared"}
    assert (await store.aget(("team",), "more")).value == {"content": "text alone"}
    await store.aput(("team",), "facts", {"text": "mine"})
    assert (await store.aget(("team",), "facts")).value == {"text": "mine"}
    await store.adelete(("team",), "facts")
    assert await store.aget(("team",), "facts") is None
    assert [item.key for item in await store.asearch(("team",))] == ["more"]
    assert (await worker.read("store/team/facts", layer="shared")).content == {"text": "shared"}


async def test_what_the_agent_shares_is_submitted_with_what_it_is_known_from(place, worker):
    def share(namespace, key, value):
        return [PROOF] if namespace[0] == "team" else None

    store = AnabranchStore(worker, share=share)
    await store.aput(("team", "facts"), "exit-137", {"text": "The pool ends jobs at 8 GiB."})
    await store.aput(("mine",), "note", {"text": "private"})
    await worker.sync()
    await place.served.world.work()
    other = await place.open("other.db", name="other", account="bob")
    await other.sync()
    found = AnabranchStore(other)
    assert (await found.aget(("team", "facts"), "exit-137")).value == {"text": "The pool ends jobs at 8 GiB."}
    assert await found.aget(("mine",), "note") is None


async def test_the_whole_baseline_can_be_the_store(worker):
    store = AnabranchStore(worker, prefix="")
    await worker.write("runbooks/exit-137", "Raise the limit.")
    assert (await store.aget(("runbooks",), "exit-137")).value == {"content": "Raise the limit."}
    assert await store.alist_namespaces() == [("runbooks",)], "what has no slash is in no namespace"


async def test_it_works_offline_and_says_when_it_never_was_online(place, worker, store):
    await place.served.stop()
    await store.aput(("a",), "b", {"c": 1})
    assert (await store.aget(("a",), "b")).value == {"c": 1}
    fresh = AnabranchStore(await place.open("fresh.db", name="fresh"))
    await fresh.aput(("a",), "b", {"c": 1})
    with pytest.raises(SnapshotIncompleteError):
        await fresh.aget(("a",), "absent")
    await place.served.start()


class State(TypedDict):
    question: str
    answer: str


def graph():
    """An agent that remembers: its nodes reach the store as LangGraph gives it to them."""

    async def recall(state: State) -> dict[str, Any]:
        found = await get_store().asearch(("memories", "ada"), query=state["question"], limit=1)
        return {"answer": found[0].value["text"] if found else "unknown"}

    async def remember(state: State) -> dict[str, Any]:
        await get_store().aput(("memories", "ada"), "last", {"text": f"asked: {state['question']}"})
        return {}

    builder = StateGraph(State)
    builder.add_node("recall", recall)
    builder.add_node("remember", remember)
    builder.add_edge(START, "recall")
    builder.add_edge("recall", "remember")
    builder.add_edge("remember", END)
    return builder


async def test_a_graph_runs_on_it_as_it_is(worker, store):
    await store.aput(("memories", "ada"), "exit-137", {"text": "The pool ends jobs at 8 GiB."})
    compiled = graph().compile(store=store)
    result = await compiled.ainvoke({"question": "Why does the pool end jobs?"})
    assert result["answer"] == "The pool ends jobs at 8 GiB."
    assert (await contents(worker, prefix="store/memories/ada/last")) == {
        "store/memories/ada/last": {"text": "asked: Why does the pool end jobs?"}
    }


async def test_a_program_without_an_event_loop_uses_it_too(place, tmp_path):
    from tests.store.working import RUN
    from tests.store.world import AGENTS

    def work():
        with (
            SyncClient(place.served.url, token="ada") as client,
            client.worker(tmp_path / "sync.db", namespace=AGENTS, branch=RUN) as worker,
        ):
            worker.sync()
            store = worker.call(AnabranchStore, worker.asynchronous)
            store.put(("a",), "b", {"c": 1})
            found = store.get(("a",), "b").value, [item.key for item in store.search(("a",))], store.list_namespaces()
            store.delete(("a",), "b")
            return found, store.get(("a",), "b")

    assert await asyncio.to_thread(work) == (({"c": 1}, ["b"], [("a",)]), None)
