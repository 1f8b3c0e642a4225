"""An agent's memory and events over HTTP: its own and nobody else's, and the same refusals by every way in."""

from __future__ import annotations

import asyncio
import json
import re
import time

import pytest
from tests.pace import allowed
from tests.store.chatting import ME, raw, told
from tests.store.served import serving
from tests.store.world import AGENTS

from anabranch.feed import audience
from anabranch.identity import grants
from anabranch.memory import polling
from anabranch.model.errors import (
    ClaimLostError,
    ConflictError,
    ForbiddenError,
    InvalidInputError,
    NotFoundError,
    PreconditionFailedError,
    SectionNotWritableError,
)
from anabranch.model.memory import WRITABLE, MemorySync, SyncedSection

CLAIM = "01234567-89ab-4def-8123-456789abcdef"
ROUTES = [
    ("GET", "/memory", None),
    ("POST", "/memory/sync", {"mode": "patch", "sections": []}),
    ("GET", "/memory/long_term", None),
    ("PUT", "/memory/long_term", {"content": 1}),
    ("DELETE", "/memory/long_term", None),
    ("GET", "/memory/daily/2026-11-30", None),
    ("PUT", "/memory/daily/2026-11-30", {"content": 1}),
    ("DELETE", "/memory/daily/2026-11-30", None),
    ("GET", "/memory/system_exchanges", None),
    ("PUT", "/memory/system_exchanges", {"content": 1}),
    ("GET", "/events", None),
    ("POST", "/events:claim", {}),
    ("POST", "/events/e/ack", {"claim_id": CLAIM}),
    ("POST", "/events/e/fail", {"claim_id": CLAIM}),
]


@pytest.fixture
async def served(db, database):
    async with serving(db, database.api) as served:
        yield served


@pytest.fixture
async def ada(served):
    return await served.client("ada")


def said(answer, agent):
    return re.sub(r'"request_id":"[^"]*"', "", answer.text).replace(agent, "AGENT")


async def test_an_agents_memory_answers_that_agent_and_to_all_others_is_as_if_it_were_not(served, ada):
    served.world.permissions.deny(grants.USE_AGENT_ID)
    await ada.put_memory(AGENTS, "ada", "long_term", "a secret")
    await told(served, "ada")
    eve = await served.client("eve")
    for method, path, body in ROUTES:
        for headers in ({}, {"Accept": "text/event-stream"}):
            answers = {
                agent: await raw(eve, method, f"{ME}{path}".replace("ada", agent), json=body, headers=headers)
                for agent in ("ada", "absent")
            }
            assert {answer.status_code for answer in answers.values()} == {404}, (method, path)
            assert said(answers["ada"], "ada") == said(answers["absent"], "absent"), (method, path)
            assert "you may not see it" in answers["ada"].text
    mine = await ada.memory(AGENTS, "ada")
    assert [section.content for section in mine.sections] == ["a secret"]
    assert [entry.seen for entry in mine.system_exchanges.entries] == [False]
    assert [event.attempts for event in (await ada.claim_events(AGENTS, "ada")).events] == [1]


async def test_the_grant_to_use_ids_opens_no_id_that_is_anothers(served, ada):
    await ada.put_memory(AGENTS, "ada", "long_term", "a secret")
    eve, mallory = await served.client("eve"), await served.client("mallory")
    with pytest.raises(NotFoundError) as caught:
        await eve.memory(AGENTS, "ada")
    assert caught.value.detail == f"There is no agent {AGENTS}/ada, or you may not see it."
    await eve.put_memory(AGENTS, "fleet", "long_term", "hers")  # an id that was free is hers from then on
    with pytest.raises(NotFoundError):
        await mallory.memory(AGENTS, "fleet")
    assert (await eve.memory_section(AGENTS, "fleet", "long_term")).content == "hers"


async def test_an_id_is_taken_by_whoever_reads_under_it_first(served):
    await told(served, "fleet")  # nobody has worked under it yet
    eve, mallory = await served.client("eve"), await served.client("mallory")
    assert len((await eve.memory(AGENTS, "fleet")).system_exchanges.entries) == 1
    with pytest.raises(NotFoundError):
        await mallory.memory(AGENTS, "fleet")


