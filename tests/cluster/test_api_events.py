"""The feed over HTTP: it leads an agent from its fork onwards, within its grants, for as long as it holds them."""

from __future__ import annotations

import asyncio
import secrets
import time

import pytest
from tests.cluster.places import BASELINE, finding
from tests.pace import allowed

from anabranch.model.errors import ForbiddenError, GoneError, InvalidInputError, NotFoundError


@pytest.fixture(scope="module")
async def agent(place):
    return await place.client("agent", "anabranch-agent")


@pytest.fixture(scope="module")
async def narrow(place):
    client = await place.client("narrow", "get baselines", "watch baselines/events")
    place.allow("narrow", "scopes", "read", "shared")
    return client


async def publish(place, agent, *findings):
    branch = await place.branch(agent)
    await place.submit(agent, branch, *findings)
    return await place.publication(agent, branch)


def fresh(**options):
    return finding(f"event/{secrets.token_hex(4)}", secrets.token_hex(4), **options)


async def test_a_branch_is_born_with_the_cursor_that_follows_its_parent(place, agent):
    branch = await place.branch(agent)
    change = fresh()
    publication = await publish(place, agent, change)
    page = await agent.events(place.namespace, BASELINE, after=branch.shared_feed_cursor, wait=20)
    event = page.events[0]
    assert (event.kind, event.key, event.generation, event.revision) == (
        "published",
        change.key,
        publication.generation,
        publication.revision,
    )
    assert event.published_baseline_id == publication.published_baseline_id
    assert (await agent.events(place.namespace, BASELINE, after=page.cursor)).events == ()


async def test_a_waiting_follower_hears_of_a_publication_at_once(place, agent):
    here = (await agent.events(place.namespace, BASELINE, limit=1000)).cursor
    waiting = asyncio.create_task(agent.events(place.namespace, BASELINE, after=here, wait=30))
    await asyncio.sleep(0.2)
    change = fresh()
    await publish(place, agent, change)
    published_at = time.monotonic()
    page = await waiting
    assert [event.key for event in page.events] == [change.key]
    assert time.monotonic() - published_at < allowed(3)


async def test_a_follower_sees_its_scopes_and_moves_on_past_the_others(place, agent, narrow):
    here = (await narrow.events(place.namespace, BASELINE, limit=1000)).cursor
    hidden, shown = fresh(scope="team/build"), fresh()
    await publish(place, agent, hidden)
    page = await narrow.events(place.namespace, BASELINE, after=here)
    assert page.events == ()
    assert page.cursor != here
    await publish(place, agent, shown)
    page = await narrow.events(place.namespace, BASELINE, after=page.cursor, wait=10)
    assert [event.key for event in page.events] == [shown.key]


async def test_a_follower_may_begin_behind_any_manifest(place, agent):
    change = fresh()
    publication = await publish(place, agent, change)
    page = await agent.events(place.namespace, BASELINE, generation=publication.generation - 1)
    assert change.key in [event.key for event in page.events]
    page = await agent.events(place.namespace, BASELINE, generation="head")
    assert page.events == ()
    with pytest.raises(NotFoundError):
        await agent.events(place.namespace, BASELINE, generation=10_000)
    with pytest.raises(InvalidInputError):
        await agent.events(place.namespace, BASELINE, generation=1, after=page.cursor)


async def test_a_cursor_of_another_line_or_of_nobody_is_refused(place, agent):
    place.baseline("elsewhere")
    foreign = (await agent.events(place.namespace, "elsewhere")).cursor
    for cursor in (foreign, "made up"):
        with pytest.raises(InvalidInputError) as caught:
            await agent.events(place.namespace, BASELINE, after=cursor)
        assert caught.value.code == "InvalidCursor"


async def test_a_revoked_grant_ends_delivery_within_five_seconds(place, agent):
    follower = await place.client("revoked", "get baselines", "watch baselines/events", "read scopes")
    here = (await follower.events(place.namespace, BASELINE, limit=1000)).cursor
    bindings = place.stack.cluster.get("rolebindings", "--namespace", place.namespace)["items"]
    revoked = [binding["metadata"]["name"] for binding in bindings if binding["subjects"][0]["name"] == "revoked"]
    waiting = asyncio.create_task(follower.events(place.namespace, BASELINE, after=here, wait=30))
    await asyncio.sleep(0.5)
    place.kubectl("delete", "rolebinding", *revoked)
    started = time.monotonic()
    with pytest.raises((ForbiddenError, NotFoundError)):
        await waiting
    assert time.monotonic() - started < allowed(8), (
        "five seconds of the cache, one of the poll, and what a busy machine adds"
    )


async def test_following_needs_its_own_grant(place):
    reader = await place.client("reads-only", "get baselines,baselines/records", "read scopes")
    with pytest.raises(ForbiddenError) as caught:
        await reader.events(place.namespace, BASELINE)
    assert caught.value.extra["grant"] == "baselines/events:watch"


async def test_a_follower_that_stayed_away_too_long_is_led_back(place, agent):
    """Retention moves the floor: here by hand, as it will."""
    import asyncpg

    place.baseline("pruned", review={"mode": "Automatic"})
    start = (await agent.events(place.namespace, "pruned")).cursor
    branch = await place.branch(agent, baseline="pruned")
    await place.submit(agent, branch, fresh(), fresh())
    await place.publication(agent, branch)
    line = (await agent.baseline(place.namespace, "pruned")).line_id
    conn = await asyncpg.connect(place.stack.operator_dsn)
    try:
        async with conn.transaction():
            await conn.execute("DELETE FROM events WHERE line = $1 AND sequence <= 1", line)
            await conn.execute("UPDATE line_heads SET event_floor = 1 WHERE line = $1", line)
    finally:
        await conn.close()
    with pytest.raises(GoneError) as caught:
        await agent.events(place.namespace, "pruned", after=start)
    lost = caught.value
    assert lost.code == "CursorExpired"
    assert (lost.extra["floor"], lost.extra["watermark"]) == (1, 2)
    assert lost.extra["snapshot"] == lost.extra["head"]
    snapshot = [
        record async for record in agent.records(place.namespace, "pruned", lost.extra["snapshot"]["generation"])
    ]
    assert len(snapshot) == 5
    assert (await agent.events(place.namespace, "pruned", after=lost.extra["cursor"])).events == ()
