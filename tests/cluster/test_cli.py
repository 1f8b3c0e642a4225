"""The commands as their users call them, in this process, against the running whole: by kubeconfig and by token."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml
from tests.cluster.conftest import await_policies
from tests.cluster.places import BASELINE, RECORDS, eventually, finding

from anabranch.cli.main import run
from anabranch.devcluster import accounts

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.long

AGENT, OTHER_AGENT, READER, REVIEWER, PUBLISHER = "scout", "ranger", "reader", "rosa", "ci"
FIX = {"text": "Warm the cache, then build."}
RIVAL = {"text": "Do not warm the cache."}


@pytest.fixture(scope="module")
def people(place):
    """The accounts of this module's namespace, by the roles that an installation ships."""
    for name in (AGENT, OTHER_AGENT):
        place.account(name, "anabranch-agent")
    place.account(READER, "anabranch-viewer")
    place.account(REVIEWER, "anabranch-reviewer")
    place.account(PUBLISHER, "anabranch-publisher")
    return place


@pytest.fixture
def cli(people, monkeypatch, capsys) -> Callable[..., str]:
    """Runs a command in the place's namespace; gives standard output, or standard error where it is to fail."""
    cluster = people.stack.cluster
    monkeypatch.setenv("KUBECONFIG", str(cluster.kubeconfig))
    monkeypatch.setenv("PATH", str(cluster.kubectl_path.parent), prepend=":")
    monkeypatch.setenv("ANABRANCH_URL", people.stack.api_url)
    monkeypatch.setenv("ANABRANCH_AUDIENCE", people.stack.audience)

    def call(*arguments, fails=False, codes=(0,)):
        code = run([*map(str, arguments), "--namespace", people.namespace])
        out, err = capsys.readouterr()
        assert code in ((1,) if fails else codes), f"exit code {code}: {err}"
        return err if fails else out

    return call


@pytest.fixture
def kubeconfig(place, people, tmp_path):
    """Makes an account's own kubeconfig: what it may do by kubectl is what that account may."""

    def make(name):
        made = accounts.set_up(place.stack.cluster, namespace=place.namespace, name=name, folder=tmp_path)
        return f"--kubeconfig={made.kubeconfig}"

    return make


@pytest.fixture(scope="module")
async def published(place, people):
    """A finding that has made a generation; gives that generation."""
    client = await place.client(AGENT)
    branch = await place.branch(client)
    await place.submit(client, branch, finding("build/cache", FIX), base="1")
    return (await place.publication(client, branch)).generation


@pytest.fixture
async def conflict(place, published):
    """A finding of another agent that builds on what was replaced; gives the job and the candidate that wait."""
    client = await place.client(OTHER_AGENT)
    branch = await place.branch(client, generation=1)
    await place.submit(client, branch, finding("build/cache", {**RIVAL, "run": branch.name}), base="1")

    async def waiting():
        async for job in client.jobs(place.namespace, state="awaiting_review"):
            if job.branch_id == branch.branch_id:
                return job.name, job.conflicts[0]
        return None

    return await eventually(waiting)


def until(look, within=60.0):
    deadline = time.monotonic() + within
    while not (found := look()):
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.2)
    return found


def state_of(cli, job):
    (found,) = (item for item in json.loads(cli("job", "list", "-o", "json")) if item["metadata"]["name"] == job)
    return found["status"]["state"]


def test_a_directory_becomes_a_baseline_whose_root_is_verified(place, cli, tmp_path):
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "build.md").write_text("# Build\n\nRun make.\n\n## Cache\n\nWarm it.\n")
    (docs / "setup.json").write_text(json.dumps([{"key": "setup/a", "content": 1}, {"key": "setup/b", "content": "b"}]))
    digest = json.loads(cli("import", docs, "-o", "json"))["digest"]
    place.apply("Baseline", "docs", {"import": {"archive": {"digest": digest}}})
    upload = ("import", docs, "--baseline", "docs")
    refusal = cli(*upload, "--service-account", AGENT, fails=True)
    assert "lacks the verb `create` on `baselines/archives`" in refusal
    found = json.loads(cli(*upload, "--service-account", PUBLISHER, "-o", "json"))
    assert (found["digest"], found["records"], found["uploadedFor"]) == (digest, 4, f"{place.namespace}/docs")
    place.kubectl("wait", "--for=condition=Ready", "baseline/docs", "--timeout=60s")

    found = json.loads(cli("baseline", "verify", "docs", "--service-account", READER, "-o", "json"))
    assert (found["verified"], found["records"]) == (True, 4)
    assert found["computed"] == found["manifestHash"]
    row = cli("baseline", "list").splitlines()
    assert [line.split() for line in row if line.split()[1] == "docs"] == [
        [place.namespace, "docs", "1", "1", "4", "0", "0", "yes"]
    ]
    shown = yaml.safe_load(cli("baseline", "show", "docs"))
    assert shown["conditions"]["Ready"].startswith("True (Current)")


