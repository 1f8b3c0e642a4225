"""What is far broader than its model is refused for that alone: noting a million faults would end the process."""

import json

import pytest
from pydantic import ValidationError

from anabranch.api.bodies import fit
from anabranch.consolidation import receipt
from anabranch.model import misfits
from anabranch.model.breadth import STRANGERS, check_breadth
from anabranch.model.errors import InvalidInputError
from anabranch.model.memory import ExchangePost
from anabranch.model.objects import FindingBatch
from anabranch.model.requests import BranchRequest, BulkBatches, ReviewRequest

NOBODY = {f"n{n}": 1 for n in range(STRANGERS + 1)}


@pytest.mark.parametrize(
    ("model", "value", "detail"),
    [
        (FindingBatch, NOBODY, f"n{STRANGERS}: there is no such field"),
        (FindingBatch, {"changes": [{"key": "k"}, NOBODY]}, f"changes[1].n{STRANGERS}: there is no such field"),
        (FindingBatch, {"changes": [{"a": 1, "b": 1}] * 51}, "changes[50].a: there is no such field"),
        (FindingBatch, {"changes": [1] * 10_001}, "changes: has 10001 entries, the limit is 10000."),
        (FindingBatch, {"base_revisions": [1] * 10_001}, "base_revisions: has 10001 entries, the limit is 10000."),
        (FindingBatch, {"source_locators": [[], [1] * 10_001]}, "source_locators[1]: has 10001 entries, the limit is"),
        (BulkBatches, {"batches": [{}] * 101}, "batches: has 101 entries, the limit is 100."),
        (ReviewRequest, {"groups": [{}] * 33}, "groups: has 33 entries, the limit is 32."),
        (BranchRequest, {"sharing_policy": {"scopes": ["s"] * 33}}, "sharing_policy.scopes: has 33 entries, the limit"),
        (ExchangePost, {"participants": [{}] * 9}, "participants: has 9 entries, the limit is 8."),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_too_broad_is_refused_by_its_place(model, value, detail):
    with pytest.raises(InvalidInputError) as refused:
        check_breadth(model, value)
    assert refused.value.detail.startswith(detail)


@pytest.mark.parametrize(
    ("model", "value"),
    [
        (FindingBatch, {"changes": [{"content": NOBODY}] * 10_000}),
        (FindingBatch, {"changes": [{"content": [1] * 10_001}]}),
        (FindingBatch, {"changes": {"0": NOBODY}, "base_revisions": 1, "source_locators": [NOBODY, [NOBODY]]}),
        (BulkBatches, {"batches": [NOBODY] * 100}),
        (FindingBatch, [NOBODY]),
    ],
    ids=["members of contents", "entries of contents", "other types", "any object", "no object"],
)
def test_what_may_be_anything_is_not_looked_at(model, value):
    check_breadth(model, value)


def batch(**members):
    whole = {
        "branch_id": f"br_{'0' * 26}_{'0' * 26}", "sequence": 1, "content_hash": f"sha256:{'0' * 64}",
        "changes": [], "source_locators": [], "base_revisions": [],
    }  # fmt: skip
    return json.dumps({**whole, **members}).encode()


@pytest.mark.parametrize(
    ("parse", "model", "body"),
    [
        (receipt.parse, FindingBatch, batch(base_revisions=[1] * 10_001)),
        (receipt.parse, FindingBatch, batch(changes=[NOBODY | {"key": "k" * 4_096}])),
        (lambda body: fit(ReviewRequest, body), ReviewRequest, json.dumps({"decisions": [{}] * 2_000}).encode()),
    ],
)
def test_of_a_body_that_is_too_broad_no_faults_are_noted(monkeypatch, parse, model, body):
    def noting(*_, **__):
        raise AssertionError

    monkeypatch.setattr(model, "model_validate_json", noting)
    with pytest.raises(InvalidInputError):
        parse(body)


def test_of_the_sources_of_a_change_one_fault_is_noted():
    with pytest.raises(ValidationError) as found:
        FindingBatch.model_validate_json(batch(source_locators=[["x"] * 32] * 10), strict=True)
    assert found.value.error_count() == 10


def test_more_faults_than_anybody_reads_are_counted_and_not_told():
    value = {"changes": [{"op": "no", "scope": 1}] * 4_000, "source_locators": [], "base_revisions": []}
    with pytest.raises(ValidationError) as found:
        FindingBatch.model_validate_json(json.dumps(value), strict=True)
    told = misfits.refusal(found.value, hint="Mend it.", within="body")
    assert told.detail == "body: does not fit FindingBatch in 12003 places, too many to tell."
    assert told.hint == "Mend it."
