"""What the platform notes for an agent: once, in order, the newest fifty, and for nobody else."""

from __future__ import annotations

import asyncio

import asyncpg
import pytest
from tests.store.branching import blocked
from tests.store.remembering import (
    SIBLING,
    STRANGER,
    WHO,
    exchange,
    last_seen,
    note,
    put,
    revision,
    sync_of,
    takeaways,
    unseen,
    written,
)

from anabranch.memory import envelopes, syncing
from anabranch.model.errors import ConflictError
from anabranch.model.limits import EXCHANGES_KEPT
from anabranch.store import exchanges


async def seen_by(db, who=WHO):
    return await envelopes.read_section(db, who, section="system_exchanges")


async def test_two_hundred_at_once_lose_none_and_keep_order_and_cap(api_db):
    ids = [f"x{number:03}" for number in range(200)]
    appended = await asyncio.gather(*(note(api_db, exchange(exchange_id=each)) for each in ids))
    assert all(one.new for (one,) in appended)
    entries = (await envelopes.read(api_db, WHO)).system_exchanges.entries
    assert [int(entry.revision) for entry in entries] == list(range(200, 150, -1))
    assert await revision(api_db) == 200
    # The newest fifty by the order in which they came in, each of them once.
    assert len({entry.takeaway for entry in entries}) == EXCHANGES_KEPT
    async with api_db.connection() as conn:
        assert await conn.fetchval("SELECT count(*) FROM agent_receipts") == 200
        assert await conn.fetchval("SELECT count(*) FROM agent_exchanges") == EXCHANGES_KEPT


async def test_many_in_one_statement_are_noted_in_their_order_and_the_oldest_fall_out(api_db):
    await note(api_db, exchange(exchange_id="before"))
    await note(api_db, *(exchange(exchange_id=f"x{number:03}") for number in range(120)))
    assert await takeaways(api_db) == [f"Said in x{number:03}." for number in range(119, 69, -1)]
    assert await revision(api_db) == 121


async def test_both_peers_get_it_in_one_transaction_or_neither(api_db):
    async def breaks_off(conn):
        await exchanges.append(conn, [exchange(WHO, "a"), exchange(STRANGER, "a")])
        raise RuntimeError

    with pytest.raises(RuntimeError):
        await api_db.run(breaks_off)
    assert await takeaways(api_db) == await takeaways(api_db, STRANGER) == []
    await note(api_db, exchange(WHO, "a"), exchange(STRANGER, "a"))
    assert await takeaways(api_db) == await takeaways(api_db, STRANGER) == ["Said in a."]
    assert await takeaways(api_db, SIBLING) == []


async def test_peers_who_write_to_each_other_from_both_sides_do_not_deadlock(api_db):
    def pair(number):
        both = [exchange(WHO, f"x{number}"), exchange(STRANGER, f"x{number}")]
        return both if number % 2 else both[::-1]

    async def once(number):
        async with api_db.transaction() as conn:  # a lost race would come out of it
            await exchanges.append(conn, pair(number))

    await asyncio.gather(*(once(number) for number in range(60)))
    assert await revision(api_db) == await revision(api_db, STRANGER) == 60
    assert await takeaways(api_db) == await takeaways(api_db, STRANGER)


async def test_an_exchange_that_comes_again_is_noted_once_however_late(api_db):
    (first,) = await note(api_db, exchange(exchange_id="a"))
    await note(api_db, *(exchange() for _ in range(EXCHANGES_KEPT)))
    before = await takeaways(api_db)
    (again,) = await note(api_db, exchange(exchange_id="a"))
    assert (again.new, again.received_at) == (False, first.received_at)
    assert await takeaways(api_db) == before
    assert await revision(api_db) == EXCHANGES_KEPT + 1


async def test_an_exchange_that_comes_twice_at_once_is_noted_once(api_db):
    answers = await asyncio.gather(
        *(note(api_db, exchange(exchange_id="a"), exchange(STRANGER, "a")) for _ in range(20))
    )
    assert sum(one.new for answer in answers for one in answer) == 2
    assert await takeaways(api_db) == await takeaways(api_db, STRANGER) == ["Said in a."]
    (one, other) = await note(api_db, exchange(exchange_id="b"), exchange(exchange_id="b"))
    assert one.received_at == other.received_at
    assert await revision(api_db) == 2


async def test_another_exchange_under_the_same_id_is_a_conflict_and_nothing_of_it_is_kept(api_db):
    await note(api_db, exchange(exchange_id="a"))
    with pytest.raises(ConflictError, match="posted before, with other content"):
        await note(api_db, exchange(STRANGER, "a"), exchange(WHO, "a", takeaway="Otherwise."))
    assert await takeaways(api_db) == ["Said in a."]
    assert await takeaways(api_db, STRANGER) == []