async def test_the_owner_of_an_id_that_may_not_use_it_any_more_finds_it_absent(served):
    eve = await served.client("eve")
    await eve.put_memory(AGENTS, "fleet", "long_term", "hers")
    served.world.permissions.deny(grants.USE_AGENT_ID)
    with pytest.raises(NotFoundError):
        await eve.memory(AGENTS, "fleet")


async def test_who_lacks_the_grant_is_told_which_and_only_of_an_id_of_their_own(served, ada):
    served.world.permissions.deny(grants.OWN_MEMORY)
    with pytest.raises(ForbiddenError) as caught:
        await ada.memory(AGENTS, "ada")
    assert caught.value.extra["grant"] == "agents/memory:update"
    served.world.permissions.deny(grants.USE_AGENT_ID)
    with pytest.raises(NotFoundError):
        await ada.memory(AGENTS, "eve")


async def test_a_chat_platform_needs_its_grant_and_reads_nothing_by_it(served):
    served.world.permissions.deny(grants.POST_EXCHANGES)
    with pytest.raises(ForbiddenError) as caught:
        await told(served)
    assert caught.value.extra["grant"] == "exchanges:create"
    served.world.permissions.give_back()
    await told(served)
    served.world.permissions.deny(grants.USE_AGENT_ID)
    with pytest.raises(NotFoundError):
        await (await served.client("chat")).memory(AGENTS, "ada")


# ------------------------------------------------------------------------------------------------------------- sections


async def by_put(served, section):
    await (await served.client()).put_memory(AGENTS, "ada", section, 1)


async def by_delete(served, section):
    await (await served.client()).delete_memory(AGENTS, "ada", section)


async def by_sync(served, section, mode="patch"):
    sections = (SyncedSection(section="long_term", content=1), SyncedSection(section=section, content=1))
    await (await served.client()).sync_memory(AGENTS, "ada", MemorySync(mode=mode, sections=sections))


async def by_full_sync(served, section):
    await by_sync(served, section, "full")


async def by_mcp(served, section):
    call = {
        "name": "save_my_memory",
        "arguments": {"namespace": AGENTS, "agent": "ada", "section": section, "content": 1},
    }
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
    headers = {"Accept": "application/json, text/event-stream"}
    answer = await raw(await served.client(), "POST", "/mcp", json=body, headers=headers)
    result = answer.json()["result"]
    assert result["isError"]
    problem = json.loads(result["content"][0]["text"])
    kind = {"SectionNotWritable": SectionNotWritableError, "InvalidInput": InvalidInputError}[problem.pop("code")]
    assert problem.pop("status") == kind.status
    raise kind(problem.pop("detail"), hint=problem.pop("hint"), **problem)


@pytest.mark.parametrize("way", [by_put, by_delete, by_sync, by_full_sync, by_mcp])
async def test_what_the_platform_writes_is_refused_by_name_whichever_way_it_comes(served, ada, way):
    with pytest.raises(SectionNotWritableError) as caught:
        await way(served, "system_exchanges")
    error = caught.value
    assert (error.status, error.extra["section"], error.extra["writable"]) == (403, "system_exchanges", list(WRITABLE))
    assert "system_exchanges" in error.detail
    with pytest.raises(InvalidInputError, match="There is no section 'notes'"):
        await way(served, "notes")
    assert (await ada.memory(AGENTS, "ada")).sections == ()


async def test_a_section_is_written_over_what_was_seen_and_its_revision_is_the_tag(served, ada):
    first = await ada.put_memory(AGENTS, "ada", "long_term", {"a": 1}, source="tests", if_none_match=True)
    answer = await raw(ada, "GET", f"{ME}/memory/long_term")
    assert answer.headers["etag"] == f'"{first.revision}"'
    second = await ada.put_memory(AGENTS, "ada", "long_term", {"a": 2}, if_match=first.revision)
    with pytest.raises(PreconditionFailedError) as caught:
        await ada.put_memory(AGENTS, "ada", "long_term", {"a": 3}, if_match=first.revision)
    assert caught.value.extra["revision"] == second.revision
    (former,) = (await ada.memory_history(AGENTS, "ada", "long_term")).former
    assert (former.content, former.source) == ({"a": 1}, "tests")
    with pytest.raises(PreconditionFailedError):
        await ada.delete_memory(AGENTS, "ada", "long_term", if_match=first.revision)
    await ada.delete_memory(AGENTS, "ada", "long_term", if_match=second.revision)
    with pytest.raises(NotFoundError):
        await ada.memory_section(AGENTS, "ada", "long_term")
    bad = await raw(ada, "PUT", f"{ME}/memory/long_term", json={"content": 1}, headers={"If-Match": "nonsense"})
    assert bad.status_code == 422


