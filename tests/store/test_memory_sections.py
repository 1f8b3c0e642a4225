"""What an agent writes down: section by section, at revisions that are never given twice, and nothing but its own."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest
from tests.store.dying import DyingDatabase, KilledError
from tests.store.remembering import SIBLING, STRANGER, WHO, exchange, note, put, revision, sync_of, takeaways, written

from anabranch.memory import envelopes, syncing, writable
from anabranch.model.errors import (
    InvalidInputError,
    NotFoundError,
    PreconditionFailedError,
    QuotaExceededError,
    SectionNotWritableError,
    TooLargeError,
)
from anabranch.model.memory import WRITABLE, PutSection
from anabranch.store import envelopes as store_envelopes
from anabranch.store import sections

EMPTY = sync_of("full", {})


async def read(db, section, item=None, who=WHO, **more):
    return await envelopes.read_section(db, who, section=section, item=item, **more)


async def delete(db, section, item=None, *, expected=None, who=WHO):
    return await envelopes.delete(db, who, section=section, item=item, expected=expected)


async def former(db, section, item=None):
    found = await envelopes.history(db, WHO, section=section, item=item)
    return [each.content for each in found.former]


async def visible_to_siblings(db, section, item=None):
    found = await read(db, section, item, who=SIBLING, siblings=True)
    return [(each.instance, each.item, each.content) for each in found.items]


async def test_a_section_comes_back_with_all_that_is_known_of_it(api_db):
    written_now = await put(api_db, "long_term", {"b": 1, "a": "é"}, visibility="instances", source="runner 7")
    found = await read(api_db, "long_term")
    assert found == written_now
    assert (found.content, found.bytes, found.source, found.instance) == ({"a": "é", "b": 1}, 16, "runner 7", "pod-a")
    assert (found.visibility, found.revision, found.item) == ("instances", "1", None)


@pytest.mark.parametrize("content", [None, False, 0, "", [], {}, "a\x00b", 1e21, -0.5, "🙂"], ids=repr)
async def test_any_json_value_can_be_remembered(api_db, content):
    await put(api_db, "dedup_state", content)
    assert (await read(api_db, "dedup_state")).content == content


async def test_days_and_relationships_are_written_item_by_item(api_db):
    await put(api_db, "daily", "Monday.", "2026-11-30")
    await put(api_db, "daily", "Sunday.", "2026-11-29")
    await put(api_db, "relationships", "Reliable.", "pod-b")
    assert await written(api_db) == {
        "daily/2026-11-29": "Sunday.",
        "daily/2026-11-30": "Monday.",
        "relationships/pod-b": "Reliable.",
    }
    assert (await read(api_db, "daily", "2026-11-30")).content == "Monday."
    assert [each.item for each in (await read(api_db, "daily")).items] == ["2026-11-29", "2026-11-30"]
    assert (await read(api_db, "relationships", who=STRANGER)).items == ()


@pytest.mark.parametrize(
    ("section", "item"),
    [
        ("long_term", "x"),
        ("shared", "pod-b"),
        ("daily", None),
        ("daily", "2026-02-30"),
        ("daily", "20261130"),
        ("daily", "2026-W49-1"),
        ("relationships", ""),
        ("relationships", "Pod B"),
        ("relationships", "-" + "x" * 62),
        ("nonsense", None),
        ("nonsense\x00", None),
    ],
)
async def test_what_is_no_section_or_item_is_refused_by_name(api_db, section, item):
    for attempt in (
        lambda: put(api_db, section, 1, item),
        lambda: delete(api_db, section, item),
        lambda: syncing.sync(api_db, WHO, sync_of("patch", {f"{section}/{item or ''}": 1})),
    ):
        with pytest.raises(InvalidInputError, match=r"no section|no items|is a date|is another instance"):
            await attempt()
    assert await revision(api_db) == 0


async def test_what_the_platform_writes_no_agent_does_by_any_way(api_db):
    await note(api_db, exchange(exchange_id="a"))
    for attempt in (
        lambda: put(api_db, "system_exchanges", []),
        lambda: delete(api_db, "system_exchanges"),
        lambda: syncing.sync(api_db, WHO, sync_of("full", {"long_term": 1, "system_exchanges": []})),
        lambda: syncing.sync(api_db, WHO, sync_of("patch", {"system_exchanges": []})),
    ):
        with pytest.raises(SectionNotWritableError, match="written by the platform alone") as refused:
            await attempt()
        assert refused.value.extra == {"section": "system_exchanges", "writable": list(WRITABLE)}
        assert refused.value.status == 403
    assert await takeaways(api_db) == ["Said in a."]
    assert (await written(api_db), await revision(api_db)) == ({}, 1)


async def test_writes_hold_at_the_revision_that_the_writer_saw(api_db):
    first = await put(api_db, "long_term", 1, expected=0)
    for expected in (0, int(first.revision) + 1):
        with pytest.raises(PreconditionFailedError, match="is at revision 1") as refused:
            await put(api_db, "long_term", 2, expected=expected)
        assert refused.value.extra == {"revision": "1"}
    second = await put(api_db, "long_term", 2, expected=1)
    with pytest.raises(PreconditionFailedError):
        await delete(api_db, "long_term", expected=1)
    assert await delete(api_db, "long_term", expected=int(second.revision)) == 3
    with pytest.raises(PreconditionFailedError, match="is absent"):
        await put(api_db, "long_term", 3, expected=2)
    with pytest.raises(NotFoundError):
        await delete(api_db, "long_term")
    with pytest.raises(NotFoundError):
        await read(api_db, "long_term")
    assert (await put(api_db, "long_term", 3, expected=0)).revision == "4"  # what was refused has used up no revision


async def test_of_many_who_saw_the_same_one_writes(api_db):
    await put(api_db, "long_term", 0)
    attempts = (put(api_db, "long_term", number, expected=1) for number in range(20))
    answers = await asyncio.gather(*attempts, return_exceptions=True)
    assert sum(isinstance(answer, PreconditionFailedError) for answer in answers) == 19
    assert await revision(api_db) == 2


async def test_writes_at_once_get_each_a_revision_of_its_own(api_db):
    days = [f"2026-11-{day:02}" for day in range(1, 31)]
    rows = await asyncio.gather(
        *(put(api_db, "daily", day, day) for day in days), *(note(api_db, exchange()) for _ in range(30))
    )
    entries = (await envelopes.read(api_db, WHO)).system_exchanges.entries
    given = [int(row.revision) for row in rows[:30]] + [int(entry.revision) for entry in entries]
    assert sorted(given) == list(range(1, 61))


async def test_whatever_is_not_known_to_be_more_than_private_is_private(api_db, db):
    await put(api_db, "long_term", "secret")
    await put(api_db, "daily", "told", "2026-11-30", visibility="instances")
    await put(api_db, "daily", "untold", "2026-12-01", visibility="private")
    assert await visible_to_siblings(api_db, "daily") == [("pod-a", "2026-11-30", "told")]
    assert await visible_to_siblings(api_db, "long_term") == []
    for unknown in ("NULL", "'everybody'", "'INSTANCES'", "''"):
        async with db.connection() as conn:  # as a newer release, or a damaged row, has it
            await conn.execute(f"UPDATE agent_sections SET visibility = {unknown}")
        assert await visible_to_siblings(api_db, "daily") == []
        assert {each.visibility for each in (await envelopes.read(api_db, WHO)).sections} == {"private"}


async def test_a_write_that_says_no_visibility_makes_a_section_private_again(api_db):
    await put(api_db, "long_term", 1, visibility="instances")
    await put(api_db, "long_term", 2)
    assert await visible_to_siblings(api_db, "long_term") == []


async def test_siblings_are_the_same_agent_and_nobody_else(api_db):
    for who in (WHO, SIBLING, STRANGER):
        await put(api_db, "relationships", who.peer, "pod-z", who=who, visibility="instances")
    assert await visible_to_siblings(api_db, "relationships") == [("pod-a", "pod-z", "scout/pod-a")]
    assert await visible_to_siblings(api_db, "relationships", "pod-y") == []
    found = await read(api_db, "relationships", who=STRANGER, siblings=True)
    assert found.items == ()


async def test_a_look_at_siblings_is_bounded_and_says_what_it_leaves_out(api_db, monkeypatch):
    for day in range(1, 6):
        await put(api_db, "daily", "x" * 100, f"2026-11-{day:02}", visibility="instances")
    monkeypatch.setattr(sections, "LOOK_ITEMS", 3)
    found = await read(api_db, "daily", who=SIBLING, siblings=True)
    assert ([each.item for each in found.items], found.omitted) == (["2026-11-01", "2026-11-02", "2026-11-03"], 2)
    for most, shown in ((220, 2), (10, 1)):
        monkeypatch.setattr(sections, "LOOK_BYTES", most)
        found = await read(api_db, "daily", who=SIBLING, siblings=True)
        assert (len(found.items), found.omitted) == (shown, 5 - shown)


async def test_what_is_shared_is_one_for_all_instances_and_for_nobody_else(api_db):
    first = await put(api_db, "shared", "From a.")
    assert (first.instance, first.visibility) == (None, "instances")
    assert await written(api_db, SIBLING) == {"shared": "From a."}
    second = await put(api_db, "shared", "From b.", who=SIBLING, expected=int(first.revision))
    with pytest.raises(PreconditionFailedError):
        await put(api_db, "shared", "From a again.", expected=int(first.revision))
    assert await read(api_db, "shared") == second
    assert await written(api_db, STRANGER) == {}
    with pytest.raises(NotFoundError):
        await read(api_db, "shared", who=STRANGER)
    with pytest.raises(InvalidInputError, match="all the agent's instances"):
        await put(api_db, "shared", "Mine.", visibility="private")
    assert await revision(api_db) == 0  # of the instance's own envelope


async def test_a_section_keeps_what_it_said_before_five_times_back(api_db):
    for number in range(8):
        await put(api_db, "long_term", number)
    assert await former(api_db, "long_term") == [6, 5, 4, 3, 2]
    await put(api_db, "long_term", 7)
    assert await former(api_db, "long_term") == [6, 5, 4, 3, 2]  # the same again is nothing former
    assert await former(api_db, "dedup_state") == []


async def test_a_look_at_history_is_bounded_and_says_what_it_leaves_out(api_db, monkeypatch):
    for number in range(5):
        await put(api_db, "long_term", str(number) * 100)
    for name, most, shown in (("LOOK_ITEMS", 3, 3), ("LOOK_BYTES", 210, 2), ("LOOK_BYTES", 1, 1)):
        monkeypatch.setattr(sections, name, most)
        found = await envelopes.history(api_db, WHO, section="long_term")
        assert [each.content[0] for each in found.former] == ["3", "2", "1"][:shown]
        assert found.omitted == 4 - shown


async def test_a_large_memory_is_read_as_it_was_written(api_db):
    for day in range(1, 4):
        await put(api_db, "daily", "x" * 100_000, f"2026-11-{day:02}")
    assert await written(api_db) == {f"daily/2026-11-{day:02}": "x" * 100_000 for day in range(1, 4)}


async def test_what_is_deleted_is_forgotten_and_what_a_sync_leaves_out_is_not(api_db):
    for content in ("a secret", "a longer secret"):
        await put(api_db, "long_term", content)
    await delete(api_db, "long_term")
    assert await former(api_db, "long_term") == []
    await put(api_db, "daily", "kept", "2026-11-30")
    await syncing.sync(api_db, WHO, EMPTY)
    assert await written(api_db) == {}
    assert await former(api_db, "daily", "2026-11-30") == ["kept"]


async def test_the_history_of_items_that_are_gone_is_bounded(api_db):
    for month in range(1, 4):
        await syncing.sync(
            api_db, WHO, sync_of("full", {f"daily/2026-{month:02}-{day:02}": day for day in range(1, 13)})
        )
    await syncing.sync(api_db, WHO, EMPTY)
    assert len(await former(api_db, "daily")) == 20
    async with api_db.connection() as conn:
        assert await conn.fetchval("SELECT count(*) FROM agent_section_history") == 20


async def test_what_is_too_much_is_refused_with_the_limit(api_db, monkeypatch):
    with pytest.raises(TooLargeError, match="262145 bytes, the limit is 262144"):
        await put(api_db, "long_term", "x" * 262_143)
    await put(api_db, "long_term", "x" * 100)
    monkeypatch.setattr(writable, "MEMORY_BYTES", 150)
    with pytest.raises(QuotaExceededError, match="153 bytes, the limit is 150"):
        await put(api_db, "daily", "x" * 49, "2026-11-30")
    with pytest.raises(QuotaExceededError):
        await syncing.sync(api_db, WHO, sync_of("patch", {"daily/2026-11-30": "x" * 49}))
    monkeypatch.setattr(writable, "MEMORY_BYTES", 10)
    await put(api_db, "long_term", "x" * 50)  # smaller than before: that may always be
    monkeypatch.setattr(writable, "MEMORY_BYTES", 1_000)
    monkeypatch.setattr(writable, "MEMORY_ITEMS", 1)
    with pytest.raises(QuotaExceededError, match="2 items, the limit is 1"):
        await put(api_db, "daily", 1, "2026-11-30")
    await syncing.sync(api_db, WHO, sync_of("full", {"daily/2026-11-30": 1}))
    assert await written(api_db) == {"daily/2026-11-30": 1}


async def test_an_agent_writes_as_so_many_instances_and_no_more(api_db, monkeypatch):
    monkeypatch.setattr(store_envelopes, "MEMORY_INSTANCES", 2)
    others = [replace(WHO, instance=f"pod-{number}") for number in range(6)]
    body = PutSection(content=1)

    async def write(who):
        return await envelopes.put(api_db, who, section="long_term", item=None, body=body, expected=None)

    said = await asyncio.gather(*map(write, others), return_exceptions=True)
    refused = [error for error in said if isinstance(error, QuotaExceededError)]
    assert len(refused) == 4  # whoever came first, and however many at once
    there = [who for who, answer in zip(others, said, strict=True) if answer not in refused]
    with pytest.raises(QuotaExceededError, match="2 instances, which is the limit"):
        await syncing.sync(api_db, WHO, sync_of("patch", {"long_term": 1}))
    await write(there[0])
    await put(api_db, "shared", 1)  # belongs to none of them
    await syncing.sync(api_db, there[1], sync_of("patch", {"long_term": 2}))
    await envelopes.put(
        api_db, replace(WHO, agent_id="another"), section="long_term", item=None, body=body, expected=None
    )


async def test_content_that_has_no_canonical_form_is_refused_at_its_place(api_db):
    with pytest.raises(InvalidInputError, match=r"content\.a is a number beyond"):
        await put(api_db, "long_term", {"a": 2**53})
    with pytest.raises(InvalidInputError, match=r"sections\[1\]\.content is a number beyond"):
        await syncing.sync(api_db, WHO, sync_of("full", {"long_term": 1, "dedup_state": 2**53}))


# Sync.


async def test_a_full_sync_leaves_what_it_gives_and_a_patch_the_rest_too(api_db):
    await put(api_db, "long_term", "old")
    await put(api_db, "daily", "kept", "2026-11-30")
    patched = await syncing.sync(api_db, WHO, sync_of("patch", {"long_term": "new", "relationships/pod-b": "good"}))
    assert (patched.written, patched.removed, patched.deduplicated) == (2, 0, False)
    assert await written(api_db) == {
        "long_term": "new",
        "daily/2026-11-30": "kept",
        "relationships/pod-b": "good",
    }
    full = await syncing.sync(api_db, WHO, sync_of("full", {"long_term": "new"}))
    assert (full.written, full.removed, full.revision) == (0, 2, str(int(patched.revision) + 1))
    assert await written(api_db) == {"long_term": "new"}
    assert (await read(api_db, "long_term")).source == "runner"


async def test_the_same_sync_again_changes_nothing(api_db):
    body = sync_of("full", {"long_term": 1, "daily/2026-11-30": 2})
    first = await syncing.sync(api_db, WHO, body)
    assert (first.deduplicated, first.written, first.revision) == (False, 2, "1")
    again = await syncing.sync(api_db, WHO, sync_of("full", {"daily/2026-11-30": 2, "long_term": 1}))
    assert (again.deduplicated, again.written, again.removed, again.revision) == (True, 0, 0, "1")
    for other in (
        sync_of("full", {"long_term": 1, "daily/2026-11-30": 3}),
        sync_of("patch", {"long_term": 1, "daily/2026-11-30": 3}),
        sync_of("patch", {"long_term": 1, "daily/2026-11-30": 3}, runtime="another"),
    ):
        assert not (await syncing.sync(api_db, WHO, other)).deduplicated


async def test_the_same_on_another_day_is_another_sync(api_db, db):
    body = sync_of("patch", {"long_term": 1})
    await syncing.sync(api_db, WHO, body)
    assert (await syncing.sync(api_db, WHO, body)).deduplicated
    async with db.transaction() as conn:
        held = await store_envelopes.hold(conn, WHO)
        yesterday = syncing._key(held.today - timedelta(days=1), body, syncing._contents(body))
        await store_envelopes.note_sync(conn, WHO, revision=held.revision, sync_key=yesterday, shared_revision=None)
    assert not (await syncing.sync(api_db, WHO, body)).deduplicated


async def test_a_write_of_the_agents_own_makes_the_same_sync_count_again(api_db):
    body = sync_of("full", {"long_term": 1})
    for write in (
        lambda: put(api_db, "long_term", 2),
        lambda: put(api_db, "daily", 2, "2026-11-30"),
        lambda: delete(api_db, "long_term"),
    ):
        await syncing.sync(api_db, WHO, body)
        assert (await syncing.sync(api_db, WHO, body)).deduplicated
        await write()
        assert not (await syncing.sync(api_db, WHO, body)).deduplicated
        assert await written(api_db) == {"long_term": 1}


async def test_a_write_of_what_is_shared_by_another_instance_makes_a_sync_that_gives_it_count_again(api_db):
    body = sync_of("full", {"shared": "mine"})
    without = sync_of("full", {"long_term": 1})
    await syncing.sync(api_db, WHO, body)
    assert (await syncing.sync(api_db, WHO, body)).deduplicated
    await put(api_db, "shared", "theirs", who=SIBLING)
    again = await syncing.sync(api_db, WHO, body)
    assert (again.deduplicated, again.written) == (False, 1)
    assert await written(api_db, SIBLING) == {"shared": "mine"}
    await syncing.sync(api_db, WHO, without)
    await put(api_db, "shared", "theirs", who=SIBLING)
    assert (await syncing.sync(api_db, WHO, without)).deduplicated  # it says nothing of what is shared
    assert await written(api_db, SIBLING) == {"shared": "theirs"}


async def test_a_full_sync_removes_nothing_that_belongs_to_others(api_db):
    await put(api_db, "shared", "ours")
    await put(api_db, "long_term", "theirs", who=SIBLING)
    await put(api_db, "long_term", "others'", who=STRANGER)
    await note(api_db, exchange(exchange_id="a"))
    await syncing.sync(api_db, WHO, EMPTY)
    assert await written(api_db) == {"shared": "ours"}
    assert await written(api_db, SIBLING) == {"shared": "ours", "long_term": "theirs"}
    assert await written(api_db, STRANGER) == {"long_term": "others'"}
    assert await takeaways(api_db) == ["Said in a."]


async def test_what_is_given_twice_is_refused_and_nothing_is_written(api_db):
    twice = sync_of("patch", {"long_term": 1})
    twice = twice.model_copy(update={"sections": twice.sections * 2})
    with pytest.raises(InvalidInputError, match=r"sections\[1\] is long_term a second time"):
        await syncing.sync(api_db, WHO, twice)
    assert await written(api_db) == {}


async def test_syncs_of_two_instances_that_share_do_not_deadlock(api_db):
    both = [sync_of("full", {"long_term": number, "shared": number}) for number in range(20)]
    for number, body in enumerate(both):
        await put(api_db, "daily", number, f"2026-11-{number + 1:02}", who=SIBLING)
        await asyncio.gather(
            syncing.sync(api_db, WHO, body), syncing.sync(api_db, SIBLING, body), put(api_db, "shared", -1)
        )
    assert (await read(api_db, "long_term")).content == (await read(api_db, "long_term", who=SIBLING)).content == 19


@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
async def test_a_sync_that_is_killed_is_whole_or_was_never_made(api_db, before):
    await put(api_db, "long_term", "old")

    class Dying(DyingDatabase):
        async def run(self, work):
            async with self.transaction() as conn:
                return await work(conn)

    with pytest.raises(KilledError):
        await syncing.sync(
            Dying(api_db, at=1, before=before), WHO, sync_of("full", {"daily/2026-11-30": 1, "shared": 2})
        )
    assert await written(api_db) == ({"long_term": "old"} if before else {"daily/2026-11-30": 1, "shared": 2})
    again = await syncing.sync(api_db, WHO, sync_of("full", {"daily/2026-11-30": 1, "shared": 2}))
    assert again.deduplicated != before
