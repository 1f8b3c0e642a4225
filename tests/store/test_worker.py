"""The worker against the real API: it works without it, and after a round both have the same."""

from __future__ import annotations

import asyncio

import pytest
from tests.store.building import version
from tests.store.working import CONTENTS, contents, finding
from tests.store.world import AGENTS, TEAM

from anabranch.client.errors import error_from
from anabranch.client.worker import Evidence, Finding, SnapshotIncompleteError, Worker, snapshot
from anabranch.identity import grants
from anabranch.model.errors import (
    AnabranchError,
    ConflictError,
    ForbiddenError,
    InvalidInputError,
    NotFoundError,
    NotReadyError,
    PreconditionFailedError,
    TooLargeError,
    UnauthenticatedError,
    UnavailableError,
)
from anabranch.model.objects import Publication, Receipt
from anabranch.model.runs import Capsule

SOURCE = f"evidence:sha256:{'0' * 64}"


async def sequences(worker):
    """The batches that the API has, with how many changes each."""
    branch = (await worker.status()).branch_id
    return [(one.sequence, one.changes) async for one in worker._client.batches(AGENTS, branch)]


# ------------------------------------------------------------------------------------------------------------- reading


async def test_a_round_brings_the_parent_snapshot_and_reads_name_their_layer(worker):
    record = await worker.read("a")
    assert (record.layer, record.revision, record.content, record.base_revision) == ("base", "1", "one", "1")
    assert record.sources[0].startswith("import:")
    assert await contents(worker) == CONTENTS
    with pytest.raises(NotFoundError):
        await worker.read("absent")


async def test_a_private_record_hides_what_is_beneath_it_until_it_is_deleted(worker):
    assert await worker.write("a", "mine") == "1"
    own = await worker.read("a")
    assert (own.layer, own.content, own.visibility, own.base_revision) == ("private", "mine", "private", "1")
    assert (await worker.read("a", layer="base")).content == "one"
    assert (await worker.read("a", layer="shared")).content == "one"
    assert await contents(worker) == {**CONTENTS, "a": "mine"}
    await worker.delete("a")
    assert (await worker.read("a")).layer == "base"
    with pytest.raises(NotFoundError):
        await worker.read("a", layer="private")
    with pytest.raises(NotFoundError):
        await worker.delete("a")


async def test_records_are_listed_by_prefix_in_pages_of_all_layers(worker, monkeypatch):
    monkeypatch.setattr("anabranch.client.worker.desk._PAGE", 2)
    for key in ("b/1", "b/2", "b\U0010ffff", "bb", "c/1"):
        await worker.write(key, key)
    assert list(await contents(worker, prefix="b")) == ["b", "b/1", "b/2", "bb", "b\U0010ffff"]
    assert list(await contents(worker, prefix="b/")) == ["b/1", "b/2"]
    assert list(await contents(worker, prefix="b\U0010ffff")) == ["b\U0010ffff"]
    assert len(await contents(worker)) == 8


@pytest.mark.parametrize(
    ("key", "content", "error"),
    [
        ("", 1, InvalidInputError),
        ("k" * 513, 1, InvalidInputError),
        ("k", float("nan"), InvalidInputError),
        ("k", 2**60, InvalidInputError),
        ("k", {1, 2}, InvalidInputError),
        ("k", "x" * (1 << 20), TooLargeError),
    ],
)
async def test_what_the_api_would_never_take_is_refused_at_once_and_nothing_is_kept(worker, key, content, error):
    with pytest.raises(error):
        await worker.write(key, content)
    assert (await worker.status()).unsaved == 0


async def test_a_write_may_name_the_revision_that_it_is_for(worker):
    assert await worker.write("k", 1, if_revision="0") == "1"
    with pytest.raises(PreconditionFailedError) as caught:
        await worker.write("k", 2, if_revision="0")
    assert caught.value.extra["revision"] == "1"
    assert await worker.write("k", 2, if_revision="1") == "2"


# ------------------------------------------------------------------------------------------------- an unfinished start