async def test_reading_the_section_marks_exactly_what_was_read_as_seen(api_db):
    await note(api_db, exchange(exchange_id="a"), exchange(exchange_id="b"))
    read = await seen_by(api_db)
    assert [(entry.takeaway, entry.seen) for entry in read.entries] == [("Said in b.", False), ("Said in a.", False)]
    assert (read.visibility, read.revision) == ("private", "2")
    await note(api_db, exchange(exchange_id="c"))
    assert await unseen(api_db) == [3]
    assert await last_seen(api_db) == 2
    assert [entry.seen for entry in (await seen_by(api_db)).entries] == [False, True, True]
    assert await unseen(api_db) == []
    assert await last_seen(api_db) == 3


async def test_what_comes_in_while_the_section_is_read_stays_unseen(api_db):
    """The reader waits for a writer whose exchange it does not see: that one takes a slot that the reader has read."""
    await note(api_db, *(exchange() for _ in range(EXCHANGES_KEPT)))
    async with api_db.transaction() as conn:
        await exchanges.append(conn, [exchange(exchange_id="new")])
        reading = asyncio.create_task(seen_by(api_db))
        await blocked(api_db, reading)
    read = await reading
    assert "Said in new." not in [entry.takeaway for entry in read.entries]
    assert await unseen(api_db) == [EXCHANGES_KEPT + 1]
    assert await last_seen(api_db) == EXCHANGES_KEPT


async def test_an_exchange_is_unseen_in_whichever_slot_it_comes(api_db):
    await note(api_db, *(exchange() for _ in range(EXCHANGES_KEPT)))
    await seen_by(api_db)
    await note(api_db, exchange())
    assert await unseen(api_db) == [EXCHANGES_KEPT + 1]


async def test_reading_what_is_seen_writes_nothing(api_db):
    await note(api_db, exchange())
    await seen_by(api_db)
    async with api_db.connection() as conn:
        before = await conn.fetch("SELECT xmin FROM agent_envelopes UNION ALL SELECT xmin FROM agent_exchanges")
        await seen_by(api_db)
        assert before == await conn.fetch("SELECT xmin FROM agent_envelopes UNION ALL SELECT xmin FROM agent_exchanges")


async def test_looking_at_the_envelope_marks_nothing_as_seen(api_db):
    await note(api_db, exchange())
    await envelopes.read(api_db, WHO)
    assert await unseen(api_db) == [1]


async def test_what_the_platform_notes_lets_a_sync_be_recognised_and_survives_a_full_one(api_db):
    body = sync_of("full", {"long_term": "I know."})
    await syncing.sync(api_db, WHO, body)
    await note(api_db, exchange(exchange_id="a"))
    assert (await syncing.sync(api_db, WHO, body)).deduplicated
    await syncing.sync(api_db, WHO, sync_of("full", {}))
    assert await written(api_db) == {}
    assert await takeaways(api_db) == ["Said in a."]


async def test_sections_and_exchanges_share_the_revisions_of_their_envelope(api_db):
    assert (await put(api_db, "long_term", 1)).revision == "1"
    await note(api_db, exchange())
    assert (await put(api_db, "long_term", 2)).revision == "3"
    assert [entry.revision for entry in (await envelopes.read(api_db, WHO)).system_exchanges.entries] == ["2"]


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("slot", "50"),
        ("takeaway", "repeat('x', 281)"),
        ("surface_label", "repeat('x', 65)"),
        ("surface_pod_id", "repeat('x', 129)"),
        ("peers", "'[1,2,3,4,5,6,7,8,9]'"),
    ],
)
async def test_the_table_itself_bounds_an_exchange(db, column, value):
    await note(db, exchange())
    async with db.connection() as conn:
        with pytest.raises(asyncpg.CheckViolationError):
            await conn.execute(f"UPDATE agent_exchanges SET {column} = {value}")


async def test_no_exchange_can_be_anything_but_private(db):
    """There is no column that could say so, and the sections, which have one, take no such section."""
    await put(db, "long_term", 1)
    async with db.connection() as conn:
        columns = await conn.fetch(
            "SELECT column_name FROM information_schema.columns WHERE table_name = 'agent_exchanges'"
        )
        assert "visibility" not in {row["column_name"] for row in columns}
        with pytest.raises(asyncpg.CheckViolationError):
            await conn.execute("UPDATE agent_sections SET section = 'system_exchanges', visibility = 'instances'")
