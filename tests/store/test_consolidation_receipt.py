"""The receipt of a batch: what is checked before it is durable, and what each repetition is answered."""

from __future__ import annotations

import pytest
from tests.store.world import AUTOMATIC, World

from anabranch.branches import completion
from anabranch.consolidation import receipt
from anabranch.model.canonical import canonical_bytes, content_hash, parse_canonical
from anabranch.model.errors import ConflictError, DigestMismatchError, InvalidInputError, NotFoundError, TooLargeError
from anabranch.model.limits import BATCH_BYTES, CONTENT_BYTES
from anabranch.model.objects import RunCompletion, batch_hash
from anabranch.store import branches


@pytest.fixture
async def world(db):
    world = World(db)
    await world.import_documents({"a": "first"}, **AUTOMATIC)
    return world


def batch(branch_id="br", **changed):
    body = {
        "branch_id": branch_id,
        "sequence": 1,
        "changes": [{"key": "k", "content": 1, "visibility": "shareable"}],
        "source_locators": [["https://example.org/k"]],
        "base_revisions": ["0"],
    } | changed
    return body | {"content_hash": changed.get("content_hash", batch_hash(body))}


def in_scopes(count):
    changes = [{"key": "k", "content": 1, "scope": f"s{number}"} for number in range(count)]
    return {"changes": changes, "source_locators": [[]] * count, "base_revisions": ["0"] * count}


def test_a_batch_tells_what_it_would_touch():
    changes = [
        {"key": "k", "content": 1},
        {"key": "l", "content": 1},
        {"op": "tombstone", "key": "m", "scope": "team/build", "visibility": "shareable"},
    ]
    raw = batch(changes=changes, source_locators=[[], [], []], base_revisions=["0", "0", "4"])

    submission = receipt.parse(canonical_bytes(raw))

    assert submission.touches == {
        receipt.Touch("shared", "put", "private"),
        receipt.Touch("team/build", "tombstone", "shareable"),
    }


def test_the_digest_is_that_of_the_canonical_form_however_it_is_written():
    raw = batch()
    spaced = str(raw).replace("'", '"').encode()
    assert spaced != canonical_bytes(raw)

    assert receipt.parse(spaced).content_hash == receipt.parse(canonical_bytes(raw)).content_hash


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"a": 1},
        {"z": [1, {"content_hash": "x"}]},
        {"a": {"content_hash": "x"}, "b": '"content_hash":"x"', "content_hasi": 1, "content_has": 2},
        {"a": 1.5, "z": 1e30},
        {"\ue000": 1, "\U0001f600": {"\U0001f600": 2, "\ue000": 3}, "content_hash\u00e4": 4},
    ],
)
@pytest.mark.parametrize("signed", [{"content_hash": "sha256:x"}, {"content_hash": {"a": [1, "}"]}}, {}])
def test_the_digest_covers_all_but_itself(more, signed):
    value = {**more, **signed}
    raw = canonical_bytes(value)
    _, form = parse_canonical(raw)
    without = canonical_bytes(more)
    assert receipt.forms(value, plain=False) == (without, raw)
    plain = form is raw
    assert plain == (all(name.isascii() for name in more) and not any(isinstance(one, float) for one in more.values()))
    if plain:
        assert receipt.forms(value, plain=True) == (without, raw)


def test_a_batch_that_was_altered_on_the_way_is_refused():
    altered = batch() | {"sequence": 2}

    with pytest.raises(DigestMismatchError) as refused:
        receipt.parse(canonical_bytes(altered))

    assert refused.value.extra["submitted"] == altered["content_hash"]
    assert refused.value.extra["received"] == batch_hash(
        {name: value for name, value in altered.items() if name != "content_hash"}
    )


