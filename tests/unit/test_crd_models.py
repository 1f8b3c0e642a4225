"""What the operator reads from a resource, and what it writes into a status."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from anabranch.model.crd import (
    BaselineResource,
    BaselineStatus,
    BranchResource,
    ConsolidationJobResource,
    ManifestSummary,
    ReviewPolicy,
    format_duration,
    format_period,
    parse_duration,
    parse_period,
)
from anabranch.model.errors import InvalidInputError

METADATA = {"namespace": "team", "name": "a", "uid": "u-1", "generation": 3}


def body(spec, **metadata):
    return {"metadata": {**METADATA, **metadata}, "spec": spec}


def test_a_baseline_without_a_word_has_the_careful_defaults():
    baseline = BaselineResource.parse(body({}))
    assert (baseline.namespace, baseline.name, baseline.uid, baseline.generation) == ("team", "a", "u-1", 3)
    assert baseline.deletion_timestamp is None
    assert baseline.spec.import_ is None
    assert baseline.spec.suspend is False
    assert baseline.spec.review == ReviewPolicy(mode="Manual", require_sources=True, forbid_self_review=True)


def test_names_are_camel_case_outside_and_snake_case_inside():
    spec = {
        "import": {"configMap": {"name": "c", "keys": ["x.md"]}},
        "review": {"autoAccept": {"sourceKinds": ["git"]}},
    }
    parsed = BaselineResource.parse(body(spec)).spec
    assert parsed.import_
    assert parsed.import_.config_map
    assert parsed.import_.config_map.keys == ("x.md",)
    assert parsed.review.auto_accept.source_kinds == ("git",)
    assert parsed.review.model_dump(by_alias=True)["autoAccept"] == {
        "scopes": (),
        "sourceKinds": ("git",),
        "agents": (),
    }


def test_a_reference_without_a_namespace_means_the_own_one():
    spec = {"baselineRef": {"name": "handbook"}, "agent": {"serviceAccountName": "worker"}}
    branch = BranchResource.parse(body(spec))
    assert branch.baseline == ("team", "handbook")
    assert branch.spec.agent.agent_id == "worker"
    spec = {"baselineRef": {"name": "handbook", "namespace": "platform"}, "agent": {**spec["agent"], "id": "build"}}
    branch = BranchResource.parse(body(spec))
    assert branch.baseline == ("platform", "handbook")
    assert branch.spec.agent.agent_id == "build"

    assert ConsolidationJobResource.parse(body({"origin": "Import"})).branch is None
    job = ConsolidationJobResource.parse(body({"branchRef": {"name": "b"}, "batches": {"from": 2, "through": 5}}))
    assert job.branch == ("team", "b")
    assert job.spec.batches
    assert (job.spec.batches.from_, job.spec.batches.through) == (2, 5)
    assert job.spec.lease_duration == timedelta(seconds=30)


def test_a_deleted_resource_says_since_when():
    baseline = BaselineResource.parse(body({}, deletionTimestamp="2026-01-02T03:04:05Z"))
    assert baseline.deletion_timestamp == datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def test_a_field_of_another_release_is_refused_by_name_not_ignored():
    with pytest.raises(
        InvalidInputError, match=r"Baseline team/a: spec\.region\.?.*: Extra inputs are not permitted"
    ) as error:
        BaselineResource.parse(body({"region": "eu"}))
    assert "one release" in error.value.hint


@pytest.mark.parametrize("text", ["1s", "30s", "90s", "5m", "1h", "36h"])
def test_durations_read_back_as_they_were_written(text):
    duration = parse_duration(text)
    assert parse_duration(format_duration(duration)) == duration


@pytest.mark.parametrize(("text", "seconds"), [("90s", 90), ("5m", 300), ("2h", 7200)])
def test_a_duration_is_a_number_and_a_unit(text, seconds):
    assert parse_duration(text) == timedelta(seconds=seconds)
    assert format_duration(timedelta(seconds=seconds)) == {90: "90s", 300: "5m", 7200: "2h"}[seconds]


@pytest.mark.parametrize("text", ["", "0s", "30", "1d", "1.5h", "-1s", "5m\n", "1h30m", 30, None])
def test_another_form_of_duration_is_refused(text):
    with pytest.raises(ValueError, match="a whole number and a unit"):
        parse_duration(text)


@pytest.mark.parametrize("text", ["1s", "90s", "12h", "1d", "30d", "36500d"])
def test_periods_read_back_as_they_were_written_days_included(text):
    assert format_period(parse_period(text)) == text
    assert format_period(timedelta(hours=48)) == "2d"


@pytest.mark.parametrize("text", ["", "0d", "30", "1w", "P1D", "1.5d", "-1d", "1000000d", "1d12h", None])
def test_another_form_of_period_is_refused(text):
    with pytest.raises(ValueError, match="a whole number and a unit: 90s, 12h, 30d"):
        parse_period(text)


def test_a_status_leaves_out_what_does_not_hold_any_more():
    now = datetime(2026, 1, 2, 3, 4, 5, 678, tzinfo=UTC)
    head = ManifestSummary(baseline_id="bl_x", generation=2, manifest_hash="sha256:0", records=7, published_at=now)
    status = BaselineStatus(observed_generation=3, line_id="ln_x", head=head).whole()
    assert status["observedGeneration"] == 3
    assert status["head"] == {
        "baselineId": "bl_x",
        "generation": 2,
        "manifestHash": "sha256:0",
        "records": 7,
        "publishedAt": "2026-01-02T03:04:05Z",
    }
    assert "oldestConflictAge" not in status
    assert "current" not in status
    assert status["conditions"] == []


def test_a_status_written_by_another_release_can_be_read():
    assert BaselineStatus.model_validate({"observedGeneration": 1, "lastVerification": {}}).observed_generation == 1