async def test_an_unfinished_snapshot_never_reads_as_complete_and_is_gone_on_with(place, monkeypatch):
    monkeypatch.setattr(snapshot, "PAGE_MAX", 1)
    worker = await place.open()
    get, asked = worker._client.get, []

    async def breaks(kind, path, *, query=None, wait=0.0):
        if path.endswith("/records") and "manifests" in path:
            asked.append(query["cursor"])
            if len(asked) == 3:
                raise UnavailableError("The API went away.")
        return await get(kind, path, query=query, wait=wait)

    monkeypatch.setattr(worker._client, "get", breaks)
    with pytest.raises(UnavailableError):
        await worker.sync()
    assert (await worker.status()).generation is None
    for key in ("a", "c"):  # the one is here, the other not yet: neither is answered
        with pytest.raises(SnapshotIncompleteError):
            await worker.read(key)
    with pytest.raises(SnapshotIncompleteError):
        await contents(worker)
    with pytest.raises(SnapshotIncompleteError):
        await worker.submit(finding("a", "x"))
    worker = await place.reopen(worker)
    monkeypatch.setattr(worker._client, "get", breaks)
    get = type(worker._client).get.__get__(worker._client)
    await worker.sync()
    assert await contents(worker) == CONTENTS
    assert asked[2] == asked[3] is not None, "it goes on after the page that it has"
    assert asked.count(None) == 1


async def test_a_page_cursor_that_the_api_cannot_read_any_more_begins_the_download_anew(place, monkeypatch):
    monkeypatch.setattr(snapshot, "PAGE_MAX", 1)
    worker = await place.open()
    await worker._file.write(lambda db: db.execute("INSERT INTO snapshots VALUES (1, 'made with another key', 0)"))
    await worker.sync()
    assert await contents(worker) == CONTENTS


async def test_a_run_may_begin_while_the_api_is_away(place):
    await place.served.stop()
    worker = await place.open()
    await worker.write("notes/1", "begun")
    await worker.scratch_put("plan", ["look", "think"])
    with pytest.raises(UnavailableError):
        await worker.sync()
    with pytest.raises(NotReadyError):
        await worker.submit(finding("a", "x"))
    assert (await worker.read("notes/1")).content == "begun"
    assert "cannot be reached" in (await worker.status()).trouble
    await place.served.start()
    await worker.sync()
    branch = (await worker.status()).branch_id
    assert (await worker._client.get_private(AGENTS, branch, "notes/1")).content == "begun"
    assert (await worker.status()).trouble is None
    assert await worker.scratch_get("plan") == ["look", "think"]
    await worker.scratch_delete("plan")
    assert await worker.scratch_get("plan", "none") == "none"


# ---------------------------------------------------------------------------------------------------------- the outbox


async def test_what_is_submitted_offline_is_sent_in_order_on_return_and_published_once(place, worker):
    await place.served.stop()
    for number in range(1, 4):
        submitted = await worker.submit(finding(f"found/{number}", number))
        assert submitted.sequence == number
    worker = await place.reopen(worker)
    assert (await worker.status()).waiting == 3
    with pytest.raises(UnavailableError):
        await worker.sync()
    await place.served.start()
    assert (await worker.sync()).sent == 3
    assert (await worker.sync()).sent == 0
    assert await sequences(worker) == [(1, 1), (2, 1), (3, 1)]
    assert isinstance(await worker.outcome(3), Receipt)
    await place.served.world.work()
    assert isinstance(await worker.outcome(3), Publication)
    await worker.sync()
    assert (await worker.read("found/3")).layer == "shared"


async def test_a_lost_acknowledgement_is_asked_for_again_with_the_same_bytes(worker, monkeypatch):
    await worker.submit(finding("found", 1))
    submit, seen = worker._client.submit_bulk, []

    async def answer_is_lost(namespace, branch, batches):
        seen.append(batches)
        answers = await submit(namespace, branch, batches)
        if len(seen) == 1:
            raise UnavailableError("The answer was lost.")
        return answers

    monkeypatch.setattr(worker._client, "submit_bulk", answer_is_lost)
    with pytest.raises(UnavailableError):
        await worker.sync()
    assert (await worker.status()).waiting == 1
    assert (await worker.sync()).sent == 1
    assert seen[0] == seen[1]
    assert await sequences(worker) == [(1, 1)]


