"""The body of a bulk request: what is taken without its model is what the model takes."""

import json

import pytest
from pydantic import ValidationError

from anabranch.api.routes import findings
from anabranch.model.errors import InvalidInputError
from anabranch.model.limits import BULK_BATCHES
from anabranch.model.requests import BulkBatches


@pytest.mark.parametrize(
    "value",
    [
        {"batches": [{}]},
        {"batches": [{"sequence": 7, "é": [1.5, None]}, {"sequence": True}]},
        {"batches": [{}] * BULK_BATCHES},
        {"batches": [{}] * (BULK_BATCHES + 1)},
        {"batches": []},
        {"batches": {}},
        {"batches": None},
        {"batches": [{}, 1]},
        {"batches": [{}], "more": 1},
        {"batch": [{}]},
        {},
        [],
        [{}],
        "batches",
        None,
    ],
    ids=lambda value: json.dumps(value)[:40],
)
def test_a_bulk_request_is_taken_if_its_model_takes_it(value):
    body = json.dumps(value).encode()
    try:
        taken = BulkBatches.model_validate_json(body, strict=True)
    except ValidationError:
        with pytest.raises(InvalidInputError, match="body"):
            findings._read_bulk(body)
    else:
        assert findings._is_bulk(value)
        sequences, checked = findings._read_bulk(body)
        assert len(checked) == len(sequences) == len(taken.batches)
        assert sequences == [batch.get("sequence") if batch.get("sequence") == 7 else None for batch in taken.batches]


@pytest.mark.parametrize("body", [b'{"batches":[{}],"batches":[{}]}', b'{"batches":[{"a":NaN}]}', b'{"batches":[', b""])
def test_a_bulk_request_is_parsed_strictly(body):
    with pytest.raises(InvalidInputError):
        findings._read_bulk(body)
