"""The queue of an agent's events: claimed for a time, acknowledged by the claim, never lost, never had by two."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from uuid import uuid4

import pytest
from tests.store.dying import DyingDatabase, KilledError
from tests.store.remembering import (
    SIBLING,
    STRANGER,
    WHO,
    exchange,
    last_seen,
    note,
    put,
    takeaways,
    tell,
    unseen,
)

from anabranch.memory import delivery, envelopes
from anabranch.model.errors import ClaimLostError, NotFoundError
from anabranch.store import agent_events, exchanges

TEN_MINUTES = timedelta(minutes=10)


async def claim(db, who=WHO, *, limit=10, visibility=TEN_MINUTES):
    return await delivery.claim(db, who, limit=limit, visibility=visibility)


async def claim_one(db, who=WHO):
    (event,) = await claim(db, who, limit=1)
    return event


async def ack(db, event, who=WHO):
    return await delivery.ack(db, who, event_id=event.id, claim_id=event.claimid)


async def fail(db, event, error="It broke."):
    return await delivery.fail(db, WHO, event_id=event.id, claim_id=event.claimid, error=error)


async def run_out(db, event_id="one"):
    """Let the claim, or the pause, of an event be over."""
    async with db.connection() as conn:
        await conn.execute("UPDATE agent_events SET due_at = now() - interval '1 s' WHERE event_id = $1", event_id)


async def status(db, event_id="one", who=WHO):
    async with db.connection() as conn:
        return (await agent_events.get(conn, who, event_id=event_id)).status


def told(event):
    return [entry.takeaway for entry in event.data.memory_digest.entries]


async def test_an_event_is_told_as_a_cloud_event_with_what_else_the_agent_should_know(api_db):
    await put(api_db, "long_term", "I know.")
    await tell(api_db, "one", with_exchange=True, exchangeId="x-1")
    event = await claim_one(api_db)
    assert (event.type, event.source) == (
        "dev.anabranch.agent.exchange.direct",
        "/v1/namespaces/agents/agents/scout/pod-a",
    )
    assert (event.id, event.subject, event.attempts) == ("one", "one", 1)
    assert event.data.model_dump(mode="json") == {
        "exchangeId": "x-1",
        "memoryRevision": "2",
        "memoryDigest": {
            "entries": [
                {
                    "kind": "exchange.direct",
                    "surfacePodId": "room-7",
                    "surfaceLabel": "Planning",
                    "peers": ["planner/pod-a"],
                    "takeaway": "Said in one.",
                    "ts": "2026-11-30T12:00:00Z",
                }
            ],
            "omitted": 0,
        },
    }
    async with api_db.connection() as conn:
        left = event.deadline - await conn.fetchval("SELECT now()")
    assert timedelta(minutes=9) < left <= TEN_MINUTES


async def test_events_come_oldest_first_to_their_own_instance_alone(api_db):
    for name in ("b", "a", "c"):
        await tell(api_db, name)
    await tell(api_db, "other", SIBLING)
    await tell(api_db, "other", STRANGER)
    assert [event.id for event in await claim(api_db, limit=2)] == ["b", "a"]
    assert [event.id for event in await claim(api_db)] == ["c"]
    assert await claim(api_db) == []
    assert [event.id for event in await claim(api_db, SIBLING)] == ["other"]


async def test_an_event_comes_into_a_queue_once(api_db):
    for _ in range(2):
        await tell(api_db, "one")
    await ack(api_db, await claim_one(api_db))
    await tell(api_db, "one")
    assert await claim(api_db) == []


async def test_pollers_that_race_never_share_an_event(api_db):
    for number in range(40):
        await tell(api_db, f"e{number:02}")
    taken = [
        event.id for events in await asyncio.gather(*(claim(api_db, limit=3) for _ in range(20))) for event in events
    ]
    assert sorted(taken) == sorted(set(taken))
    assert len(taken) + len(await claim(api_db, limit=100)) == 40


async def test_pollers_of_one_moment_do_not_wait_for_each_other(db, api_db):
    await tell(api_db, "one")
    await tell(api_db, "two")
    async with db.transaction() as conn:
        ((first,), _) = await agent_events.claim(conn, WHO, limit=1, visibility=TEN_MINUTES)
        second = await asyncio.wait_for(claim_one(api_db), 30)
    assert (first.event_id, second.id) == ("one", "two")


async def test_an_acknowledgement_marks_what_was_told_under_that_claim_and_nothing_else(api_db):
    await note(api_db, *(exchange(exchange_id=f"x{number}") for number in range(8)))
    await tell(api_db, "one")
    event = await claim_one(api_db)
    assert told(event) == [f"Said in x{number}." for number in (7, 6, 5, 4, 3)]
    assert (event.data.memory_digest.omitted, event.data.memory_revision) == (3, "8")
    await note(api_db, exchange(exchange_id="later"))
    assert await unseen(api_db) == list(range(9, 0, -1))  # to be told is not to have acknowledged
    await ack(api_db, event)
    assert await unseen(api_db) == [9, 3, 2, 1]
    assert await last_seen(api_db) == 8


async def test_entries_of_one_answer_are_told_once_by_the_first_event_with_room(api_db):
    await note(api_db, *(exchange(exchange_id=f"x{number}") for number in range(7)))
    for name in ("one", "two", "three"):
        await tell(api_db, name)
    first, second, third = await claim(api_db)
    assert [told(event) for event in (first, second, third)] == [
        [f"Said in x{number}." for number in (6, 5, 4, 3, 2)],
        ["Said in x1.", "Said in x0."],
        [],
    ]
    assert [event.data.memory_digest.omitted for event in (first, second, third)] == [2, 0, 0]
    await ack(api_db, second)
    assert await unseen(api_db) == [7, 6, 5, 4, 3]


async def test_what_was_told_and_not_acknowledged_is_told_again(api_db):
    await note(api_db, exchange(exchange_id="x"))
    await tell(api_db, "one")
    await tell(api_db, "two")
    assert told(await claim_one(api_db)) == ["Said in x."]
    assert told(await claim_one(api_db)) == ["Said in x."]


async def test_what_a_former_claim_told_is_not_seen_by_an_acknowledgement_of_the_next_one(api_db):
    await note(api_db, exchange(exchange_id="x"))
    for name in ("one", "two"):
        await tell(api_db, name)
        assert told(await claim_one(api_db)) == ["Said in x."]
    for name in ("one", "two"):
        await run_out(api_db, name)
    first, second = await claim(api_db)
    assert (told(first), told(second)) == (["Said in x."], [])
    await ack(api_db, second)
    assert await unseen(api_db) == [1]
    await ack(api_db, first)
    assert await unseen(api_db) == []


async def test_an_event_finds_its_own_exchange_whoever_writes_at_that_moment(api_db):
    """An event that can be seen was committed with its exchange, so no digest lacks it."""
    writing = asyncio.gather(*(tell(api_db, f"e{number:02}", with_exchange=True) for number in range(40)))
    seen, heard = set(), {}
    while len(heard) < 40:
        for event in await claim(api_db, limit=1):
            seen.update(told(event))
            heard[event.id] = told(event)
            await ack(api_db, event)
            assert f"Said in {event.id}." in seen or event.data.memory_digest.omitted > 0
    await writing
    assert await status(api_db, "e07") == "acked"


async def test_acknowledging_again_gives_the_same_answer_and_changes_nothing(api_db):
    await tell(api_db, "one", with_exchange=True)
    event = await claim_one(api_db)
    first = await ack(api_db, event)
    assert (first.status, first.retry_at, first.memory_revision) == ("acked", None, "1")
    await note(api_db, exchange())
    assert [await ack(api_db, event) for _ in range(2)] == [first, first]
    assert (await asyncio.gather(*(ack(api_db, event) for _ in range(5)))) == [first] * 5
    assert await unseen(api_db) == [2]
    assert await last_seen(api_db) == 1


async def test_what_the_agent_has_seen_only_ever_grows(api_db):
    await tell(api_db, "one", with_exchange=True)
    earlier = await claim_one(api_db)
    await tell(api_db, "two", with_exchange=True)
    later = await claim_one(api_db)
    await ack(api_db, later)
    assert await last_seen(api_db) == 2
    await ack(api_db, earlier)
    assert await last_seen(api_db) == 2
    await envelopes.read_section(api_db, WHO, section="system_exchanges")
    assert await last_seen(api_db) == 2


async def test_the_events_of_a_poller_that_crashed_come_back_and_its_late_acknowledgement_does_no_harm(api_db):
    await tell(api_db, "one", with_exchange=True)
    crashed = await claim_one(api_db)
    assert await claim(api_db) == []
    await run_out(api_db)
    again = await claim_one(api_db)
    assert (again.id, again.attempts, told(again)) == ("one", 2, ["Said in one."])
    assert again.claimid != crashed.claimid
    with pytest.raises(ClaimLostError, match="it is claimed"):
        await ack(api_db, crashed)
    with pytest.raises(ClaimLostError):
        await fail(api_db, crashed)
    assert await unseen(api_db) == [1]
    assert await last_seen(api_db) == 0
    await ack(api_db, again)
    with pytest.raises(ClaimLostError, match="it is acked"):
        await ack(api_db, crashed)
    assert await unseen(api_db) == []


async def test_a_claim_that_ran_out_holds_until_somebody_else_claims(api_db):
    await tell(api_db, "one", with_exchange=True)
    event = await claim_one(api_db)
    await run_out(api_db)
    assert (await ack(api_db, event)).status == "acked"
    assert await claim(api_db) == []
    assert await unseen(api_db) == []


async def test_an_event_that_nobody_acknowledges_is_told_three_times_and_given_up(api_db):
    await tell(api_db, "one")
    await tell(api_db, "two")
    for attempt in (1, 2, 3):
        event = await claim_one(api_db)
        assert (event.id, event.attempts) == ("one", attempt)
        await run_out(api_db)
    assert [event.id for event in await claim(api_db)] == ["two"]  # the one given up takes nobody's place
    assert await status(api_db) == "failed"
    with pytest.raises(ClaimLostError, match="it is failed"):
        await ack(api_db, event)


async def test_a_claim_looks_at_the_front_of_the_queue_however_many_wait_behind_it(db):
    async with db.connection() as conn:
        await conn.execute(
            "INSERT INTO agent_events (namespace, agent_id, instance, event_id, kind, data, happened_at) "
            "SELECT $1, $2, $3, 'e' || n, 'exchange.direct', '{}', now() FROM generate_series(1, 5000) AS n",
            *WHO.columns.values(),
        )
    async with db.transaction() as conn:
        taken, _ = await agent_events.claim(conn, WHO, limit=1, visibility=TEN_MINUTES)
        looked_at = await conn.fetchval(
            "SELECT idx_tup_fetch FROM pg_stat_xact_user_tables WHERE relname = 'agent_events'"
        )
    assert [event.event_id for event in taken] == ["e1"]
    assert 0 < looked_at < 500


async def test_an_event_that_could_not_be_dealt_with_comes_again_after_a_pause(api_db):
    await tell(api_db, "one", with_exchange=True)
    event = await claim_one(api_db)
    state = await fail(api_db, event)
    assert state.status == "pending"
    async with api_db.connection() as conn:
        left = state.retry_at - await conn.fetchval("SELECT now()")
    assert timedelta(seconds=10) < left <= timedelta(seconds=30)
    assert await claim(api_db) == []
    assert await fail(api_db, event) == state
    with pytest.raises(ClaimLostError, match="it is pending"):
        await ack(api_db, event)
    assert await unseen(api_db) == [1]
    await run_out(api_db)
    assert (await claim_one(api_db)).attempts == 2


async def test_the_third_failure_is_the_last(api_db):
    await tell(api_db, "one")
    for _ in range(3):
        event = await claim_one(api_db)
        state = await fail(api_db, event)
        await run_out(api_db)
    assert (state.status, state.retry_at, state.attempts) == ("failed", None, 3)
    assert await fail(api_db, event) == state
    assert await claim(api_db) == []


async def test_a_claim_on_another_agents_event_or_on_none_is_nothing(api_db):
    await tell(api_db, "one")
    event = await claim_one(api_db)
    for who in (SIBLING, STRANGER):
        with pytest.raises(NotFoundError):
            await ack(api_db, event, who)
    with pytest.raises(ClaimLostError):
        await delivery.ack(api_db, WHO, event_id="one", claim_id=uuid4())
    assert await status(api_db) == "claimed"


@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
async def test_a_claim_whose_process_is_killed_is_whole_or_was_never_made(api_db, before):
    await note(api_db, *(exchange() for _ in range(3)))
    await tell(api_db, "one")
    with pytest.raises(KilledError):
        await claim(DyingDatabase(api_db, at=1, before=before))
    async with api_db.connection() as conn:
        row = await conn.fetchrow("SELECT * FROM agent_events")
    made = (row["status"], row["attempts"], sorted(row["delivered"]), row["memory_revision_at_delivery"])
    assert made == (("pending", 0, [], None) if before else ("claimed", 1, [1, 2, 3], 3))


async def test_an_exchange_that_fell_out_while_it_was_told_marks_no_other_as_seen(api_db):
    await note(api_db, exchange(exchange_id="old"))
    await tell(api_db, "one")
    event = await claim_one(api_db)
    await note(api_db, *(exchange() for _ in range(50)))
    assert "Said in old." not in await takeaways(api_db)
    await ack(api_db, event)
    assert len(await unseen(api_db)) == 50


async def test_acknowledgements_and_new_exchanges_do_not_deadlock(api_db):
    for number in range(20):
        await tell(api_db, f"e{number}", with_exchange=True)
    events = await claim(api_db, limit=20)

    async def append():
        async with api_db.transaction() as conn:  # a lost race would come out of it
            await exchanges.append(conn, [exchange() for _ in range(50)])

    await asyncio.gather(*(ack(api_db, event) for event in events), *(append() for _ in range(10)))
    assert await status(api_db, "e7") == "acked"