async def test_a_lost_answer_to_a_private_write_is_no_conflict(worker, monkeypatch):
    await worker.write("k", 1)
    put = worker._client.put_private

    async def answer_is_lost(*arguments, **options):
        await put(*arguments, **options)
        monkeypatch.undo()
        raise UnavailableError("The answer was lost.")

    monkeypatch.setattr(worker._client, "put_private", answer_is_lost)
    with pytest.raises(UnavailableError):
        await worker.sync()
    await worker.sync()
    status = await worker.status()
    assert (status.unsaved, status.refused) == (0, 0)


async def test_writes_of_one_key_go_as_one_and_deletions_go_too(worker):
    for number in range(3):
        await worker.write("k", number)
    await worker.write("gone", 1)
    await worker.sync()
    branch = (await worker.status()).branch_id
    record = await worker._client.get_private(AGENTS, branch, "k")
    assert (record.content, record.revision) == (2, "1")
    await worker.delete("gone")
    await worker.write("never", 1)
    await worker.delete("never")
    await worker.sync()
    assert [one.key async for one in worker._client.private_records(AGENTS, branch)] == ["k"]
    await worker.write("gone", 2)
    await worker.sync()
    assert (await worker._client.get_private(AGENTS, branch, "gone")).content == 2
    assert (await worker.status()).unsaved == 0


async def test_a_write_during_its_sending_is_not_taken_for_sent(worker, monkeypatch):
    await worker.write("k", "first")
    put = worker._client.put_private

    async def meanwhile(*arguments, **options):
        answer = await put(*arguments, **options)
        monkeypatch.undo()
        await worker.write("k", "second")
        return answer

    monkeypatch.setattr(worker._client, "put_private", meanwhile)
    await worker.sync()
    branch = (await worker.status()).branch_id
    assert (await worker._client.get_private(AGENTS, branch, "k")).content == "second"


async def test_what_something_else_wrote_on_the_branch_is_not_overwritten_unseen(worker):
    await worker.write("k", "mine")
    branch = (await worker.status()).branch_id
    await worker._client.put_private(AGENTS, branch, "k", "another's")
    assert (await worker.sync()).refused == 1
    (refused,) = await worker.refused()
    assert (refused.what, refused.name, refused.code) == ("record", "k", "PreconditionFailed")
    assert (await worker.read("k")).content == "mine"
    assert (await worker._client.get_private(AGENTS, branch, "k")).content == "another's"
    await worker.write("k", "mine, having seen it")
    await worker.sync()
    assert (await worker._client.get_private(AGENTS, branch, "k")).content == "mine, having seen it"
    assert await worker.refused() == []


@pytest.mark.parametrize("status", [500, 502, 408])
async def test_an_api_that_is_ill_refuses_nothing_for_good(worker, monkeypatch, status):
    await worker.write("k", 1)
    await worker.submit(finding("found", 1))
    await worker.checkpoint(Capsule(goal="find"))
    ill = error_from({"code": "Ill", "detail": "It is ill."}, status=status)

    async def fails(*_arguments, **_options):
        raise ill

    async def each_fails(_namespace, _branch, batches):
        return [ill] * len(batches)

    for name, failing in (("put_private", fails), ("put_checkpoint", fails), ("submit_bulk", each_fails)):
        with monkeypatch.context() as patch:
            patch.setattr(worker._client, name, failing)
            with pytest.raises(AnabranchError, match="ill"):
                await worker.sync()
    assert await worker.refused() == []
    assert (await worker.sync()).sent == 1
    assert (await worker.status()).unsaved == 0


async def test_a_refused_batch_is_set_aside_and_can_be_tried_again(place, worker):
    place.served.world.permissions.deny(grants.SCOPE_WRITE, name="team/build")
    await worker.submit(finding("build/1", 1, scope="team/build"))
    await worker.submit(finding("found", 2))
    synced = await worker.sync()
    assert (synced.sent, synced.refused) == (1, 1)
    (refused,) = await worker.refused()
    assert (refused.what, refused.name, refused.code) == ("batch", "1", "Forbidden")
    assert "team/build" in refused.detail
    assert [change.key for change in refused.changes] == ["build/1"]
    assert (await worker.sync()).refused == 0, "it is not sent again by itself"
    place.served.world.permissions.give_back()
    assert await worker.retry(1) == 1
    assert (await worker.sync()).sent == 1
    assert await sequences(worker) == [(1, 1), (2, 1)]
    assert await worker.retry() == 0