def test_who_may_not_read_all_scopes_cannot_verify_and_is_told_so(place, cli):
    place.account("narrow", "get baselines,baselines/records")
    place.allow("narrow", "scopes", "read", "shared")
    out = cli(
        "baseline", "verify", BASELINE, "--generation", "1", "--service-account", "narrow", "-o", "json", codes=[1]
    )
    found = json.loads(out)
    hidden = sum(scope != "shared" for scope, _ in RECORDS.values())
    assert not found["verified"]
    assert found["note"].startswith(f"{hidden} of {len(RECORDS)} records are in scopes that this token may not read")


def test_what_is_not_there_is_said_in_words_that_help(cli):
    reader = ("--service-account", READER)
    assert "There is no generation 999" in cli(
        "baseline", "verify", BASELINE, "--generation", "999", *reader, fails=True
    )
    assert 'baselines.anabranch.dev "nope" not found' in cli("baseline", "show", "nope", fails=True)
    assert "There is no baseline" in cli("baseline", "history", "nope", *reader, fails=True)
    assert 'serviceaccounts "nobody" not found' in cli(
        "baseline", "history", BASELINE, "--service-account", "nobody", fails=True
    )
    assert "no token to show" in cli("baseline", "history", BASELINE, fails=True)


def test_an_agents_whole_run_goes_by_commands(place, cli, tmp_path):
    agent = ("--service-account", AGENT)
    evidence = tmp_path / "build.log"
    evidence.write_text("linked in 3.4 GiB\n")

    def fork(*more):
        return yaml.safe_load(cli("branch", "fork", "by-hand", "--baseline", BASELINE, *more, *agent))

    assert fork("--task", "Find it.")["branch_id"] == fork("--task", "Find it.")["branch_id"]
    assert "name: is no name of an object" in cli(
        "branch", "fork", "By_Hand", "--baseline", BASELINE, *agent, fails=True
    )
    cli("branch", "put", "by-hand", "notes/hunch", '{"text": "Memory?"}', *agent)
    assert yaml.safe_load(cli("branch", "get", "by-hand", "notes/hunch", *agent))["layer"] == "private"
    assert "is not JSON" in cli("branch", "submit", "by-hand", "new/finding", "Plain text.", *agent, fails=True)
    submit = ("branch", "submit", "by-hand", "new/finding", '"Found."', "--evidence", evidence)
    assert yaml.safe_load(cli(*submit, *agent))["ack"] == "receipt"

    def publication():
        (batch,) = json.loads(cli("branch", "show", "by-hand", "-o", "json", *agent))["latest_batches"]
        return batch if batch["ack"] == "publication" else None

    generation = until(publication)["generation"]
    assert f"publication of {publication()['job_id']}" in cli("baseline", "history", BASELINE, *agent)
    diff = cli("baseline", "diff", BASELINE, "--from", generation - 1, "--to", generation, *agent)
    assert "+ new/finding  revision " in diff
    assert "    + Found." in diff

    assert yaml.safe_load(cli("branch", "presence", "by-hand", *agent))["state"] == "active"
    peers = cli("branch", "peers", "by-hand", *agent).splitlines()  # other runs of this agent's are silent
    assert [line for line in peers if AGENT in line and "active" in line]
    capsule = '{"goal": "find it", "next_action": "look at the linker"}'
    cli("branch", "checkpoint", "by-hand", "one", capsule, *agent)
    assert yaml.safe_load(cli("branch", "restore", "by-hand", *agent))["capsule"]["goal"] == "find it"
    assert "no checkpoint of the session other" in cli(
        "branch", "restore", "by-hand", "--session", "other", *agent, fails=True
    )

    cli("branch", "put", "by-hand", "new/finding", '"Something else."', *agent)
    rebase = ("branch", "rebase", "by-hand", "--to", generation)
    assert "new/finding" in cli(*rebase, *agent)
    assert json.loads(cli(*rebase, "-o", "json", *agent))["parent"]["generation"] < generation, "nothing was ordered"
    cli(*rebase, "--apply", *agent)
    unsettled = json.loads(cli("branch", "rebase", "by-hand", "-o", "json", *agent))
    assert unsettled["parent"]["generation"] == generation
    assert [conflict["key"] for conflict in unsettled["items"]] == ["new/finding"]

    assert yaml.safe_load(cli("branch", "complete", "by-hand", *agent))["closed_at"]
    assert yaml.safe_load(cli("branch", "complete", "by-hand", *agent))["closed_at"]
    until(lambda: "Completed" in next(line for line in cli("branch", "list").splitlines() if "by-hand" in line))
    assert "complete" in cli(*submit, *agent, fails=True)


