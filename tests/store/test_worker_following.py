"""A worker that follows: what was accepted reaches its shared layer once and in order, whatever happened in between."""

from __future__ import annotations

import pytest
from tests.store.building import version
from tests.store.working import CONTENTS, contents, finding

from anabranch.client.worker import Follow, following
from anabranch.model.errors import NotFoundError, UnavailableError

PINNED = {"pin": {"generation": 1}}


async def raw(worker, statement, *values):
    """Rows of the worker's file."""
    return await worker._file.read(lambda db: [tuple(row) for row in db.execute(statement, values)])


async def shows(worker, key):
    record = await worker.read(key, layer="shared")
    return record.layer, record.revision, record.content


async def test_an_accepted_change_reaches_the_shared_layer_and_leaves_the_parent_as_it_is(place, worker):
    await worker.write("b", "my own")
    await place.publish(version("a", "changed"), version("new", 4, run="theirs"))
    synced = await worker.sync()
    assert (synced.received, synced.applied) == (2, 2)
    assert await shows(worker, "a") == ("shared", "2", "changed")
    assert (await worker.read("a", layer="base")).content == "one"
    assert (await worker.read("new")).origin_runs == ("theirs",)
    assert await contents(worker) == {**CONTENTS, "a": "changed", "b": "my own", "new": 4}
    assert (await worker.sync()).received == 0


async def test_what_a_finding_is_based_on_is_what_the_worker_showed(place, worker):
    await worker.write("b", "my own")
    await place.publish(version("a", "changed"), version("b", "theirs"))
    await worker.sync()
    await worker.submit(finding("a", "mine"), finding("b", "mine"), finding("new", 1), finding("c", 1))
    ((body,),) = await raw(worker, "SELECT body FROM batches")
    assert b'"base_revisions":["2","1","0","1"]' in body


async def test_a_private_record_over_what_has_changed_is_listed_as_a_conflict(place, worker):
    await worker.write("a", "mine")
    await worker.write("b", "the same")
    await worker.write("c", "mine")
    assert await worker.conflicts() == []
    await place.publish(version("a", "changed"), version("b", "the same"))
    await worker.sync()
    (conflict,) = await worker.conflicts()
    assert (conflict.key, conflict.base_revision, conflict.shown_revision) == ("a", "1", "2")


async def test_a_tombstone_hides_the_record_and_names_its_revision_as_base(place, worker):
    await place.publish(version("a"))
    await worker.sync()
    with pytest.raises(NotFoundError):
        await worker.read("a")
    assert list(await contents(worker)) == ["b", "c"]
    await worker.submit(finding("a", "again"))
    ((body,),) = await raw(worker, "SELECT body FROM batches")
    assert b'"base_revisions":["2"]' in body


async def test_held_changes_wait_for_the_agent_and_are_applied_as_far_as_it_says(place, worker):
    worker = await place.reopen(worker, follow=Follow.HOLD)
    await place.publish(version("a", "second"))
    await place.publish(version("a", "third"), version("b"))
    synced = await worker.sync()
    assert (synced.received, synced.applied) == (3, 0)
    assert await contents(worker) == CONTENTS
    first, second, third = await worker.held()
    assert (first.event.kind, first.arrivals[0].content) == ("published", "second")
    assert (second.arrivals[0].content, third.arrivals[0].gone) == ("third", True)
    assert await worker.apply(first.sequence) == 1
    assert await shows(worker, "a") == ("shared", "2", "second")
    worker = await place.reopen(worker, follow=Follow.HOLD)
    assert (await worker.status()).held == 2
    assert (await worker.sync()).received == 0
    assert await worker.apply() == 2
    assert await contents(worker) == {"a": "third", "c": "three"}
    assert await worker.held() == []


async def test_what_was_held_is_applied_when_the_agent_turns_to_applying(place, worker):
    worker.follow = Follow.HOLD
    await place.publish(version("a", "second"))
    await worker.sync()
    worker.follow = Follow.APPLY
    assert (await worker.sync()).applied == 1
    assert await shows(worker, "a") == ("shared", "2", "second")


async def test_a_worker_that_does_not_follow_asks_for_nothing_and_catches_up_later(place, worker):
    worker.follow = Follow.OFF
    await place.publish(version("a", "second"))
    assert (await worker.sync()).received == 0
    assert await contents(worker) == CONTENTS
    worker.follow = Follow.APPLY
    assert (await worker.sync()).applied == 1


async def test_events_that_come_again_are_not_applied_again(place, worker):
    for text in ("second", "third"):
        await place.publish(version("a", text))
        await worker.sync()
    before = await raw(worker, "SELECT * FROM shared")
    await worker._file.write(lambda db: db.execute("UPDATE run SET cursor = NULL"))
    assert (await worker.sync()).received == 0, "their sequences are known"
    await worker._file.write(lambda db: db.execute("UPDATE run SET cursor = NULL, received = 0"))
    worker.follow = Follow.HOLD
    assert (await worker.sync()).received == 2
    assert await worker.apply((await worker.held())[0].sequence) == 1
    assert await raw(worker, "SELECT * FROM shared") == before, "no older revision replaces a newer one"


async def test_what_the_parent_includes_already_is_not_taken_for_an_update(place, worker):
    await place.publish(version("a", "second"), version("new", 1))
    late = await place.open("late.db", name="late")
    await late.sync()
    await late._file.write(lambda db: db.execute("UPDATE run SET start = 1, cursor = NULL, received = 0"))
    assert (await late.sync()).received == 2
    assert await raw(late, "SELECT * FROM shared") == []


