"""Agents' memory and events on a running whole: whose they are, and for how long a grant that is gone still works."""

from __future__ import annotations

import asyncio
import json
import time

import pytest
from tests.pace import allowed

from anabranch.client.sse import Parser
from anabranch.model.errors import ForbiddenError, NotFoundError
from anabranch.model.memory import ExchangePost, Participant, Surface, Turn


async def told(place, *agents, exchange_id):
    """Let a chat platform tell agents of an exchange."""
    platform = await place.client("chat", "anabranch-platform")
    await platform.post_exchange(
        place.namespace,
        ExchangePost(
            exchange_id=exchange_id,
            kind="exchange.direct",
            surface=Surface(pod_id="room-7"),
            participants=tuple(Participant(agent_id=agent) for agent in agents),
            turns=(Turn(sender=agents[-1], content="Use the large pool."),),
        ),
    )


async def revoke(place, account):
    bindings = json.loads(place.kubectl("get", "rolebindings", "--output=json"))["items"]
    names = [each["metadata"]["name"] for each in bindings if each["subjects"][0]["name"] == account]
    await asyncio.to_thread(place.kubectl, "delete", "rolebinding", *names)


async def test_a_deleted_role_binding_ends_a_stream_and_a_poll_of_events_within_five_seconds(place):
    agent = await place.client("hears", "anabranch-agent")
    events = f"/v1/namespaces/{place.namespace}/agents/hears/default/events"
    parser, ended, live = Parser(), [], asyncio.Event()

    async def stream():
        async with agent._http.stream("GET", events, headers={"Accept": "text/event-stream"}, timeout=60) as answer:
            live.set()
            async for piece in answer.aiter_bytes():
                ended.extend(json.loads(one.data) for one in parser.feed(piece) if one.event == "end")
        return time.monotonic()

    async def poll():
        with pytest.raises(ForbiddenError) as caught:
            await agent.claim_events(place.namespace, "hears", wait_seconds=30)
        return time.monotonic(), caught.value

    streaming, polling = asyncio.create_task(stream()), asyncio.create_task(poll())
    await live.wait()
    await asyncio.sleep(1)  # and the poll waits too
    await revoke(place, "hears")
    began = time.monotonic()
    stream_ended, (poll_ended, error) = await asyncio.gather(streaming, polling)
    assert stream_ended - began < allowed(5)
    assert poll_ended - began < allowed(5)
    assert (ended[0]["reason"], ended[0]["grant"], error.extra["grant"]) == (
        "forbidden",
        "agents/memory:update",
        "agents/memory:update",
    )
    await told(place, "hears", exchange_id="after")
    place.account("hears", "anabranch-agent")

    async def claimed():
        try:
            return (await agent.claim_events(place.namespace, "hears")).events
        except ForbiddenError:  # that it was missing is remembered for a moment
            return None

    async with asyncio.timeout(60):
        while not (found := await claimed()):  # noqa: ASYNC110  (nothing tells it)
            await asyncio.sleep(0.2)
    assert [event.attempts for event in found] == [1], "neither of them took it without the grant"


async def test_no_grant_opens_an_agents_memory_to_anybody_but_that_agent(place):
    owner = await place.client("remembers", "anabranch-agent")
    await owner.put_memory(place.namespace, "remembers", "long_term", "a secret")
    for account, *held in (
        ("curious-agent", "anabranch-agent"),
        ("curious-admin", "cluster-admin"),
        ("curious-reviewer", "anabranch-reviewer", "anabranch-publisher", "anabranch-viewer"),
        ("curious-user", "anabranch-agent", "use,delegate,impersonate,get,update agents,agents/memory"),
    ):
        other = await place.client(account, *held)
        for agent in ("remembers", "absent-and-free") if account == "curious-agent" else ("remembers",):
            with pytest.raises(NotFoundError) as caught:
                await other.memory(place.namespace, agent)
            assert caught.value.detail == f"There is no agent {place.namespace}/{agent}, or you may not see it."
            with pytest.raises(NotFoundError):
                await other.claim_events(place.namespace, agent)


async def test_an_id_that_is_no_accounts_name_is_its_first_users(place):
    for account in ("fleet-a", "fleet-b"):
        place.account(account, "anabranch-agent")
        place.allow(account, "agents", "use", "fleet")
    first, second = await place.client("fleet-a"), await place.client("fleet-b")
    await first.put_memory(place.namespace, "fleet", "long_term", "of the fleet")
    with pytest.raises(NotFoundError):
        await second.memory(place.namespace, "fleet")
    with pytest.raises(NotFoundError):
        await first.memory(place.namespace, "another")
    await told(place, "fleet", exchange_id="of-the-fleet")
    (event,) = (await first.claim_events(place.namespace, "fleet", wait_seconds=5)).events
    assert (await first.ack_event(place.namespace, "fleet", event.id, event.claimid)).status == "acked"
