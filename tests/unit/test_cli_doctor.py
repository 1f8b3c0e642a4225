"""The doctor's eye: each thing that can be missing is seen, named, and given what mends it."""

from datetime import UTC, datetime, timedelta

import httpx
import pytest
from click.testing import CliRunner
from tests.unit.doctored import SYSTEM, Cluster, look, pod, problems, resource

from anabranch import manifests
from anabranch.cli import doctor
from anabranch.cli.connection import Connection
from anabranch.cli.examination import Finding
from anabranch.model.errors import UnavailableError


@pytest.fixture
def cluster():
    return Cluster()


def test_a_good_installation_has_nothing_to_mend(cluster):
    assert {finding.state for finding in look(cluster)} == {"ok"}


def test_a_cluster_that_is_too_old_is_said_to_be(cluster):
    cluster.version = {"major": "1", "minor": "30+", "gitVersion": "v1.30.2"}
    (found,) = problems(cluster)
    assert (found.found, found.mend) == ("v1.30.2", "upgrade to Kubernetes 1.31 or later")


def test_without_a_cluster_nothing_else_is_looked_at(cluster):
    cluster.version = UnavailableError("refused", hint="Check it.")
    assert look(cluster) == [Finding("Kubernetes", "problem", "refused", "Check it.")]


def test_an_absent_definition_is_named(cluster):
    del cluster.crds["branches.anabranch.dev"]
    (found,) = problems(cluster)
    assert (found.check, found.found) == ("definitions", "branches.anabranch.dev is absent")
    assert "anabranch manifests" in found.mend


def test_a_definition_of_another_release_is_told_from_what_the_server_adds(cluster):
    schema = cluster.crds["baselines.anabranch.dev"]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    schema["properties"]["spec"]["x-kubernetes-added-by-the-server"] = True
    assert not problems(cluster)
    del schema["properties"]["spec"]["properties"]["pin"]
    (found,) = problems(cluster)
    assert found.found == "baselines.anabranch.dev is of another release"


def test_a_definition_that_lacks_a_rule_is_of_another_release(cluster):
    schema = cluster.crds["baselines.anabranch.dev"]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    assert schema["properties"]["spec"]["x-kubernetes-validations"].pop()
    assert [found.found for found in problems(cluster)] == ["baselines.anabranch.dev is of another release"]


def test_a_missing_policy_leaves_the_review_guard_with_a_gap(cluster):
    gone = cluster.policies.pop()["metadata"]["name"]
    (found,) = problems(cluster)
    assert (found.check, found.found) == ("review guard", f"The ValidatingAdmissionPolicy {gone} is absent.")


def test_an_absent_account_is_named(cluster):
    del cluster.accounts[manifests.API_ACCOUNT]
    assert [(found.check, found.found) for found in problems(cluster)] == [
        ("accounts", f"serviceaccount {manifests.API_ACCOUNT} not found")
    ]


def test_tokens_minted_for_another_audience_are_seen_before_the_api_refuses_them(cluster):
    (found,) = problems(cluster, audience="elsewhere")
    assert found.found == f"the API takes tokens for anabranch.{SYSTEM}; here they are minted for elsewhere"
    assert found.mend == f"export ANABRANCH_AUDIENCE=anabranch.{SYSTEM}"


def test_pods_that_are_ready_or_done_are_no_problem_and_a_machine_without_pods_is_none(cluster):
    assert Finding("pods", "ok", f"none in {SYSTEM}: the programs run elsewhere") in look(cluster)
    cluster.release = [pod(Ready="True"), pod(phase="Succeeded", Ready="False"), pod(phase="Failed", Ready="False")]
    cluster.release.append({"kind": "Job", "metadata": {"name": "m"}, "status": {}})
    leaving = pod(Ready="False")
    leaving["metadata"]["deletionTimestamp"] = "2026-11-30T00:00:00Z"
    cluster.release.append(leaving)
    assert not problems(cluster)


def test_a_pod_that_is_being_made_is_not_ready_and_says_no_more_than_that(cluster):
    for reason in ("ContainerCreating", "PodInitializing"):
        cluster.release = [pod(Ready="False", state={"waiting": {"reason": reason}})]
        assert [found.found for found in problems(cluster)] == ["anabranch-api-1 is not ready"]


def test_what_is_on_its_way_for_long_is_a_problem_and_what_has_just_begun_is_none(cluster):
    for minutes, seen in ((1, []), (7, ["memory/a: ArchiveMissing, for 7 minutes"])):
        cluster.resources["baselines"] = [resource("a", minutes=minutes, Reconciling="ArchiveMissing")]
        assert [found.found for found in problems(cluster)] == seen


@pytest.mark.parametrize(
    ("lease", "words"),
    [
        (None, "lease anabranch-operator not found"),
        ({"holderIdentity": ""}, "no operator leads"),
        ({"holderIdentity": "one", "leaseDurationSeconds": 9, "renewTime": "2026-01-01T00:00:00.0Z"}, "last renewed"),
        ({"holderIdentity": "one", "leaseDurationSeconds": 9}, "one leads"),
    ],
)
def test_an_operator_that_does_not_lead_or_no_longer_lives_is_a_problem(cluster, lease, words):
    cluster.lease = lease
    found = [finding for finding in look(cluster) if finding.check == "operator"]
    assert words in found[0].found
    assert found[0].state == ("ok" if words == "one leads" else "problem")


