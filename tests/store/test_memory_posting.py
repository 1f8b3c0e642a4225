"""Exchanges that a chat platform posts: noted for all who took part or for none, once, and told to each."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
from tests.store.dying import DyingDatabase, KilledError

from anabranch.memory import delivery, exchanges, expiry
from anabranch.model.errors import ConflictError, InvalidInputError
from anabranch.model.memory import AgentKey, ExchangePost
from anabranch.store import agent_events
from anabranch.telemetry.of_api import API

ADA = AgentKey(namespace="agents", agent_id="ada", instance="default")
BOB = AgentKey(namespace="agents", agent_id="bob", instance="night")
VISIBILITY = timedelta(minutes=10)


def posted(exchange_id="x1", **members):
    return ExchangePost.model_validate(
        {
            "exchange_id": exchange_id,
            "kind": "exchange.direct",
            "surface": {"pod_id": "room-7", "label": "Builds"},
            "participants": [{"agent_id": "ada"}, {"agent_id": "bob", "instance": "night"}],
            "turns": [
                {"sender": "ada", "content": "Who keeps the cache?"},
                {"sender": "bob", "content": "I do, for a week."},
                {"sender": "bob", "content": "NO_REPLY"},
            ],
        }
        | members
    )


async def post(db, body):
    return await exchanges.post(db, namespace="agents", body=body, poster="platform")


async def claim(db, who):
    return await delivery.claim(db, who, limit=100, visibility=VISIBILITY)


async def counts(db):
    async with db.connection() as conn:
        return tuple(
            [
                await conn.fetchval(f"SELECT count(*) FROM {table}")
                for table in ("agent_exchanges", "agent_events", "agent_receipts")
            ]
        )


async def test_all_who_took_part_are_told_what_was_said_last(db):
    await post(db, posted())

    for who, peer in ((ADA, "bob/night"), (BOB, "ada/default")):
        (event,) = await claim(db, who)
        assert event.type == "dev.anabranch.agent.exchange.direct"
        told = event.data.model_dump(mode="json", by_alias=True)
        (entry,) = told["memoryDigest"]["entries"]
        assert (entry["takeaway"], entry["peers"], entry["surfaceLabel"]) == ("I do, for a week.", [peer], "Builds")
        assert told["memoryRevision"] == "1"
        assert told["exchangeId"] == "x1"
        assert "Who keeps" not in str(told)


async def test_an_exchange_was_when_it_says_or_when_its_last_turn_was_said(db):
    said = {"sender": "bob", "content": "Done.", "ts": "2026-11-30T12:00:00Z"}
    await post(db, posted("given", ts="2026-11-29T12:00:00Z", turns=[said]))
    await post(db, posted("of-its-turn", turns=[{"sender": "ada", "content": "Well?"}, said]))
    await post(db, posted("now"))
    given, of_its_turn, now = [event.time.isoformat() for event in await claim(db, ADA)]
    assert (given, of_its_turn) == ("2026-11-29T12:00:00+00:00", "2026-11-30T12:00:00+00:00")
    assert now > of_its_turn


async def test_the_same_again_is_the_same_exchange_and_another_under_its_id_is_refused_whole(db):
    first = await post(db, posted())
    assert await post(db, posted()) == first
    said_in_full = posted(
        participants=[{"agent_id": "ada", "instance": "default"}, {"agent_id": "bob", "instance": "night"}]
    )
    assert await post(db, said_in_full) == first
    assert await counts(db) == (2, 2, 2)
    other = posted(participants=[{"agent_id": "eve"}, {"agent_id": "ada"}])
    with pytest.raises(ConflictError):
        await post(db, other)
    assert await counts(db) == (2, 2, 2)


async def test_many_posts_of_one_exchange_at_once_note_it_once(db):
    receipts = await asyncio.gather(*(post(db, posted()) for _ in range(8)))
    assert len({receipt.received_at for receipt in receipts}) == 1
    assert await counts(db) == (2, 2, 2)


async def test_a_participant_that_is_named_twice_is_refused(db):
    with pytest.raises(InvalidInputError):
        await post(db, posted(participants=[{"agent_id": "ada"}, {"agent_id": "ada", "instance": "default"}]))
    assert await counts(db) == (0, 0, 0)


@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
async def test_a_post_that_is_cut_off_is_noted_for_all_or_for_none_and_sent_again_for_all(db, before):
    with pytest.raises(KilledError):
        await post(DyingDatabase(db, at=1, before=before), posted())
    assert await counts(db) == ((0, 0, 0) if before else (2, 2, 2))
    for _ in range(2):
        await post(db, posted())
    assert await counts(db) == (2, 2, 2)


async def test_events_are_kept_for_some_days_fetched_or_not_and_never_taken_from_who_works_on_them(db):
    for name in ("acknowledged", "claimed", "pending", "fresh"):
        await post(db, posted(name, participants=[{"agent_id": name}]))
    acknowledged, claimed = (
        AgentKey(namespace="agents", agent_id=n, instance="default") for n in ("acknowledged", "claimed")
    )
    (event,) = await claim(db, acknowledged)
    await delivery.ack(db, acknowledged, event_id=event.id, claim_id=event.claimid)
    (held,) = await claim(db, claimed)
    async with db.connection() as conn:
        for table, column in (("agent_events", "created_at"), ("agent_receipts", "received_at")):
            await conn.execute(f"UPDATE {table} SET {column} = now() - interval '8 d' WHERE agent_id <> 'fresh'")

    assert not await expiry.turn(db, keep=timedelta(days=7))

    async with db.connection() as conn:
        left = await conn.fetch("SELECT agent_id FROM agent_events ORDER BY agent_id")
        assert [row["agent_id"] for row in left] == ["claimed", "fresh"]
        assert await conn.fetchval("SELECT agent_id FROM agent_receipts") == "fresh"
    assert (await counts(db))[0] == 4  # what happened stays in memory
    assert (await delivery.ack(db, claimed, event_id=held.id, claim_id=held.claimid)).status == "acked"
    await expiry.turn(db, keep=timedelta(days=7))
    assert (await counts(db))[1] == 1


async def test_an_old_event_that_somebody_is_about_to_claim_is_left_and_waited_for_by_nobody(db):
    await post(db, posted(participants=[{"agent_id": "ada"}]))
    async with db.connection() as conn:
        await conn.execute("UPDATE agent_events SET created_at = now() - interval '8 d'")
    async with db.transaction() as conn:
        ((event,), _) = await agent_events.claim(conn, ADA, limit=1, visibility=VISIBILITY)
        async with asyncio.timeout(30):
            assert not await expiry.turn(db, keep=timedelta(days=7))
    assert (await delivery.ack(db, ADA, event_id=event.event_id, claim_id=event.claim_id)).status == "acked"


async def test_what_is_done_with_events_is_counted(db):
    def counted(outcome):
        return API.registry.get_sample_value("anabranch_agent_events_total", {"outcome": outcome}) or 0

    outcomes = ("told", "told_again", "acknowledged", "given_back")
    before = [counted(outcome) for outcome in outcomes]
    await post(db, posted())
    (event,) = await claim(db, ADA)
    await delivery.fail(db, ADA, event_id=event.id, claim_id=event.claimid, error="busy")
    async with db.connection() as conn:
        await conn.execute("UPDATE agent_events SET due_at = now()")
    (again,) = await claim(db, ADA)
    await delivery.ack(db, ADA, event_id=again.id, claim_id=again.claimid)
    assert [counted(outcome) for outcome in outcomes] == [one + 1 for one in before]


async def test_the_old_goes_in_pieces(db, monkeypatch):
    monkeypatch.setattr(expiry, "ROWS", 2)
    for number in range(3):
        await post(db, posted(str(number), participants=[{"agent_id": "ada"}]))
    turns = [await expiry.turn(db, keep=timedelta(seconds=-1)) for _ in range(2)]
    assert turns == [True, False]
    assert (await counts(db))[1:] == (0, 0)