async def test_items_stand_beside_each_other_and_siblings_see_what_they_are_let(ada):
    for day, visibility in (("2026-11-29", "instances"), ("2026-11-30", None)):
        await ada.put_memory(AGENTS, "ada", "daily", [day], day, visibility=visibility)
    assert [item.item for item in (await ada.memory_items(AGENTS, "ada", "daily")).items] == [
        "2026-11-29",
        "2026-11-30",
    ]
    assert (await ada.memory_section(AGENTS, "ada", "daily", "2026-11-30")).content == ["2026-11-30"]
    seen = await ada.memory_items(AGENTS, "ada", "daily", instance="night", siblings=True)
    assert [(item.instance, item.item) for item in seen.items] == [("default", "2026-11-29")]
    await ada.put_memory(AGENTS, "ada", "shared", "of all")
    assert (await ada.memory_section(AGENTS, "ada", "shared", instance="night")).content == "of all"
    await ada.delete_memory(AGENTS, "ada", "daily", "2026-11-29")
    (left,) = (await ada.memory_items(AGENTS, "ada", "daily")).items
    assert left.item == "2026-11-30"


async def test_a_sync_that_brings_the_same_writes_nothing(ada):
    sync = MemorySync(mode="full", runtime="tests", sections=(SyncedSection(section="long_term", content=1),))
    first = await ada.sync_memory(AGENTS, "ada", sync)
    assert (first.deduplicated, first.written) == (False, 1)
    assert (await ada.sync_memory(AGENTS, "ada", sync)).deduplicated


# --------------------------------------------------------------------------------------------------------------- events


async def test_an_event_is_claimed_carries_the_digest_and_is_acknowledged_by_its_claim(served, ada):
    await told(served)
    (event,) = (await ada.claim_events(AGENTS, "ada")).events
    assert (event.type, event.source, event.attempts) == ("dev.anabranch.agent.exchange.direct", ME, 1)
    digest = event.data.memory_digest
    (entry,) = digest.entries
    assert (entry.takeaway, entry.peers, digest.omitted) == ("Use the large pool.", ("bob/default",), 0)
    assert (await ada.claim_events(AGENTS, "ada")).events == ()
    (queued,) = [one async for one in ada.queued_events(AGENTS, "ada")]
    assert (queued.event_id, queued.status, queued.type) == (event.id, "claimed", event.type)
    assert queued.deadline == event.deadline
    assert not (await ada.memory(AGENTS, "ada")).system_exchanges.entries[0].seen, (
        "a look at the envelope marks nothing"
    )
    done = await ada.ack_event(AGENTS, "ada", event.id, event.claimid)
    assert await ada.ack_event(AGENTS, "ada", event.id, event.claimid) == done
    assert (await ada.memory(AGENTS, "ada")).system_exchanges.entries[0].seen
    with pytest.raises(ClaimLostError):
        await ada.ack_event(AGENTS, "ada", event.id, CLAIM)
    with pytest.raises(NotFoundError):
        await ada.ack_event(AGENTS, "ada", "absent", CLAIM)


async def test_on_the_wire_an_event_is_a_cloud_event_with_the_names_of_the_proposal(served, ada):
    await told(served)
    answer = await raw(ada, "POST", f"{ME}/events:claim", json={})
    (event,) = answer.json()["events"]
    assert event.keys() == {
        "specversion", "id", "source", "type", "subject", "time", "datacontenttype", "claimid", "attempts", "deadline",
        "data",
    }  # fmt: skip
    assert event["data"].keys() >= {"memoryRevision", "memoryDigest"}
    (entry,) = event["data"]["memoryDigest"]["entries"]
    assert entry.keys() == {"kind", "surfacePodId", "surfaceLabel", "peers", "takeaway", "ts"}
    assert answer.headers["cache-control"] == "no-store"


