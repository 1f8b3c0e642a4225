"""Free text: what Postgres cannot keep is refused at the door, not found out by whoever would store it."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from anabranch.model.crd.branch import BranchSpec
from anabranch.model.crd.decisions import Decision
from anabranch.model.requests import BranchRequest, DecisionRequest

SEEN = {"content_hash": f"sha256:{'0' * 64}", "base_revision": "0", "action": "accept"}
CANDIDATE = f"cand_{'0' * 26}_{'0' * 26}"


def in_resource(reason):
    return Decision(candidate_id=CANDIDATE, **SEEN, reason=reason).reason


def by_http(reason):
    return DecisionRequest(candidate_id=CANDIDATE, **SEEN, reason=reason).reason


def task_in_resource(task):
    return BranchSpec(baseline_ref={"name": "kb"}, agent={"service_account_name": "a"}, task=task).task


def task_by_http(task):
    return BranchRequest(name="b", baseline="kb", task=task).task


@pytest.mark.parametrize("door", [in_resource, by_http, task_in_resource, task_by_http])
def test_text_is_kept_as_it_is_and_nul_is_refused(door):
    assert door("two\nlines, ключ") == "two\nlines, ключ"

    with pytest.raises(ValidationError, match="should match pattern"):
        door("a\0b")