async def test_a_refused_batch_can_be_withdrawn_so_that_what_is_behind_it_goes_on(place, worker):
    place.served.world.permissions.deny(grants.SCOPE_WRITE, name="team/build")
    await worker.submit(finding("build/1", 1, scope="team/build"))
    await worker.submit(finding("found", 2))
    await worker.sync()
    await place.served.world.work()
    assert isinstance(await worker.outcome(2), Receipt), "it waits for its place"
    with pytest.raises(NotFoundError):
        await worker.withdraw(2)
    await worker.withdraw(1)
    assert (await worker.sync()).sent == 1
    assert await sequences(worker) == [(1, 0), (2, 1)]
    await place.served.world.work()
    assert (await worker.outcome(2)).generation == 2


async def test_what_is_too_far_ahead_of_a_refused_batch_waits_for_it(place, worker, monkeypatch):
    monkeypatch.setattr("anabranch.client.worker.sending.SEQUENCE_WINDOW", 2)
    place.served.world.permissions.deny(grants.SCOPE_WRITE, name="team/build")
    await worker.submit(finding("build/1", 1, scope="team/build"))
    await worker.submit(finding("found/2", 2))
    await worker.submit(finding("found/3", 3))
    await worker.sync()
    assert await sequences(worker) == [(2, 1)]
    await worker.withdraw(1)
    assert (await worker.sync()).sent == 2
    assert await sequences(worker) == [(1, 0), (2, 1), (3, 1)]


async def test_a_branch_that_takes_nothing_loses_nothing(place, worker):
    await worker.submit(finding("found", 1))
    place.served.world.permissions.deny(grants.FORK)
    await place.served.resources.reconcile("run")
    with pytest.raises(ForbiddenError):
        await worker.sync()
    assert (await worker.status()).waiting == 1
    assert await worker.refused() == []
    place.served.world.permissions.give_back()
    await place.served.resources.reconcile("run")
    assert (await worker.sync()).sent == 1


async def test_a_run_is_closed_once_everything_before_it_is_in(place, worker):
    await worker.submit(finding("found", 1))
    await place.served.stop()
    await worker.complete()
    await worker.complete()
    with pytest.raises(ConflictError, match="completed"):
        await worker.submit(finding("late", 1))
    await place.served.start()
    await worker.sync()
    completion = await worker._client.completion(AGENTS, (await worker.status()).branch_id)
    assert completion.last_submitted_sequence == 1
    assert completion.closed_at is not None
    assert (await worker.status()).phase == "Completed"
    await worker.sync()


async def test_large_batches_go_in_several_requests(worker, monkeypatch):
    monkeypatch.setattr("anabranch.client.worker.sending._ROOM", 1_000)
    submit, sizes = worker._client.submit_bulk, []

    async def counted(namespace, branch, batches):
        sizes.append(len(batches))
        return await submit(namespace, branch, batches)

    monkeypatch.setattr(worker._client, "submit_bulk", counted)
    for number in range(3):
        await worker.submit(finding(f"found/{number}", "x" * 700))
    await worker.sync()
    assert sizes == [1, 1, 1]
    assert len(await sequences(worker)) == 3


async def test_a_batch_that_can_never_be_accepted_takes_no_place(worker):
    for bad in (
        Finding("k", 1, sources=["no locator"]),
        Finding("", 1),
        Finding("k", 1, op="tombstone"),
        Finding("k", 1, scope="No Scope"),
    ):
        with pytest.raises(InvalidInputError):
            await worker.submit(bad)
    with pytest.raises(TooLargeError):
        await worker.submit(Finding("k", 1, sources=[Evidence(b"x" * ((4 << 20) + 1))]))
    with pytest.raises(TooLargeError):
        await worker.submit(*[Finding(f"k{number}", "x" * 1_000_000) for number in range(9)])
    assert (await worker.submit(finding("k", 1))).sequence == 1


