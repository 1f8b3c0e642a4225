"""What can be wrong with a batch or a request is told in words for its sender: the field, the limit, what to do."""

import json

import pytest
from pydantic import ValidationError

from anabranch.api.bodies import fit
from anabranch.consolidation import receipt
from anabranch.model.errors import DigestMismatchError, InvalidInputError, TooLargeError
from anabranch.model.memory import ExchangePost
from anabranch.model.misfits import misfits, told
from anabranch.model.objects import Change, RunCompletion, batch_hash
from anabranch.model.requests import BranchRequest, BulkBatches, PrivateWrite, ReviewRequest

BRANCH = f"br_{'0' * 26}_{'0' * 26}"
NO_HASH = f"sha256:{'0' * 64}"
CHANGE = {"op": "put", "key": "k", "content": "CONTENT", "scope": "shared", "visibility": "shareable"}


def batch(change=None, **members):
    whole = {
        "branch_id": BRANCH,
        "sequence": 1,
        "changes": [{**CHANGE, **(change or {})}],
        "source_locators": [[]],
        "base_revisions": ["0"],
        **members,
    }
    return {"content_hash": NO_HASH, **whole}


def signed(**members):
    whole = {name: value for name, value in batch(**members).items() if name != "content_hash"}
    return {**whole, "content_hash": batch_hash(whole)}


def many(count, **change):
    """Members of a batch of so many changes; a change's values may be functions of its number."""
    changes = [
        {"key": f"k{n}", **{name: value(n) if callable(value) else value for name, value in change.items()}}
        for n in range(count)
    ]
    return {"changes": changes, "source_locators": [[]] * count, "base_revisions": ["0"] * count}


def raw(content):
    """A batch with these bytes where its content stands."""
    return json.dumps(batch()).replace('"CONTENT"', content).encode()


@pytest.mark.parametrize(
    ("body", "detail", "hint"),
    [
        (batch(nonsense=1), "nonsense: there is no such field: leave it out, or check its spelling.", "openapi.json"),
        (batch({"Scope": "x"}), "changes[0].Scope: there is no such field", "openapi.json"),
        (batch({"supersedes": ["1"]}), "changes[0].supersedes: there is no such field", ""),
        ({}, "branch_id: it is missing; sequence: it is missing; content_hash: it is missing (and 3 more).", ""),
        ([], "The batch is not a JSON object.", "FindingBatch"),
        (batch({"key": "a\nb"}), r"changes[0].key: key 'a\nb' holds a control character.", "Remove it."),
        (batch({"key": "e\u0301"}), "is not in Unicode normalization form NFC.", "Normalize it to NFC first."),
        (batch({"key": "k" * 513}), "has 513 bytes, the limit is 512.", "Shorten it."),
        (batch({"key": ""}), "changes[0].key: key is not a text of 1 to 512 bytes.", ""),
        (batch({"key": 5}), "changes[0].key: must be a JSON string.", ""),
        (batch({"key": "\ud800"}), "$.changes[0].key has a lone surrogate.", "Send well-formed Unicode."),
        (batch({"content": ["\udfff"]}), "$.changes[0].content[0] has a lone surrogate.", ""),
        (batch({"content": {"\udfff": 1}}), "$.changes[0].content has a lone surrogate.", ""),
        (batch({"scope": "Team A"}), "changes[0].scope: scope 'Team A' is no scope.", "shared, team/build"),
        (batch({"scope": "s" * 65}), "has 65 bytes, the limit is 64.", "Shorten the scope."),
        (batch({"op": "delete"}), "changes[0].op: must be 'put' or 'tombstone'.", ""),
        (batch({"op": "tombstone"}), "a tombstone carries no content: leave `content` out.", ""),
        (batch(content_hash="md5:x"), "content_hash: is no digest: write sha256: and 64 lower-case hex digits.", ""),
        (batch(sequence=0), "sequence: must be at least 1.", ""),
        (batch(sequence=2**53), "$.sequence is a number beyond 2^53-1.", ""),
        (batch(sequence=1.5), "sequence: must be an integer.", ""),
        (batch(sequence=True), "sequence: must be an integer.", ""),
        (batch(final=True), "last_acknowledged_sequence is missing", ""),
        (batch(base_revisions=["-1"]), "base_revisions[0]: is no revision: write it as text of up to 18 digits", ""),
        (batch(base_revisions=[]), "base_revisions has 0 entries for 1 changes.", ""),
        (batch(**many(10_001)), "changes: has 10001 entries, the limit is 10000.", ""),
        (batch(**many(33, scope=lambda n: f"s{n}")), "changes are in 33 scopes, the limit is 32: split the batch", ""),
        (batch(source_locators=[["record:k@1"] * 33]), "source_locators[0] has 33 entries, the limit is 32: cite", ""),
        (batch(source_locators=[["http://x"]]), "source_locators[0][0]: 'http://x' is no source locator.", "evidence:"),
        (batch(source_locators=[["https://" + "x" * 1100]]), "is longer than 1024 bytes.", "Upload evidence."),
        (batch(observed_at="2026-01-01T00:00:00"), "observed_at: lacks its offset from UTC: write it like 2026", ""),
        (batch(observed_at="yesterday"), "observed_at: is no time: write it like 2026-01-31T12:00:00Z.", ""),
        (batch(observed_at="9999-12-31T23:59:59-14:00"), "observed_at: the time lies outside the years 1 to 9999", ""),
        (raw("9007199254740993"), "$.changes[0].content is a number beyond 2^53-1.", "send it as a string"),
        (raw("9" * 5000), "a number far beyond 2^53-1.", "send it as a string"),
        (raw("NaN"), "The body has NaN, which JSON lacks.", "null or a string"),
        (raw("-Infinity"), "The body has -Infinity, which JSON lacks.", "null or a string"),
        (raw("1e999"), "$.changes[0].content is not a finite number.", "null or a string"),
        (raw('1, "content": 2'), "An object of the body has the member 'content' twice.", "Send each member once."),
        (raw("[" * 70 + "]" * 70), "[0] is nested deeper than 64.", "Flatten the value."),
        (raw("[" * 200_000 + "]" * 200_000), "The body is nested deeper than 64.", "Flatten the value."),
        (raw("1")[:-5], "The body is not JSON: ", "Send one whole RFC 8259 JSON value in UTF-8."),
        (raw("1").replace(b"shared", b"\xff"), "The body is not JSON: 'utf-8' codec can't decode", "UTF-8"),
    ],
    ids=lambda value: None if isinstance(value, dict | list | bytes) else str(value)[:40],
)
async def test_a_batch_that_is_not_one_is_refused_in_words_for_its_sender(body, detail, hint):
    with pytest.raises(InvalidInputError) as refused:
        await receipt.read(body if isinstance(body, bytes) else json.dumps(body).encode())
    assert detail in refused.value.detail
    assert hint in refused.value.hint
    assert refused.value.hint
    assert len(refused.value.detail) < 300