def test_clocks_that_differ_by_half_a_minute_are_no_problem(cluster):
    cluster.lease["renewTime"] = (datetime.now(UTC) - timedelta(seconds=30)).isoformat()
    assert not problems(cluster)


def test_what_stands_still_is_named_once_with_its_own_advice(cluster):
    cluster.resources["baselines"] = [resource("a", Stalled="AdoptionRequired"), resource("b", Ready="Current")]
    cluster.resources["branches"] = [resource("c", Stalled="Denied")]
    cluster.resources["consolidationjobs"] = [resource("d", Failed="RetriesExhausted", Stalled="RetriesExhausted")]
    assert [(found.check, found.found, found.mend) for found in problems(cluster)] == [
        ("baselines", "memory/a: AdoptionRequired", "Mend AdoptionRequired."),
        ("branches", "memory/c: Denied", "Mend Denied."),
        ("jobs", "memory/d: RetriesExhausted", "Mend RetriesExhausted."),
    ]


def test_a_spec_that_nobody_has_seen_is_a_problem(cluster):
    cluster.resources["baselines"] = [resource("a", generation=3)]
    (found,) = problems(cluster)
    assert found.found == "memory/a: its newest spec was not seen yet"


def test_a_pause_and_waiting_reviews_are_told_and_are_no_problem(cluster):
    cluster.resources["baselines"] = [resource("a", ConsolidationPaused="Pinned")]
    cluster.resources["consolidationjobs"] = [resource("j", state="awaiting_review")]
    found = [finding.found for finding in look(cluster)]
    assert "memory/a is paused: Mend Pinned." in found
    assert "1 in the cluster, 1 await review" in found
    assert not problems(cluster)


@pytest.mark.parametrize(
    ("managers", "mend"),
    [
        (["argocd-controller"], None),
        (["anabranch-rollback", "argocd-controller"], "anabranch baseline rollback a -n memory --release"),
        (["kubectl-patch", "flux"], "remove spec.pin with all of them but one"),
    ],
)
def test_a_pin_with_several_owners_would_stay_unnoticed_and_is_a_problem(cluster, managers, mend):
    baseline = resource("a", ConsolidationPaused="Pinned")
    baseline["metadata"]["managedFields"] = [
        {"manager": manager, "fieldsV1": {"f:spec": {"f:pin": {"f:generation": {}}}}} for manager in managers
    ] + [{"manager": "anabranch", "subresource": "status", "fieldsV1": {"f:status": {}}}]
    cluster.resources["baselines"] = [baseline]
    found = problems(cluster)
    assert len(found) == (mend is not None)
    for finding in found:
        assert finding.found.startswith(f"memory/a: its pin is owned by {' and '.join(managers)}")
        assert finding.mend.startswith(mend)


def test_what_may_not_be_read_is_unknown_and_the_rest_is_looked_at(cluster):
    cluster.refused = {"crd", "baselines"}
    cluster.lease = None
    states = {finding.check: finding.state for finding in look(cluster)}
    assert (states["definitions"], states["baselines"]) == ("unknown", "unknown")
    assert (states["operator"], states["jobs"]) == ("problem", "ok")


def api(monkeypatch, answer, url="http://127.0.0.1:1"):
    def get(*_arguments, **_settings):
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(httpx, "get", get)
    return [(found.state, found.found) for found in doctor._api(Connection(kubectl=None, url=url))]


def test_the_api_is_unknown_until_somebody_says_where_it_is(monkeypatch):
    assert api(monkeypatch, None, url=None) == [("unknown", "its address is not known")]


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        (httpx.Response(200, json={"status": "ok", "checks": {"postgres": "ok"}}), ("ok", "http://127.0.0.1:1")),
        (
            httpx.Response(503, json={"status": "unavailable", "checks": {"postgres": "away", "kubernetes": "ok"}}),
            ("problem", "postgres: away"),
        ),
        (httpx.Response(200, text="<html>"), ("problem", "http://127.0.0.1:1 answers, and is no Anabranch API")),
        (httpx.Response(200, json=[]), ("problem", "http://127.0.0.1:1 answers, and is no Anabranch API")),
        (httpx.ConnectError("refused"), ("problem", "http://127.0.0.1:1 does not answer: refused")),
        (httpx.InvalidURL("no URL"), ("problem", "http://127.0.0.1:1 does not answer: no URL")),
    ],
)
def test_the_api_is_asked_whether_it_is_ready_part_by_part(monkeypatch, answer, found):
    assert api(monkeypatch, answer) == [found]


def test_from_a_pod_without_kubectl_the_api_alone_is_asked(monkeypatch):
    answer = httpx.Response(503, json={"status": "unavailable", "checks": {"postgres": "away"}})
    monkeypatch.setattr(httpx, "get", lambda *_arguments, **_settings: answer)
    monkeypatch.setenv("PATH", "")
    ran = CliRunner().invoke(doctor.command, ["--no-cluster", "--url=http://127.0.0.1:1", "--namespace=memory"])
    assert ran.exit_code == 1
    assert "postgres: away" in ran.output
    assert not {"Kubernetes", "definitions", "accounts"} & set(ran.output.split())


def test_a_finding_reads_as_what_is_wrong_and_below_it_what_to_do():
    lines = list(doctor.describe(Finding("operator", "problem", "no operator leads", "start it")))
    assert lines[1] == " " * 22 + " → start it"
    assert "no operator leads" in lines[0]
    assert len(list(doctor.describe(Finding("API", "ok", "http://x")))) == 1