async def test_head_of_the_exchanges_shows_nothing_and_marks_nothing(served, ada):
    await told(served)
    assert (await raw(ada, "HEAD", f"{ME}/memory/system_exchanges")).status_code == 200
    assert [entry.seen for entry in (await ada.system_exchanges(AGENTS, "ada")).entries] == [False]


async def test_reading_the_exchanges_marks_them_and_the_next_event_brings_them_no_more(served, ada):
    await told(served)
    assert [entry.seen for entry in (await ada.system_exchanges(AGENTS, "ada")).entries] == [False], "it is news"
    assert [entry.seen for entry in (await ada.system_exchanges(AGENTS, "ada")).entries] == [True]
    (event,) = (await ada.claim_events(AGENTS, "ada")).events
    assert event.data.memory_digest.entries == ()


async def test_an_event_that_failed_says_why_and_comes_again_later(served, ada):
    await told(served)
    (event,) = (await ada.claim_events(AGENTS, "ada")).events
    state = await ada.fail_event(AGENTS, "ada", event.id, event.claimid, error="The disk is full.")
    assert state.status == "pending"
    (queued,) = [one async for one in ada.queued_events(AGENTS, "ada", status="pending")]
    assert (queued.error, queued.attempts, queued.not_before) == ("The disk is full.", 1, state.retry_at)
    assert [one async for one in ada.queued_events(AGENTS, "ada", status="claimed")] == []


async def test_the_queue_is_paged_newest_first(served, ada):
    await told(served, "ada", count=5)
    first = (await raw(ada, "GET", f"{ME}/events", params={"limit": 2})).json()
    rest = (await raw(ada, "GET", f"{ME}/events", params={"limit": 3, "cursor": first["next_cursor"]})).json()
    found = [item["event_id"] for page in (first, rest) for item in page["items"]]
    claimed = [event.id for event in (await ada.claim_events(AGENTS, "ada", limit=10)).events]
    assert found == claimed[::-1]
    other = await raw(ada, "GET", f"/v1/namespaces/{AGENTS}/agents/ada/night/events",
                      params={"cursor": first["next_cursor"]})  # fmt: skip
    assert other.status_code == 422


async def test_a_claim_waits_for_the_first_event_and_no_longer(served, ada, monkeypatch):
    monkeypatch.setattr(polling, "LOOK_SECONDS", 3_600.0)  # so that nothing but the notice wakes it
    waiting = asyncio.create_task(ada.claim_events(AGENTS, "ada", wait_seconds=20))
    await asyncio.sleep(0.3)
    began = time.monotonic()
    await told(served)
    assert len((await waiting).events) == 1
    assert time.monotonic() - began < allowed(10), "it hears of it, and does not wait for its time to be over"


async def test_a_claim_that_waits_ends_when_the_grant_is_gone(served, ada, monkeypatch):
    monkeypatch.setattr(polling, "LOOK_SECONDS", 0.2)
    for denied, error in ((grants.OWN_MEMORY, ForbiddenError), (grants.USE_AGENT_ID, NotFoundError)):
        waiting = asyncio.create_task(ada.claim_events(AGENTS, "fleet", wait_seconds=20))
        await asyncio.sleep(0.5)
        served.world.permissions.deny(denied)
        with pytest.raises(error):
            await asyncio.wait_for(waiting, 10)
        await told(served, "fleet")
        served.world.permissions.give_back()
        (event,) = (await ada.claim_events(AGENTS, "fleet")).events
        assert event.attempts == 1, "nothing was claimed for it meanwhile"


MY_EVENTS = {"name": "my_events", "arguments": {"namespace": AGENTS, "agent": "ada", "wait_seconds": 20}}