# ------------------------------------------------------------------------------------------------ files, lost and found


async def test_a_lost_file_is_made_anew_from_what_the_api_has(place, worker):
    await worker.write("notes", {"so": "far"}, scope="team/build", visibility="shareable")
    await worker.submit(finding("found", 1))
    await worker.sync()
    found = await place.open("other.db")
    await found.sync()
    record = await found.read("notes")
    assert (record.content, record.scope, record.visibility) == ({"so": "far"}, "team/build", "shareable")
    assert (await found.submit(finding("more", 2))).sequence == 2
    await found.write("notes", "on")
    assert (await found.sync()).sent == 1
    assert (await found.status()).refused == 0


async def test_two_files_of_one_run_find_out_and_lose_nothing(place, worker):
    other = await place.open("other.db")
    await other.sync()
    await worker.submit(finding("a", "from one"))
    await other.submit(finding("b", "from the other", base_revision="1"))
    await worker.sync()
    assert (await other.sync()).refused == 1
    (refused,) = await other.refused()
    assert refused.code == "Conflict"
    await other.withdraw(1)
    assert (await other.submit(finding("b", "from the other"))).sequence == 2
    assert (await other.sync()).sent == 1
    assert await sequences(worker) == [(1, 1), (2, 1)]


async def test_a_file_is_one_runs_and_one_processs(place, worker, tmp_path):
    with pytest.raises(ConflictError, match="in use"):
        await place.open()
    await place.close(worker)
    with pytest.raises(ConflictError, match="agents/run"):
        await place.open(name="another")
    assert (tmp_path / "run.db").stat().st_mode & 0o777 == 0o600
    (tmp_path / "page.db").write_text("<html>This is no database, and longer than a page's header is.</html>" * 20)
    with pytest.raises(InvalidInputError, match="no file of a worker"):
        await place.open("page.db")
    (tmp_path / "odd.db-wal").mkdir()
    with pytest.raises(UnavailableError, match="cannot be opened"):
        await place.open("odd.db")


# ----------------------------------------------------------------------------------------------------- staying in step


async def eventually(look, within=60.0):
    async with asyncio.timeout(within):
        while not (found := await look()):  # noqa: ASYNC110  (what is looked at is elsewhere)
            await asyncio.sleep(0.02)
    return found


async def test_a_running_worker_sends_and_receives_by_itself_through_an_outage_and_a_new_token(
    place, worker, monkeypatch
):
    monkeypatch.setattr("anabranch.client.worker.running._FIRST_PAUSE", 0.02)

    async def sent():
        return (await worker.status()).waiting == 0

    async with worker.running():
        await worker.submit(finding("found/1", 1))
        await eventually(sent)
        await place.publish(version("a", "changed"))
        await eventually(lambda: shows(worker, "a", "changed"))
        await place.served.stop()
        await worker.submit(finding("found/2", 2))
        await place.served.start()
        await eventually(sent)
        place.served.parts.identity.known = False
        await worker.submit(finding("found/3", 3))
        await asyncio.sleep(0.1)
        assert not await sent()
        place.served.parts.identity.known = True
        await eventually(sent)
        await worker.complete()
        await eventually(lambda: closed(worker))


async def shows(worker, key, content):
    return (await worker.read(key, layer="shared")).content == content


async def closed(worker):
    return (await worker.status()).phase == "Completed"


async def test_why_a_running_worker_stopped_is_raised_where_it_was_begun(place, worker, monkeypatch):
    run, stopped = type(worker).run, asyncio.Event()

    async def noted(self):
        try:
            await run(self)
        finally:
            stopped.set()

    async def work():
        async with worker.running():
            place.served.world.permissions.deny(grants.FORK)
            await place.served.resources.reconcile("run")
            await worker.submit(finding("found", 1))
            await asyncio.wait_for(stopped.wait(), 60)

    monkeypatch.setattr(type(worker), "run", noted)
    with pytest.raises(ForbiddenError, match="revoked"):
        await work()


async def test_an_unknown_token_is_told(place, worker):
    place.served.parts.identity.known = False
    with pytest.raises(UnauthenticatedError):
        await worker.sync()
    assert await contents(worker) == CONTENTS


