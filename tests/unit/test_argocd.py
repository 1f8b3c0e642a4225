"""What Argo CD shows of each state, by our health checks: agreed with kstatus, and fit to act on."""

from __future__ import annotations

import pytest
import yaml
from lupa import lua51
from tests.unit.argocd import CUSTOMIZATIONS, KINDS, Health, health
from tests.unit.kstatus import conclude
from tests.unit.rows import job
from tests.unit.test_kstatus import STATES, written

from anabranch.manifests import crds

AGREED = {
    "Current": {"Healthy", "Suspended"},
    "InProgress": {"Progressing", "Suspended"},
    "Failed": {"Degraded"},
}
RECORDED = [
    pytest.param(kind, test, id=f"{kind} {test['inputPath']}")
    for kind in KINDS
    for test in yaml.safe_load((CUSTOMIZATIONS / kind / "health_test.yaml").read_text(encoding="utf-8"))["tests"]
]


def shown(kind, status, *, ahead=0):
    generation = status["observedGeneration"] + ahead
    metadata = {"name": "handbook", "namespace": "platform", "generation": generation}
    return health({"kind": kind, "metadata": metadata, "status": status})


def ready(status):
    return next(condition for condition in status["conditions"] if condition["type"] == "Ready")


@pytest.mark.parametrize(("kind", "row", "wanted"), STATES)
def test_argo_cd_concludes_what_kstatus_does_and_says_why(kind, row, wanted):
    status = written(kind, row)
    of = row.kind if kind == "Waiting" else kind
    found = shown(of, status)
    assert found.status in AGREED[wanted]
    if found.status != "Suspended":
        assert ready(status)["message"] in found.message
    assert shown(of, status, ahead=1).status == "Progressing"


@pytest.mark.parametrize(("kind", "test"), RECORDED)
def test_a_recorded_object_is_shown_as_its_table_says(kind, test):
    found = yaml.safe_load((CUSTOMIZATIONS / kind / test["inputPath"]).read_text(encoding="utf-8"))
    assert found["kind"] == kind
    wanted = test["healthStatus"]
    assert health(found) == Health(wanted["status"], wanted["message"])
    assert wanted["status"] in AGREED[conclude(found)]


@pytest.mark.parametrize("kind", KINDS)
def test_every_recording_is_in_its_table(kind):
    named = {test.values[1]["inputPath"] for test in RECORDED if test.values[0] == kind}
    assert named == {f"testdata/{path.name}" for path in (CUSTOMIZATIONS / kind / "testdata").iterdir()}


def test_each_of_our_kinds_has_a_check():
    assert {crd["spec"]["names"]["kind"] for crd in crds()} == set(KINDS)


@pytest.mark.parametrize(
    ("reason", "status"),
    [
        ("ArchiveMissing", "Suspended"),
        ("ImportUnset", "Suspended"),
        ("Suspended", "Suspended"),
        ("Other", "Progressing"),
    ],
)
def test_a_baseline_that_waits_for_a_person_is_suspended_and_other_waits_are_progress(reason, status):
    conditions = [
        {"type": "Ready", "status": "False", "reason": reason, "message": "Do it."},
        {"type": "Reconciling", "status": "True", "reason": reason, "message": "Do it."},
    ]
    found = shown("Baseline", {"observedGeneration": 1, "conditions": conditions})
    assert found == Health(status, f"{reason}: Do it.")


def test_a_job_that_failed_and_is_tried_again_says_why_and_when():
    status = written("ConsolidationJob", job(attempt=2, last_error="The host is away.", retry_at=job().job.created_at))
    found = shown("ConsolidationJob", status)
    assert found.status == "Progressing"
    assert "Attempt 2 failed: The host is away. It is tried again at 2026-01-01T12:00:00" in found.message


@pytest.mark.parametrize("kind", KINDS)
def test_an_object_without_any_status_is_progressing(kind):
    assert health({"kind": kind, "metadata": {"generation": 1}}).status == "Progressing"


@pytest.mark.parametrize("value", ["string.upper('x')", "('x'):upper()", "os.time()"])
def test_what_argo_cd_does_not_open_is_not_there_for_a_check(tmp_path, monkeypatch, value):
    monkeypatch.setattr("tests.unit.argocd.CUSTOMIZATIONS", tmp_path)
    (tmp_path / "Branch").mkdir()
    (tmp_path / "Branch" / "health.lua").write_text(f"return {{status = 'Healthy', message = {value}}}")
    with pytest.raises(lua51.LuaError, match=r"attempt to (index|call)"):
        health({"kind": "Branch", "metadata": {}})