def test_a_proof_is_checked_offline_against_the_root_in_the_history(place, cli, published, tmp_path, monkeypatch):
    reader = ("--service-account", READER)
    file = tmp_path / "proof.json"
    cli("baseline", "prove", BASELINE, "build/cache", "--generation", published, "--output", file, *reader)
    history = json.loads(cli("baseline", "history", BASELINE, "-o", "json", *reader))
    roots = {manifest["generation"]: manifest["manifest_hash"] for manifest in history}
    monkeypatch.setenv("ANABRANCH_URL", "http://127.0.0.1:1")
    assert run(["baseline", "check-proof", str(file), "--root", roots[published]]) == 0
    assert run(["baseline", "check-proof", str(file), "--root", roots[1]]) == 1


def test_a_rollback_is_printed_applied_and_released(place, cli, published, kubeconfig):
    reader, publisher = ("--service-account", READER), kubeconfig(PUBLISHER)
    target = ("baseline", "rollback", BASELINE, "--to", "1")

    def generations():
        found = json.loads(cli("baseline", "show", BASELINE, "-o", "json"))
        return found["status"]["current"]["generation"], found["status"]["head"]["generation"]

    printed = yaml.safe_load(cli(*target, *reader))
    assert printed["spec"] == {"pin": {"generation": 1}}
    assert printed["metadata"] == {"name": BASELINE, "namespace": place.namespace}
    assert generations()[0] > 1, "printing touches nothing"

    told = cli(*target, "--apply", publisher, "--token", place.account(READER))
    assert told == f"Readers of {BASELINE} have generation 1, and consolidation is paused.\n"
    assert generations()[0] == 1
    assert "ConsolidationPaused" in yaml.safe_load(cli("baseline", "show", BASELINE))["conditions"]

    cli("baseline", "rollback", BASELINE, "--release", publisher)
    current, head = generations()
    assert current == head > 1
    assert "no generation 999; the newest is" in cli("baseline", "rollback", BASELINE, "--to", "999", fails=True)


def test_a_rollback_tells_what_it_will_change_before_it_changes_it(place, cli, published, capsys):
    token = place.account(READER)
    assert run(["baseline", "rollback", BASELINE, "--to", "1", "-n", place.namespace, "--token", token]) == 0
    told = capsys.readouterr().err.splitlines()
    assert told[0].startswith(f"{place.namespace}/{BASELINE}: readers go from generation ")
    assert "  build/cache" in told
    assert told[-1] == "# Commit it, or run again with --apply."


def test_a_spec_that_argo_cd_owns_is_not_touched_but_the_commit_is_printed(place, cli, published):
    place.baseline("in-git", {"a": ("shared", 1)})
    owned = {"metadata": {"name": "in-git", "namespace": place.namespace}, "spec": {"suspend": False}}
    place.kubectl(
        "apply",
        "--server-side",
        "--field-manager=argocd-controller",
        "--force-conflicts",
        "--filename=-",
        stdin=json.dumps({"apiVersion": "anabranch.dev/v1alpha1", "kind": "Baseline", **owned}),
    )
    rollback = ("baseline", "rollback", "in-git", "--to", "1")
    refusal = cli(*rollback, "--apply", fails=True)
    assert "argocd-controller owns the spec of in-git" in refusal
    assert "Commit the pin to Git" in refusal
    assert yaml.safe_load(cli(*rollback))["spec"] == {"pin": {"generation": 1}}
    assert "pin" not in json.loads(cli("baseline", "show", "in-git", "-o", "json"))["spec"]


def test_a_pin_of_somebody_else_is_named_instead_of_released(place, cli, published):
    place.baseline("pinned", {"a": ("shared", 1)}, pin={"generation": 1})
    refusal = cli("baseline", "rollback", "pinned", "--release", fails=True)
    assert "still pinned, to generation 1, by anabranch-install" in refusal


def test_a_reviewer_decides_by_kubeconfig(place, cli, conflict, kubeconfig):
    job, candidate = conflict
    token = ("--token", place.account(REVIEWER))
    shown = cli("job", "review", job, *token)
    assert f"  {candidate} of system:serviceaccount:{place.namespace}:{OTHER_AGENT}" in shown
    assert "    - text: Warm the cache, then build." in shown
    assert "    + text: Do not warm the cache." in shown
    assert job in cli("job", "list", "--waiting")

    told = cli("job", "review", job, "--accept", candidate, kubeconfig(REVIEWER), *token)
    assert told == f"1 decided in {job}.\n"
    until(lambda: state_of(cli, job) == "published")
    shown = cli("job", "show", job, *token)
    assert "published as" in shown
    assert "awaiting_review   publishing" in shown
    assert "does not wait for a decision" in cli("job", "review", job, "--accept", candidate, *token, fails=True)