@pytest.mark.parametrize("dies", ["while it is staged", "as it is received"])
async def test_a_place_in_the_feed_is_kept_with_what_was_applied_or_not_at_all(place, worker, monkeypatch, dies):
    await place.publish(version("a", "second"), version("b", "second"))
    write, at = worker._file.write, 0

    async def breaks(change, *arguments, **options):
        nonlocal at
        at += change.__name__ == ("stage" if dies == "while it is staged" else "receive")
        if at == (2 if dies == "while it is staged" else 1):
            raise UnavailableError("The process ended here.")
        return await write(change, *arguments, **options)

    monkeypatch.setattr(worker._file, "write", breaks)
    with pytest.raises(UnavailableError):
        await worker.sync()
    monkeypatch.undo()
    worker = await place.reopen(worker)
    assert await contents(worker) == CONTENTS
    assert (await worker.sync()).applied == 2
    assert await contents(worker) == {**CONTENTS, "a": "second", "b": "second"}
    assert await raw(worker, "SELECT * FROM arrivals") == []


async def test_a_rollback_and_its_end_rebuild_the_overlay(place, worker):
    await worker.write("c", "my own")
    await place.publish(version("a", "second"), version("b"), version("new", 1))
    await worker.sync()
    changed = {"a": "second", "c": "my own", "new": 1}
    assert await contents(worker) == changed
    await place.declare(**PINNED)
    await worker.sync()
    assert await contents(worker) == {**CONTENTS, "c": "my own"}
    assert await raw(worker, "SELECT * FROM shared") == []
    await place.declare()
    await worker.sync()
    assert await contents(worker) == changed


async def test_a_rollback_behind_the_parent_hides_what_the_parent_has_since(place, worker):
    await place.publish(version("a", "second"), version("new", 1))
    late = await place.open("late.db", name="late")
    await late.sync()
    assert (await late.status()).generation == 2
    await place.declare(**PINNED)
    await late.sync()
    assert await contents(late) == CONTENTS
    assert (await late.read("new", layer="base")).content == 1
    with pytest.raises(NotFoundError):
        await late.read("new")
    await late.submit(finding("new", "again"), finding("a", "again"))
    ((body,),) = await raw(late, "SELECT body FROM batches")
    assert b'"base_revisions":["1","0"]' in body or b'"base_revisions":["0","1"]' in body


async def test_a_restore_is_one_event_however_much_it_changes(place, worker, monkeypatch):
    monkeypatch.setattr(following, "_CHUNK", 2)
    await place.publish(version("a", "second"), version("b"), version("new", 1))
    await worker.sync()
    await place.declare(restore={"generation": 1, "id": "once"})
    synced = await worker.sync()
    assert (synced.received, synced.applied) == (1, 1)
    assert await contents(worker) == CONTENTS
    assert (await worker.read("a")).revision == "3"


async def test_several_pages_of_events_are_received_in_one_round(place, worker, monkeypatch):
    monkeypatch.setattr(following, "_CHUNK", 2)
    await place.publish(*(version(f"k/{number}", number) for number in range(5)))
    assert (await worker.sync()).applied == 5
    assert len(await contents(worker, prefix="k/")) == 5


@pytest.mark.parametrize("follow", [Follow.APPLY, Follow.HOLD])
async def test_a_feed_that_no_longer_reaches_back_is_made_good_by_a_snapshot(place, worker, follow):
    worker.follow = follow
    await place.publish(version("a", "second"))
    await worker.sync()
    await place.publish(version("b"), version("new", 1))
    async with place.served.world.db.connection() as conn:
        await conn.execute("DELETE FROM events WHERE line = $1", place.line)
        await conn.execute("UPDATE line_heads SET event_floor = event_sequence WHERE line = $1", place.line)
    await worker.sync()
    if follow is Follow.HOLD:
        assert await contents(worker) == CONTENTS
        (held,) = await worker.held()
        assert (held.event, held.rebuilds) == (None, True)
        assert {arrival.key for arrival in held.arrivals} == {"a", "b", "new"}
        await worker.apply()
    assert await contents(worker) == {"a": "second", "c": "three", "new": 1}
    await place.publish(version("c", "on"))
    await worker.sync()
    if follow is Follow.HOLD:
        assert await worker.apply() == 1
    assert (await worker.read("c")).content == "on"


async def test_sequences_that_were_given_again_after_a_restore_from_backup_are_followed(place, worker):
    """An older database, another epoch: the same numbers stand for other events."""
    await place.publish(version("a", "second"), version("b", "second"))
    await worker.sync()
    async with place.served.world.db.connection() as conn:
        await conn.execute("UPDATE line_heads SET epoch = epoch + 1 WHERE line = $1", place.line)
    await place.publish(version("a", "third"))
    await worker.sync()
    assert await shows(worker, "a") == ("shared", "3", "third")
    assert await shows(worker, "b") == ("shared", "2", "second")


async def test_a_change_whose_generation_is_pruned_is_read_where_it_still_stands(place, worker, monkeypatch):
    await place.publish(version("a", "second"))
    record = worker._client.record

    async def pruned(namespace, name, key, *, ref="current", **options):
        if ref != "current":
            from anabranch.model.errors import GoneError

            raise GoneError("The generation was pruned.")
        return await record(namespace, name, key, ref=ref, **options)

    monkeypatch.setattr(worker._client, "record", pruned)
    await worker.sync()
    assert await shows(worker, "a") == ("shared", "2", "second")


async def test_two_workers_of_one_line_see_each_others_findings_and_never_their_private_records(place, worker):
    other = await place.open("other.db", name="other", account="bob")
    await other.sync()
    await worker.write("secret", "mine")
    await worker.submit(finding("found", 1))
    await worker.sync()
    await place.served.world.work()
    await other.sync()
    assert await contents(other) == {**CONTENTS, "found": 1}