async def test_a_content_over_its_limit_and_a_digest_of_another_batch_are_told_apart():
    with pytest.raises(TooLargeError, match=r"changes\[0\].content has 1048578 bytes, the limit is 1048576. Split it"):
        await receipt.read(json.dumps(signed(change={"content": "x" * (1 << 20)})).encode())
    with pytest.raises(DigestMismatchError, match="and the batch that arrived has sha256:"):
        await receipt.read(json.dumps({**signed(), "content_hash": NO_HASH}).encode())


@pytest.mark.parametrize("moment", ["0001-01-01T00:00:00Z", "1969-12-31T23:59:59Z", "9999-12-31T23:59:59Z"])
async def test_a_sender_whose_clock_is_wrong_is_taken_at_its_word(moment):
    submission = await receipt.read(json.dumps(signed(observed_at=moment)).encode())
    assert submission.batch.observed_at.isoformat().startswith(moment[:19])


@pytest.mark.parametrize(
    ("model", "body", "detail"),
    [
        (BranchRequest, {"name": "A_B", "baseline": "f", "foo": 1}, "body.name: is no name of an object: join lower"),
        (BranchRequest, {"name": "a", "baseline": "f", "foo": 1}, "body.foo: there is no such field"),
        (BranchRequest, {"name": "a" * 300, "baseline": "f"}, "body.name: is longer than 253 characters, which is"),
        (BranchRequest, {"name": "a", "baseline": "f", "task": "\0"}, "body.task: holds a NUL character: remove it."),
        (PrivateWrite, {}, "body.content: it is missing."),
        (BulkBatches, {"batches": [{}] * 101}, "body.batches: has 101 entries, the limit is 100."),
        (BulkBatches, {"batches": []}, "body.batches: has no entries, at least 1 must be there."),
        (ReviewRequest, {"decisions": [{"action": "maybe"}]}, "body.decisions[0].candidate_id: it is missing; "),
        (RunCompletion, {"last_submitted_sequence": -1}, "body.run_id: it is missing; "),
    ],
)
def test_a_request_that_does_not_fit_names_each_field(model, body, detail):
    with pytest.raises(InvalidInputError) as refused:
        fit(model, json.dumps(body).encode())
    assert refused.value.detail.startswith(detail)
    assert [each["field"].startswith("body.") for each in refused.value.extra["errors"]]


def test_what_is_said_twice_or_follows_from_the_rest_is_said_once():
    with pytest.raises(ValidationError) as refused:
        ExchangePost.model_validate_json(b'{"participants": [{"agent": 1}]}', strict=True)
    errors = refused.value.errors()
    assert "too_short" in {error["type"] for error in errors}
    assert "entries" not in told(misfits([*errors, *errors]))
    assert len(misfits([*errors, *errors])) == len(errors) - 1


def test_a_finding_without_words_of_ours_has_pydantics_own():
    with pytest.raises(ValidationError) as refused:
        Change.model_validate_json("[", strict=True)
    assert told(misfits(refused.value.errors())).startswith("Invalid JSON: ")