# --------------------------------------------------------------------------------------- checkpoints, presence, peers


async def test_a_checkpoint_restores_a_task_in_a_new_process_and_from_the_api_when_the_file_is_lost(place, worker):
    await place.served.stop()
    first = await worker.checkpoint(Capsule(goal="find the cause"))
    last = await worker.checkpoint(
        Capsule(goal="find the cause", open_tasks=("look at the pool",)), references=[SOURCE]
    )
    await worker.checkpoint(Capsule(goal="something else"), session="other")
    await worker.submit(finding("found", 1), Finding("noted", 2, sources=[f"checkpoint:{last}"]))
    await worker.complete(checkpoint=last)
    worker = await place.reopen(worker)
    restored = await worker.restore()
    assert (restored.checkpoint_id, restored.capsule.open_tasks) == (last, ("look at the pool",))
    with pytest.raises(NotFoundError):
        await worker.restore(session="none")
    await place.served.start()
    await worker.sync()
    assert (await worker.status()).refused == 0
    kept = [one async for one in worker._client.checkpoints(AGENTS, (await worker.status()).branch_id)]
    assert [one.checkpoint_id for one in kept if one.session_id == "default"] == [last, first]
    found = await place.open("other.db")
    await found.sync()
    assert (await found.restore()).checkpoint_id == last
    assert (await found.restore(session="other")).capsule.goal == "something else"
    await place.served.world.work()
    assert (await worker.outcome(1)).generation == 2


async def test_a_checkpoint_that_can_never_be_accepted_is_refused_at_once(worker):
    with pytest.raises(TooLargeError):
        await worker.checkpoint(Capsule(goal="x" * (16 << 10)))
    with pytest.raises(InvalidInputError):
        await worker.checkpoint(Capsule(goal="x"), session="no session name")
    with pytest.raises(InvalidInputError):
        await worker.checkpoint(Capsule(goal="x"), references=["no locator"])


async def test_peers_see_that_a_worker_is_there_how_far_it_has_come_and_when_it_leaves(place, worker):
    async def seen():
        return {one.agent_id: one async for one in worker._client.peers(TEAM, "facts")}["ada"]

    assert (await seen()).state == "active"
    generation = await place.publish(version("a", "changed"))
    await worker.sync()
    cursor = (await worker._client.feed_place(AGENTS, (await worker.status()).branch_id)).cursor
    assert (await seen()).observed_feed_cursor == cursor
    page = await worker._client.events(TEAM, "facts", after=cursor)
    assert page.events == (), f"generation {generation} is applied"
    async with worker.running():
        pass
    assert (await seen()).state == "stale"


async def test_a_branch_that_somebody_else_makes_is_taken_up_by_its_name(place):
    client = await place.served.client()
    worker = await Worker.open(place.folder / "named.db", client, namespace=AGENTS, branch="from-git")
    place._workers.append(worker)
    with pytest.raises(NotReadyError):
        await worker.sync()
    await place.served.world.apply_branch("from-git", account="ada")
    await worker.sync()
    assert await contents(worker) == CONTENTS
    assert (await worker.submit(finding("found", 1))).sequence == 1


@pytest.mark.parametrize("again", [("second", "private"), ("first", "shareable"), (None, "private")])
async def test_a_record_that_was_sent_and_written_again_before_the_answer_came_is_no_conflict(
    worker, monkeypatch, again
):
    await worker.write("mine", "first", visibility="private")
    put = worker._client.put_private

    async def lost(*arguments, **options):
        await put(*arguments, **options)
        raise UnavailableError("The answer is lost.")

    monkeypatch.setattr(worker._client, "put_private", lost)
    with pytest.raises(UnavailableError):
        await worker.sync()
    monkeypatch.undo()
    content, visibility = again
    await (worker.delete("mine") if content is None else worker.write("mine", content, visibility=visibility))
    await worker.sync()
    status = await worker.status()
    assert (status.unsaved, status.refused) == (0, 0)
    if content is None:
        with pytest.raises(NotFoundError):
            await worker._client.get_private(AGENTS, "run", "mine")
    else:
        there = await worker._client.get_private(AGENTS, "run", "mine")
        assert (there.content, there.visibility) == again