@pytest.mark.parametrize(
    ("raw", "named"),
    [
        (b"[]", "not a JSON object"),
        (b'{"sequence": 1, "sequence": 2}', "twice"),
        (canonical_bytes(batch(sequence=0)), "sequence"),
        (canonical_bytes(batch(base_revisions=[])), "base_revisions"),
        (canonical_bytes(batch(base_revisions=["01"])), "base_revisions"),
        (canonical_bytes(batch(source_locators=[["file:/etc/passwd"]])), "source_locators"),
        (canonical_bytes(batch(changes=[{"key": "", "content": 1}])), r"changes\[0\]\.key"),
        (canonical_bytes(batch(extra=1)), "extra"),
        (canonical_bytes(batch(changes=[{"op": "tombstone", "key": "k", "content": 1}])), "tombstone"),
        (canonical_bytes(batch(observed_at="0001-01-01T00:00:00+14:00")), "observed_at"),
        (canonical_bytes(batch(observed_at="2026-01-01T00:00:00")), "observed_at"),
        (canonical_bytes(batch(**in_scopes(33))), "33 scopes"),
        (b"\xff\xfe", "JSON"),
    ],
)
def test_what_is_no_batch_is_refused_by_the_member(raw, named):
    with pytest.raises(InvalidInputError, match=named):
        receipt.parse(raw)


async def test_sizes_are_bounded():
    with pytest.raises(TooLargeError, match=str(BATCH_BYTES)):
        await receipt.read(b" " * (BATCH_BYTES + 1))
    large = batch(changes=[{"key": "k", "content": "x" * CONTENT_BYTES}])
    with pytest.raises(TooLargeError, match=str(CONTENT_BYTES)):
        await receipt.read(canonical_bytes(large))


async def test_the_same_batch_gets_the_same_receipt(world):
    branch = await world.apply_branch("run")
    first = await world.submit(branch, 1, {"key": "k", "content": 1})

    assert await world.submit(branch, 1, {"key": "k", "content": 1}) == first
    assert await receipt.acknowledgement(world.db, branch=branch, sequence=1) == first


async def test_another_batch_in_its_place_is_a_conflict_that_names_both(world):
    branch = await world.apply_branch("run")
    first = await world.submit(branch, 1, {"key": "k", "content": 1})

    with pytest.raises(ConflictError) as refused:
        await world.submit(branch, 1, {"key": "k", "content": 2})

    assert refused.value.extra["received"] == first.content_hash
    assert refused.value.extra["submitted"] not in (None, first.content_hash)


async def test_a_batch_of_another_branch_is_not_taken(world):
    branch = await world.apply_branch("run")
    other = await world.apply_branch("other")
    submission = receipt.parse(canonical_bytes(batch(branch_id=other.branch_id)))

    with pytest.raises(InvalidInputError, match=other.branch_id):
        await receipt.receive(world.db, branch=branch, submission=submission)


async def test_a_baselines_own_limit_is_kept(world):
    branch = await world.apply_branch("run")
    await world.apply_baseline(
        generation=2, limits={"batchBytes": 1024}, **{"import": {"configMap": {"name": "facts"}}}
    )

    with pytest.raises(TooLargeError, match="1024"):
        await world.submit(branch, 1, {"key": "k", "content": "x" * 1024})


async def test_a_receipt_says_so_and_becomes_a_publication(world):
    branch = await world.apply_branch("run")
    with pytest.raises(NotFoundError):
        await receipt.acknowledgement(world.db, branch=branch, sequence=1)
    first = await world.submit(branch, 1, {"key": "k", "content": 1})
    assert first.ack == "receipt"
    await world.work()

    published = await receipt.acknowledgement(world.db, branch=branch, sequence=1)

    assert (published.ack, published.receipt_id) == ("publication", first.receipt_id)
    assert (published.generation, published.revision) == (2, "2")
    (job,) = await world.jobs()
    assert published.job_id == job.job_id


async def test_the_last_batch_closes_a_run_that_was_completed_before_it_came(world):
    branch = await world.apply_branch("run")
    raw = {
        "run_id": branch.run_id,
        "branch_id": branch.branch_id,
        "agent_id": branch.agent_id,
        "baseline_id": branch.parent_baseline_id,
        "last_submitted_sequence": 1,
        "delta_hash": content_hash([]),
    }
    row = await completion.submit(world.db, branch=branch, completion=RunCompletion.model_validate(raw), raw=raw)
    assert row.closed_at is None

    await world.submit(branch, 1, {"key": "k", "content": 1}, final=True)

    async with world.db.connection() as conn:
        assert (await branches.get(conn, branch.branch_id)).phase == "Completed"