@pytest.mark.parametrize(
    ("path", "asked"),
    [
        (f"{ME}/events:claim", {"wait_seconds": 20}),
        ("/mcp", {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": MY_EVENTS}),
    ],
)
async def test_nothing_is_claimed_for_a_caller_that_hung_up(served, ada, path, asked):
    body = json.dumps(asked).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: api\r\nAuthorization: Bearer ada\r\nContent-Length: {len(body)}"
    _, hasty = await asyncio.open_connection("127.0.0.1", served.port)
    head += "\r\nAccept: application/json, text/event-stream\r\nContent-Type: application/json"
    hasty.write(f"{head}\r\n\r\n".encode() + body)
    await hasty.drain()
    await asyncio.sleep(0.5)
    hasty.close()
    await hasty.wait_closed()
    await asyncio.sleep(0.2)
    await told(served, "ada")
    await asyncio.sleep(0.5)
    (event,) = (await ada.claim_events(AGENTS, "ada")).events
    assert event.attempts == 1


async def test_a_claim_that_waits_and_a_stream_end_when_the_id_is_another_accounts(served, ada, db, monkeypatch):
    monkeypatch.setattr(polling, "LOOK_SECONDS", 0.2)
    monkeypatch.setattr(audience, "ASK_SECONDS", 0.2)
    waiting = asyncio.create_task(ada.claim_events(AGENTS, "ada", wait_seconds=20))
    async with ada._http.stream("GET", f"{ME}/events", headers={"Accept": "text/event-stream"}) as stream:
        assert stream.status_code == 200, "it has begun"
        async with db.connection() as conn:
            await conn.execute("UPDATE agents SET service_account = 'eve' WHERE agent_id = 'ada'")
        with pytest.raises(NotFoundError):
            await asyncio.wait_for(waiting, 60)
        assert b'"reason":"not_found"' in await asyncio.wait_for(stream.aread(), 60)


async def test_whether_the_grant_stands_is_not_asked_more_often_than_needed(served, ada, monkeypatch):
    monkeypatch.setattr(polling, "LOOK_SECONDS", 0.5)
    asked = []
    allowed = served.world.permissions.allowed

    async def counted(caller, grant, **options):
        asked.append(grant)
        return await allowed(caller, grant, **options)

    served.world.permissions.allowed = counted
    waiting = asyncio.create_task(ada.claim_events(AGENTS, "ada", wait_seconds=1))
    for _ in range(20):  # each wakes the poll
        await asyncio.sleep(0.04)
        served.world.db.notify(f"agent {AGENTS}/ada/default")
    await waiting
    assert 2 <= asked.count(grants.OWN_MEMORY) <= 5


async def test_the_same_exchange_is_posted_once_and_another_one_is_a_conflict(served, ada):
    body = {
        "exchange_id": "x-1", "kind": "exchange.direct", "surface": {"pod_id": "room"},
        "participants": [{"agent_id": "ada"}, {"agent_id": "bob"}], "turns": [{"sender": "bob", "content": "So."}],
    }  # fmt: skip
    path, chat = f"/v1/namespaces/{AGENTS}/exchanges", await served.client("chat")
    first, again = [await raw(chat, "POST", path, json=body) for _ in range(2)]
    assert first.json() == again.json()
    other = await raw(chat, "POST", path, json={**body, "turns": []})
    assert (other.status_code, other.json()["code"]) == (ConflictError.status, "Conflict")
    assert len((await ada.memory(AGENTS, "ada")).system_exchanges.entries) == 1


@pytest.mark.parametrize("ts", ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999Z", "9999-12-31T23:59:59-14:00"])
async def test_a_time_that_stands_for_none_is_refused_and_blocks_no_queue(served, ada, ts):
    body = {
        "exchange_id": "x-1", "kind": "exchange.direct", "surface": {"pod_id": "room"}, "ts": ts,
        "participants": [{"agent_id": "ada"}],
    }  # fmt: skip
    chat = await served.client("chat")
    of_turn = body | {"ts": None, "turns": [{"sender": "bob", "content": "So.", "ts": ts}]}
    for posted, field in ((body, "body.ts"), (of_turn, "body.turns[0].ts")):
        refused = await raw(chat, "POST", f"/v1/namespaces/{AGENTS}/exchanges", json=posted)
        assert (refused.status_code, refused.json()["errors"][0]["field"]) == (422, field)
    await told(served, "ada")
    assert len((await ada.claim_events(AGENTS, "ada")).events) == 1