def test_an_agent_cannot_decide_whichever_way_it_tries(place, cli, conflict, kubeconfig):
    job, candidate = conflict
    place.account(OTHER_AGENT, "anabranch-viewer", "anabranch-aggregate-to-edit")
    accept = ("job", "review", job, "--accept", candidate, "--token", place.account(REVIEWER))
    refusal = cli(*accept, kubeconfig(OTHER_AGENT), fails=True)
    assert "spec.reviews: you lack the verb update on consolidationjobs/review" in refusal
    own = ("job", "review", job, "--accept", candidate, "--http", "--token", place.account(OTHER_AGENT))
    assert "lacks the verb `update` on `consolidationjobs/review`" in cli(*own, fails=True)
    assert state_of(cli, job) == "awaiting_review"


def test_a_reviewer_rejects_by_http_with_a_reason_that_the_agent_reads(place, cli, conflict):
    job, candidate = conflict
    reject = ("job", "review", job, "--reject", candidate, "--reason", "Measured otherwise.", "--http")
    cli(*reject, "--service-account", REVIEWER)
    until(lambda: state_of(cli, job) == "published")
    found = json.loads(cli("job", "show", job, "-o", "json", "--service-account", OTHER_AGENT))
    assert [(each["state"], each["reason"]) for each in found["candidates"]] == [("rejected", "RejectedByReview")]
    assert "Measured otherwise." in found["candidates"][0]["detail"]


def test_the_same_commands_are_a_plugin_of_kubectl_and_are_completed_there(place, cli, monkeypatch):
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=":")

    def kubectl(*arguments):
        done = subprocess.run(["kubectl", *arguments], check=True, capture_output=True, text=True)
        return done.stdout

    listed = json.loads(kubectl("anabranch", "baseline", "list", "-n", place.namespace, "-o", "json"))
    assert BASELINE in [item["metadata"]["name"] for item in listed]
    offered = kubectl("__complete", "anabranch", "baseline", "show", "-n", place.namespace, BASELINE[:2])
    assert offered.splitlines() == [BASELINE, ":4"]


def examined(cli, stack, *, codes):
    """What the doctor finds not good of the installation itself; other tests' resources are no business of ours."""
    options = ("--dsn", stack.operator_dsn, "--service-account", READER, "-o", "json")
    found = json.loads(cli("doctor", *options, codes=codes))
    assert {each["check"] for each in found} >= {"Kubernetes", "definitions", "operator", "API", "token", "database"}
    return [each for each in found if each["state"] != "ok" and each["check"] not in ("baselines", "branches", "jobs")]


def test_the_doctor_finds_a_good_installation_good(place, cli):
    assert examined(cli, place.stack, codes=(0, 1)) == []


def test_the_doctor_finds_a_pod_of_the_release_that_is_not_ready(place, cli):
    where = {"name": "waits", "namespace": place.stack.namespace}
    restricted = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}, "runAsNonRoot": True}
    restricted["seccompProfile"] = {"type": "RuntimeDefault"}
    spec = {
        "nodeSelector": {"there-is": "none"},
        "containers": [{"name": "api", "image": "none", "securityContext": restricted}],
    }
    metadata = {**where, "labels": {"app.kubernetes.io/name": "anabranch"}}
    place.stack.cluster.apply([{"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}])
    try:
        (found,) = examined(cli, place.stack, codes=[1])
    finally:
        place.kubectl("delete", "pod", "waits", f"--namespace={place.stack.namespace}", "--now", scoped=False)
    assert (found["check"], found["state"]) == ("pods", "problem")
    assert found["found"].startswith("waits ")


def test_the_doctor_finds_a_policy_that_is_gone(place, cli):
    stack, name = place.stack, "anabranch-job-reviews"
    policy = stack.cluster.get("validatingadmissionpolicy", name)
    kept = {key: value for key, value in policy["metadata"].items() if key in ("name", "labels", "annotations")}
    place.kubectl("delete", "validatingadmissionpolicy", name, scoped=False)
    try:
        (found,) = examined(cli, stack, codes=[1])
    finally:
        stack.cluster.apply([{**policy, "metadata": kept, "status": {}}])
        await_policies(stack.cluster)
        await_guard(place)
    assert (found["check"], found["found"]) == ("review guard", f"The ValidatingAdmissionPolicy {name} is absent.")
    assert found["mend"] == "anabranch manifests | kubectl apply --server-side -f -"


def await_guard(place):
    """Wait until the operator, which looks now and then, has seen the policy again: reviews do not count until then."""
    deadline = time.monotonic() + 60
    while "ReviewGuardMissing" in place.kubectl("get", "baselines", "--output=yaml"):
        assert time.monotonic() < deadline, "the operator still misses the policy"
        time.sleep(0.5)
