"""The definitions on a real API server: what it takes, what it refuses and in which words, and what people see."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from anabranch.devcluster.errors import DevclusterError
from anabranch.manifests import crds
from anabranch.model.crd.schema import fields

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[2]
CANDIDATE = "cand_01h455vb4pex5vsknk084sn02q_01h455vb4pex5vsknk084sn02q"
HASH = "sha256:" + "0" * 64
BRANCH_JOB = {"branchRef": {"name": "b"}, "batches": {"from": 1, "through": 2}}
BRANCH = {"baselineRef": {"name": "handbook"}, "agent": {"serviceAccountName": "worker"}}


def resource(kind, spec, name="a", **members):
    return {
        "apiVersion": "anabranch.dev/v1alpha1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": spec,
        **members,
    }


@pytest.fixture
def create(installed, namespace):
    def create(kind, spec, name="a", **members):
        body = json.dumps(resource(kind, spec, name, **members))
        return json.loads(installed.kubectl("create", "-f-", "-ojson", f"-n{namespace}", stdin=body))

    return create


@pytest.fixture
def patch(installed, namespace):
    def patch(kind, spec, name="a", *options):
        body = json.dumps({"spec": spec})
        return installed.kubectl("patch", kind, name, f"-n{namespace}", "--type=merge", f"-p={body}", *options)

    return patch


@pytest.fixture
def stored(installed, namespace):
    def stored(kind, name="a"):
        return json.loads(installed.kubectl("get", kind, name, f"-n{namespace}", "-ojson"))

    return stored


def decision(**members):
    values = {"candidateId": CANDIDATE, "contentHash": HASH, "baseRevision": "0", "action": "accept"}
    return {**values, **members}


# What is refused at creation


@pytest.mark.parametrize(
    ("kind", "spec", "words"),
    [
        ("Baseline", {"import": {}}, "name exactly one source: spec.import.configMap or spec.import.archive"),
        (
            "Baseline",
            {"import": {"configMap": {"name": "c"}, "archive": {"digest": HASH}}},
            "name exactly one source: spec.import.configMap or spec.import.archive",
        ),
        ("Baseline", {"import": {"archive": {"digest": "sha256:1"}}}, "spec.import.archive.digest"),
        ("Baseline", {"import": {"configMap": {"name": "c", "keys": ["x", "x"]}}}, "Duplicate value"),
        ("Baseline", {"pin": {}}, "name the manifest once"),
        ("Baseline", {"pin": {"generation": 0}}, "spec.pin.generation"),
        (
            "Baseline",
            {"pin": {"generation": 1}, "restore": {"generation": 1, "id": "r"}},
            "remove the pin first, then restore",
        ),
        ("Baseline", {"restore": {"generation": 1}}, "spec.restore.id: Required value"),
        ("Baseline", {"review": {"mode": "Sometimes"}}, 'supported values: "Manual", "Automatic"'),
        ("Baseline", {"review": {"minReviewers": 0}}, "spec.review.minReviewers"),
        ("Baseline", {"review": {"autoAccept": {"scopes": ["Team"]}}}, "spec.review.autoAccept.scopes"),
        ("Baseline", {"review": {"autoAccept": {"sourceKinds": ["rumour"]}}}, "spec.review.autoAccept.sourceKinds"),
        ("Baseline", {"review": {"autoAccept": {"agents": ["a/b/c"]}}}, "spec.review.autoAccept.agents"),
        ("Baseline", {"limits": {"records": 5_000_001}}, "spec.limits.records"),
        ("Baseline", {"limits": {"scopes": 33}}, "spec.limits.scopes"),
        ("Baseline", {"limits": {"batchBytes": 1}}, "spec.limits.batchBytes"),
        ("Baseline", {"backup": {"policy": "BeforePublish"}}, "name where backups go: spec.backup.target"),
        ("Baseline", {"backups": {"policy": "None"}}, 'unknown field "spec.backups"'),
        ("Branch", {"baselineRef": {"name": "b"}}, "spec.agent: Required value"),
        ("Branch", {**BRANCH, "baselineRef": {"namespace": "n"}}, "spec.baselineRef.name: Required value"),
        ("Branch", {**BRANCH, "task": "ü" * 600}, "spec.task is longer than 1,024 bytes"),
        ("Branch", {**BRANCH, "sharingPolicy": {"default": "public"}}, "spec.sharingPolicy.default"),
        ("Branch", {**BRANCH, "ttlSecondsAfterFinished": 60}, 'unknown field "spec.ttlSecondsAfterFinished"'),
        ("ConsolidationJob", {}, "a job of origin Branch needs spec.branchRef and spec.batches"),
        (
            "ConsolidationJob",
            {"branchRef": {"name": "b"}},
            "a job of origin Branch needs spec.branchRef and spec.batch",
        ),
        ("ConsolidationJob", {**BRANCH_JOB, "batches": {"from": 2, "through": 1}}, "is greater than"),
        ("ConsolidationJob", {**BRANCH_JOB, "batches": {"from": 0, "through": 1}}, "spec.batches.from"),
        ("ConsolidationJob", {**BRANCH_JOB, "origin": "Held"}, "only a job of origin Branch has spec.batches"),
        (
            "ConsolidationJob",
            {"origin": "Import", "branchRef": {"name": "b"}},
            "only a job of origin Branch or Held has spec.branchRef",
        ),
        ("ConsolidationJob", {**BRANCH_JOB, "leaseDuration": "1d"}, "spec.leaseDuration"),
        ("ConsolidationJob", {**BRANCH_JOB, "leaseDuration": "2h"}, "spec.leaseDuration must be from 5s to 1h"),
        ("ConsolidationJob", {**BRANCH_JOB, "leaseDuration": "4s"}, "spec.leaseDuration must be from 5s to 1h"),
        ("ConsolidationJob", {**BRANCH_JOB, "retryLimit": -1}, "spec.retryLimit"),
        (
            "ConsolidationJob",
            {**BRANCH_JOB, "reviews": [{"reviewer": "x", "decisions": [decision(action="maybe")]}]},
            "action",
        ),
        (
            "ConsolidationJob",
            {**BRANCH_JOB, "reviews": [{"reviewer": "x", "decisions": [decision(), decision(action="reject")]}]},
            "Duplicate value",
        ),
        ("ConsolidationJob", {**BRANCH_JOB, "reviews": [{"reviewer": "x", "decisions": []}] * 2}, "Duplicate value"),
    ],
)
def test_a_wrong_spec_is_refused_in_words_that_say_what_to_do(installed, kind, spec, words):
    with pytest.raises(DevclusterError) as refusal:
        installed.kubectl("create", "--dry-run=server", "--filename=-", stdin=json.dumps(resource(kind, spec)))
    assert words in str(refusal.value)


# What is refused later


@pytest.mark.parametrize(
    ("kind", "spec", "change", "words"),
    [
        ("Branch", BRANCH, {"baselineRef": {"generation": 2}}, "spec.baselineRef is fixed at creation"),
        ("Branch", BRANCH, {"baselineRef": {"name": "other"}}, "spec.baselineRef is fixed at creation"),
        ("Branch", BRANCH, {"agent": {"id": "other"}}, "spec.agent is fixed at creation"),
        ("Branch", BRANCH, {"agent": None}, "spec.agent: Required value"),
        ("ConsolidationJob", BRANCH_JOB, {"batches": {"through": 3}}, "spec.batches is fixed at creation"),
        ("ConsolidationJob", BRANCH_JOB, {"branchRef": {"name": "other"}}, "spec.branchRef is fixed at creation"),
        ("ConsolidationJob", BRANCH_JOB, {"origin": "Held", "batches": None}, "spec.origin is fixed at creation"),
        ("ConsolidationJob", {"origin": "Held"}, {"branchRef": {"name": "b"}}, "spec.branchRef is fixed at creation"),
        (
            "Baseline",
            {"restore": {"generation": 1, "id": "once"}},
            {"restore": {"generation": 2}},
            "choose a new spec.restore.id for another generation",
        ),
    ],
)
def test_what_is_fixed_at_creation_stays(create, patch, kind, spec, change, words):
    create(kind, spec)
    with pytest.raises(DevclusterError) as refusal:
        patch(kind, change)
    assert words in str(refusal.value)


def test_what_may_change_changes(create, patch, stored):
    create("Branch", BRANCH)
    patch("Branch", {"task": "another", "sharingPolicy": {"exportPrivate": True}})
    create("ConsolidationJob", BRANCH_JOB)
    patch("ConsolidationJob", {"leaseDuration": "5m", "retryLimit": 0})
    create("Baseline", {"pin": {"generation": 1}})
    patch("Baseline", {"pin": None, "restore": {"generation": 1, "id": "once"}, "import": {"configMap": {"name": "c"}}})
    patch("Baseline", {"restore": {"generation": 2, "id": "twice"}, "suspend": True, "limits": {"records": 10}})
    spec = stored("Baseline")["spec"]
    assert (spec["restore"], spec["suspend"], spec["limits"]["records"]) == ({"generation": 2, "id": "twice"}, True, 10)
    assert "pin" not in spec
    assert stored("Branch")["spec"]["task"] == "another"
    assert stored("ConsolidationJob")["spec"]["leaseDuration"] == "5m"


def test_reviews_take_64_kib_and_not_more(installed, namespace, create, patch):
    me = installed.kubectl("auth", "whoami", "-ojsonpath={.status.userInfo.username}")

    def reviews(count, reason):
        ids = [f"{CANDIDATE[:-3]}{n:03}" for n in range(count)]
        return [{"reviewer": me, "decisions": [decision(candidateId=each, reason=reason) for each in ids]}]

    create("ConsolidationJob", BRANCH_JOB)
    patch("ConsolidationJob", {"reviews": reviews(200, "seen")})
    stored = installed.get("cjob", "a", f"-n{namespace}")["spec"]["reviews"]
    assert len(json.dumps(stored, separators=(",", ":"))) < 64 << 10
    for size in (reviews(230, ""), reviews(200, "ü" * 20)):
        with pytest.raises(DevclusterError, match=r"spec\.reviews is larger than 64 KiB"):
            patch("ConsolidationJob", {"reviews": size})


# What is filled in


def test_what_is_left_out_is_filled_in_and_shown(create):
    spec = create("Baseline", {})["spec"]
    assert spec == {
        "suspend": False,
        "review": {
            "mode": "Manual",
            "requireSources": True,
            "autoAccept": {"scopes": [], "sourceKinds": [], "agents": []},
            "minReviewers": 1,
            "forbidSelfReview": True,
        },
        "retention": {
            "generations": 50,
            "age": "30d",
            "events": "7d",
            "completedRuns": "30d",
            "tombstones": "90d",
            "transitions": "90d",
            "replica": {"maxAge": "7d", "onRevoke": "Purge"},
        },
        "limits": {"records": 5_000_000, "scopes": 32, "batchBytes": 8 << 20},
        "backup": {"policy": "None", "maxAge": "1d"},
        "store": "default",
        "deletionPolicy": "Retain",
    }
    spec = create("Branch", BRANCH)["spec"]
    assert spec["agent"] == {"serviceAccountName": "worker", "instance": "default"}
    assert spec["sharingPolicy"] == {
        "default": "private",
        "scopes": [],
        "exportPrivate": False,
        "peerVisibility": "state",
    }
    assert (spec["follow"], spec["lease"], "rebase" in spec) == ("Apply", {"duration": "1m"}, False)
    spec = create("ConsolidationJob", BRANCH_JOB)["spec"]
    assert spec == {**BRANCH_JOB, "origin": "Branch", "reviews": [], "leaseDuration": "30s", "retryLimit": 5}


@pytest.mark.parametrize(
    ("kind", "spec"), [("Baseline", {}), ("Branch", BRANCH), ("ConsolidationJob", BRANCH_JOB)], ids=lambda v: str(v)[:9]
)
def test_before_the_operator_has_been_there_the_status_says_so_whatever_was_sent(create, kind, spec):
    forged = {"observedGeneration": 1, "conditions": []}
    assert create(kind, spec, status=forged)["status"] == {"observedGeneration": -1}


def test_a_status_write_counts_no_generation_and_cannot_touch_the_spec(installed, namespace, create):
    create("Baseline", {})
    body = json.dumps({"status": {"openConflicts": 2}, "spec": {"suspend": True}})
    installed.kubectl("patch", "bl", "a", f"-n{namespace}", "--subresource=status", "--type=merge", f"-p={body}")
    baseline = installed.get("bl", "a", f"-n{namespace}")
    assert baseline["status"] == {"observedGeneration": -1, "openConflicts": 2}
    assert baseline["spec"]["suspend"] is False
    assert baseline["metadata"]["generation"] == 1


# What people see


def test_columns_tell_the_story_in_one_line(installed, namespace, create):
    create("Baseline", {"pin": {"generation": 3}})
    manifest = {"baselineId": "bl_x", "manifestHash": HASH, "publishedAt": "2026-01-01T00:00:00Z"}
    status = {
        "observedGeneration": 1,
        "current": {**manifest, "generation": 3, "records": 60},
        "head": {**manifest, "generation": 4, "records": 61},
        "openConflicts": 2,
        "oldestConflictAge": "2020-01-01T00:00:00Z",
        "conditions": [condition("Ready", "Pinned")],
    }
    set_status(installed, namespace, "bl", status)
    header, row = installed.kubectl("get", "bl", f"-n{namespace}").splitlines()
    assert header.split() == [
        *("NAME", "CURRENT", "HEAD", "RECORDS", "CONFLICTS", "OLDEST-CONFLICT", "PINNED", "READY", "AGE")
    ]
    cells = row.split()
    assert cells[:5] == ["a", "3", "4", "60", "2"]
    assert cells[5].endswith(("d", "y", "h"))
    assert cells[6:8] == ["3", "True"]

    create("Branch", BRANCH)
    parent = {"baselineId": "bl_x", "manifestHash": HASH, "generation": 3}
    set_status(installed, namespace, "br", {"phase": "Active", "parent": parent, "lastSubmittedSequence": 7})
    row = installed.kubectl("get", "br", f"-n{namespace}", "--no-headers").split()
    assert row[:6] == ["a", "handbook", "3", "worker", "Active", "7"]

    create("ConsolidationJob", BRANCH_JOB)
    status = {
        "observedGeneration": 1,
        "state": "published",
        "counts": {"accepted": 4, "conflicting": 1},
        "publishedGeneration": 4,
        "conditions": [condition("Complete", "Published"), condition("Ready", "Published")],
    }
    set_status(installed, namespace, "cjob", status)
    row = installed.kubectl("get", "cjob", f"-n{namespace}", "--no-headers").split()
    assert row[:10] == ["a", "b", "1", "2", "published", "4", "1", "4", "True", "Published"]
    installed.kubectl("wait", "--for=condition=Complete", "cjob/a", f"-n{namespace}", "--timeout=5s")


def condition(kind, reason):
    now = "2026-01-01T00:00:00Z"
    return {"type": kind, "status": "True", "reason": reason, "message": "", "lastTransitionTime": now}


def set_status(cluster, namespace, kind, status):
    body = json.dumps({"status": status})
    cluster.kubectl("patch", kind, "a", f"-n{namespace}", "--subresource=status", "--type=merge", f"-p={body}")


def test_one_word_lists_all_three_kinds(installed, namespace, create):
    create("Baseline", {})
    create("Branch", BRANCH)
    create("ConsolidationJob", BRANCH_JOB)
    names = installed.kubectl("get", "anabranch", f"-n{namespace}", "-oname").split()
    assert names == ["baseline.anabranch.dev/a", "branch.anabranch.dev/a", "consolidationjob.anabranch.dev/a"]


@pytest.mark.parametrize(
    ("kind", "specs", "selector"),
    [
        ("Baseline", ({"suspend": True}, {}), "spec.suspend=true"),
        ("Baseline", ({"review": {"mode": "Automatic"}}, {}), "spec.review.mode=Automatic"),
        ("Branch", (BRANCH, {**BRANCH, "baselineRef": {"name": "x"}}), "spec.baselineRef.name=handbook"),
        ("Branch", (BRANCH, {**BRANCH, "agent": {"serviceAccountName": "x"}}), "spec.agent.serviceAccountName=worker"),
        ("ConsolidationJob", (BRANCH_JOB, {**BRANCH_JOB, "branchRef": {"name": "x"}}), "spec.branchRef.name=b"),
        ("ConsolidationJob", ({"origin": "Import"}, BRANCH_JOB), "spec.origin=Import"),
    ],
)
def test_fields_select(installed, namespace, create, kind, specs, selector):
    create(kind, specs[0], "wanted")
    create(kind, specs[1], "other")
    found = installed.kubectl("get", kind, f"-n{namespace}", f"--field-selector={selector}", "-oname")
    assert found.split() == [f"{kind.lower()}.anabranch.dev/wanted"]


@pytest.mark.parametrize("crd", crds(), ids=lambda crd: crd["spec"]["names"]["plural"])
def test_kubectl_explains_every_field(installed, crd):
    names = crd["spec"]["names"]
    # What the API server publishes is what kubectl explain reads.
    published = json.loads(installed.kubectl("get", "--raw=/openapi/v3/apis/anabranch.dev/v1alpha1"))
    schema = published["components"]["schemas"][f"dev.anabranch.v1alpha1.{names['kind']}"]
    explained = {path: field.get("description") for path, field in fields(schema) if not path.startswith("metadata")}
    wanted = dict(fields(crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]))
    assert explained.keys() | {"metadata"} == wanted.keys()
    assert all(explained.values())
    shown = "".join(installed.kubectl("explain", f"{names['plural']}.spec").split())
    for field in schema["properties"]["spec"]["properties"].values():
        assert "".join(field["description"].split()) in shown
    listed = set(installed.kubectl("explain", names["plural"], "--recursive").split())
    assert {path.rpartition(".")[2].removesuffix("[]") for path in wanted if path} <= listed


# GitOps


def test_the_examples_apply_with_plain_kubectl_and_again_change_nothing(installed):
    try:
        installed.kubectl("apply", f"--filename={ROOT}/examples")
        objects = ("bl,br,cjob", "--namespace=anabranch-examples")
        # The very first write after creation tells the API server's defaults to field management.
        installed.kubectl("apply", f"--filename={ROOT}/examples")
        before = [item["metadata"]["resourceVersion"] for item in installed.get(*objects)["items"]]
        assert len(before) == 3
        again = installed.kubectl("apply", f"--filename={ROOT}/examples").splitlines()
        assert all(line.endswith(" unchanged") for line in again)
        assert [item["metadata"]["resourceVersion"] for item in installed.get(*objects)["items"]] == before
    finally:
        installed.kubectl("delete", "namespace", "anabranch-examples", "--ignore-not-found", "--timeout=60s")


def test_server_side_apply_of_the_same_again_changes_nothing(installed, namespace):
    body = json.dumps(
        resource("Baseline", {"review": {"autoAccept": {"scopes": ["shared"]}}, "pin": {"generation": 1}})
    )
    apply = ("apply", "--server-side", "--field-manager=gitops", "-f-", "-ojson", f"-n{namespace}")
    installed.kubectl(*apply, stdin=body)
    versions = [json.loads(installed.kubectl(*apply, stdin=body))["metadata"]["resourceVersion"] for _ in range(2)]
    assert versions[0] == versions[1]


def test_the_definitions_applied_again_change_nothing(installed):
    names = [crd["metadata"]["name"] for crd in crds()]
    before = [crd["metadata"]["generation"] for crd in installed.get("crd", *names)["items"]]
    installed.apply(crds())
    assert [crd["metadata"]["generation"] for crd in installed.get("crd", *names)["items"]] == before
