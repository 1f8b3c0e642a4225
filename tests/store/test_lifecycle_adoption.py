"""Who takes up a line that was left behind: a namesake in the same namespace; in one that was made again, on demand."""

from __future__ import annotations

import asyncio

import pytest
from tests.store import building

from anabranch.model.ids import new_line_id
from anabranch.store import adoption, lines

OLD = {"namespace": "team", "namespace_uid": "ns-1", "name": "facts"}
NEW = {**OLD, "namespace_uid": "ns-2"}


async def take(db, place=NEW, *, adopt=None, uid="uid-2"):
    """What a reconcile does; the line, or why there is none."""
    async with db.transaction() as conn:
        refusal = await adoption.settle(conn, uid=uid, adopt=adopt, **place)
        if refusal is not None:
            return refusal
        return (await lines.adopt_or_create(conn, uid=uid, **place)).line.line


async def get(db, line):
    async with db.connection() as conn:
        return await lines.get(conn, line)


async def find(db):
    async with db.connection() as conn:
        return await lines.find(conn, namespace="team", name="facts")


@pytest.fixture
async def left(db):
    """A line with records whose namespace was deleted and made again while nobody looked."""
    line = await building.new_line(db)
    await building.import_records(db, line, {"a": 1})
    return line


async def test_a_line_left_in_a_deleted_namespace_is_asked_for_by_its_id(db, left):
    assert await take(db) == adoption.Refusal("AdoptionRequired", (left,))
    # It is nobody's: readers and branches of the new namespace do not get at it by its name.
    assert await find(db) is None
    assert (await get(db, left)).line.deleted_at is not None


async def test_naming_the_line_takes_it_up_as_it_is(db, left):
    before = await get(db, left)
    assert await take(db, adopt=left) == left
    state = await find(db)
    assert (state.line.line, state.line.namespace_uid, state.line.uid, state.line.deleted_at) == (
        left, "ns-2", "uid-2", None,
    )  # fmt: skip
    assert state.head == before.head


async def test_an_adoption_that_is_repeated_doubled_or_left_in_git_changes_nothing(db, left):
    assert await asyncio.gather(*(take(db, adopt=left) for _ in range(4))) == [left] * 4
    before = await find(db)
    assert await take(db, adopt=left) == left
    assert await take(db) == left
    assert await find(db) == before


async def test_a_line_that_was_deleted_before_its_namespace_can_be_adopted(db, left):
    async with db.connection() as conn:
        await lines.mark_deleted(conn, line=left, uid="uid-1")
    assert (await take(db)).reason == "AdoptionRequired"
    assert await take(db, adopt=left) == left


async def test_a_namespace_that_was_made_again_twice_offers_what_its_predecessors_left(db, left):
    third = {**OLD, "namespace_uid": "ns-3"}
    assert await take(db, NEW) == await take(db, third) == adoption.Refusal("AdoptionRequired", (left,))
    assert await take(db, third, adopt=left) == left
    # The namespace in between is gone too: a late reconcile of it finds the line elsewhere.
    assert (await take(db, NEW)).reason == "AdoptionRequired"


async def test_a_line_without_records_is_not_worth_the_question(db):
    empty = await building.new_line(db)
    assert await take(db) not in {empty, None}
    assert (await get(db, empty)).line.deleted_at is not None


@pytest.mark.parametrize("place", [{"name": "other"}, {"namespace": "elsewhere"}])
async def test_nobody_adopts_the_line_of_another_name_or_namespace(db, left, place):
    assert await take(db, {**NEW, **place}, adopt=left) == adoption.Refusal("AdoptTargetUnknown")
    assert (await get(db, left)).line.namespace_uid == "ns-1"


async def test_an_unknown_line_is_refused_and_none_is_made(db, left):
    assert await take(db, adopt=new_line_id()) == adoption.Refusal("AdoptTargetUnknown", (left,))
    assert await find(db) is None


async def test_who_has_a_line_cannot_change_it_for_another(db):
    own = await take(db, OLD, uid="uid-1")
    other = await building.new_line(db, name="other")
    assert await take(db, OLD, uid="uid-1", adopt=other) == adoption.Refusal("AdoptionConflict", own=own)


async def test_within_its_namespace_a_namesake_needs_to_name_nothing(db, left):
    async with db.connection() as conn:
        await lines.mark_deleted(conn, line=left, uid="uid-1")
    assert await take(db, OLD, uid="made again") == left
