"""Driven from Git: commits to a real repository, a loop that applies them, and what GitOps tools see meanwhile."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
from dataclasses import replace

import pytest
import yaml
from tests.cluster.places import Place, eventually, finding
from tests.cluster.repository import EXAMPLE, MANAGER, Loop, Repository, git
from tests.cluster.test_operator_writes import AuditLog
from tests.unit.argocd import CUSTOMIZATIONS, health
from tests.unit.kstatus import conclude

from anabranch.cli.ownership import pin_owners
from anabranch.devcluster import accounts, children
from anabranch.manifests import dump
from anabranch.model.canonical import content_hash
from anabranch.model.objects import RunCompletion

pytestmark = pytest.mark.long

ROOT = EXAMPLE.parents[1]
RECORD = os.environ.get("ANABRANCH_RECORD")
"""Set, the recordings are written anew, and not only compared."""

PIN = ("  # pin:\n  #   generation: 11", "  pin:\n    generation: 1")
RESTORE = (PIN[0], "  restore: {generation: 1, id: '2030-01-01'}")


@pytest.fixture
async def town(stack, tmp_path):
    """A namespace with what Flux needs there, by the example, and a repository that nobody pulls yet."""
    town = Place(stack, namespace=f"git-{secrets.token_hex(4)}")
    stack.make_namespace(town.namespace)
    text = (EXAMPLE / "flux/platform-memory.yaml").read_text(encoding="utf-8")
    objects = yaml.safe_load_all(text.replace("namespace: platform-memory", f"namespace: {town.namespace}"))
    stack.cluster.apply([each for each in objects if each["kind"] in {"ServiceAccount", "RoleBinding"}])
    town.repository = Repository(tmp_path, namespace=town.namespace)
    git(tmp_path, "clone", "--quiet", str(town.repository.origin), "flux")
    flux = accounts.set_up(stack.cluster, namespace=town.namespace, name="platform-memory", folder=tmp_path / "account")
    town.loop = Loop(replace(stack.cluster, kubeconfig=flux.kubeconfig), tmp_path / "flux")
    yield town
    await town.close()


async def publish(town, key):
    """A finding of the agent that Git lets in becomes the next generation."""
    agent = await town.client("build-agent")
    branch = await town.branch(agent, baseline="handbook")
    await town.submit(agent, branch, finding(key, "Warm it."))
    return (await town.publication(agent, branch)).generation


def get(town, kind, name, *flags):
    return json.loads(town.kubectl("get", kind, name, "--output=json", *flags))


def current(town):
    return get(town, "baseline", "handbook")["status"]["current"]["generation"]


async def until(look):
    async def again():
        return look()

    return await eventually(again)


async def feed(town):
    page = await (await town.client("build-agent")).events(town.namespace, "handbook")
    return [event.kind for event in page.events]


def anabranch(town, *arguments):
    """Run our command as the admin; its exit code, and what it printed."""
    env = children.environment(PATH=os.pathsep.join([str(town.stack.cluster.kubectl_path.parent), os.environ["PATH"]]))
    where = (f"--kubeconfig={town.stack.cluster.kubeconfig}", f"--namespace={town.namespace}")
    command = children.command("anabranch.cli.main", *arguments, *where)
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=env, timeout=120)
    return done.returncode, done.stdout + done.stderr


async def test_a_repository_is_the_whole_of_it_a_commit_rolls_back_and_its_revert_returns(stack, town):
    async with town.loop.running() as loop:
        await until(lambda: "handbook" in town.kubectl("get", "baselines", "--output=name"))
        town.kubectl("wait", "--for=condition=Ready", "baseline/handbook", "--timeout=60s")
        assert await publish(town, "build/cache") == 2
        await until(lambda: current(town) == 2)

        # Whoever is on call commits the pin …
        town.repository.replace("baseline.yaml", *PIN)
        await until(lambda: current(town) == 1)
        town.kubectl("wait", "--for=condition=ConsolidationPaused", "baseline/handbook", "--timeout=60s")
        found = get(town, "baseline", "handbook")
        assert (conclude(found), health(found).status) == ("Current", "Suspended")
        assert "generation 1, which is pinned" in health(found).message

        # … which the loop applies again and again, and nothing happens: no write, no event, no difference.
        log = AuditLog(stack, town.namespace)
        await loop.whole_turns(2)
        assert get(town, "baseline", "handbook")["metadata"] == found["metadata"]
        assert log.writes() == {}
        same = ("diff", "--server-side", f"--field-manager={MANAGER}", f"--kustomize={loop.clone / 'memory'}")
        assert loop.cluster.kubectl(*same) == ""

        # … and in the morning reverts.
        town.repository.revert()
        await until(lambda: current(town) == 2)
        found = get(town, "baseline", "handbook")
        assert "ConsolidationPaused" not in {condition["type"] for condition in found["status"]["conditions"]}
        assert (conclude(found), health(found).status) == ("Current", "Healthy")
        assert await feed(town) == ["published", "rollback", "resumed"]
        assert loop.refusals == []


async def test_a_restore_by_commit_acts_once_however_long_it_stays_and_when_it_comes_back(town):
    async with town.loop.running() as loop:
        await until(lambda: "handbook" in town.kubectl("get", "baselines", "--output=name"))
        town.kubectl("wait", "--for=condition=Ready", "baseline/handbook", "--timeout=60s")
        await publish(town, "build/cache")
        town.repository.replace("baseline.yaml", *RESTORE)
        await until(lambda: current(town) == 3)

        assert await publish(town, "build/tools") == 4  # it goes on from there, while the restore stays in Git
        town.repository.replace("baseline.yaml", "mode: Automatic", "mode: Automatic\n    minReviewers: 2")
        town.repository.revert()
        town.repository.replace("baseline.yaml", RESTORE[1], RESTORE[0])
        town.repository.revert()
        await loop.whole_turns(2)
        found = get(town, "baseline", "handbook")
        await until(
            lambda: get(town, "baseline", "handbook")["status"]["observedGeneration"] == found["metadata"]["generation"]
        )
        assert found["spec"]["restore"]["id"] == "2030-01-01"
        assert current(town) == 4
        assert await feed(town) == ["published", "restored", "published"]
        assert loop.refusals == []


async def test_a_pin_by_hand_is_told_when_git_adopts_it_and_is_fought_over_by_nobody_unseen(town):
    # A Baseline from before there was a repository, rolled back by hand.
    town.kubectl("apply", "--server-side", "--field-manager=ada", f"--kustomize={town.repository.clone / 'memory'}")
    town.kubectl("wait", "--for=condition=Ready", "baseline/handbook", "--timeout=60s")
    await publish(town, "build/cache")
    await until(lambda: get(town, "baseline", "handbook")["status"]["head"]["generation"] == 2)
    code, said = anabranch(town, "baseline", "rollback", "handbook", "--to=1", "--apply")
    assert code == 0, said
    assert current(town) == 1

    town.loop.turn()  # without the pin: Git does not know of it, and leaves it
    found = get(town, "baseline", "handbook", "--show-managed-fields")
    assert (found["spec"]["pin"], pin_owners(found)) == ({"generation": 1}, ["anabranch-rollback"])

    town.repository.replace("baseline.yaml", *PIN)
    town.loop.turn()
    assert town.loop.refusals == []
    code, said = anabranch(town, "doctor")
    assert code == 1
    (told,) = [line for line in said.splitlines() if f"{town.namespace}/handbook: its pin is owned by" in line]
    assert "anabranch-rollback" in told
    assert MANAGER in told

    # Git takes it out, and it stays, for the command still owns it; another one of Git's is a conflict that names who.
    town.repository.revert()
    town.loop.turn()
    assert get(town, "baseline", "handbook")["spec"]["pin"] == {"generation": 1}
    town.repository.replace("baseline.yaml", PIN[0], "  pin:\n    generation: 2")
    town.loop.turn()
    (refusal,) = town.loop.refusals
    assert 'conflict with "anabranch-rollback": .spec.pin.generation' in refusal
    town.repository.revert()
    code, said = anabranch(town, "baseline", "rollback", "handbook", "--release")
    assert code == 0, said
    assert current(town) == 2
    assert pin_owners(get(town, "baseline", "handbook", "--show-managed-fields")) == []


@pytest.fixture(scope="module")
async def yard(stack):
    """A namespace that nothing is pulled into."""
    yard = Place(stack, namespace=f"yard-{secrets.token_hex(4)}")
    stack.make_namespace(yard.namespace)
    yield yard
    await yard.close()


def test_the_health_checks_join_what_argo_cd_has_configured(yard):
    built = yaml.safe_load(yard.kubectl("kustomize", str(ROOT / "deploy/argocd"), scoped=False))
    assert (built["metadata"]["name"], built["metadata"]["namespace"]) == ("argocd-cm", "argocd")
    built["metadata"]["namespace"] = yard.namespace
    yard.kubectl("create", "configmap", "argocd-cm", "--from-literal=url=https://argocd.example")
    apply = ("apply", "--server-side", "--field-manager=anabranch", "--filename=-")
    yard.kubectl(*apply, stdin=json.dumps(built))
    data = get(yard, "configmap", "argocd-cm")["data"]
    assert data.pop("url") == "https://argocd.example"
    assert data == {
        f"resource.customizations.health.anabranch.dev_{path.parent.name}": path.read_text(encoding="utf-8")
        for path in CUSTOMIZATIONS.glob("*/health.lua")
    }


def create(town, kind, name, spec):
    """A new object, as the API server answers: before the operator has seen it."""
    body = {"apiVersion": "anabranch.dev/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec}
    return json.loads(town.kubectl("create", "--filename=-", "--output=json", stdin=json.dumps(body)))


async def reached(town, kind, name, reason):
    async def look():
        found = get(town, kind, name)
        return found if reason in {each["reason"] for each in found["status"].get("conditions", ())} else None

    return await eventually(look)


def check_recording(state, found):
    """Compare with a recording, or make it: in what the conditions and the health check say, but for ids and times."""

    def said(each):
        conditions = each["status"].get("conditions", ())
        return health(each).status, {(met["type"], met["status"], met["reason"]) for met in conditions}

    path = CUSTOMIZATIONS / found["kind"] / "testdata" / f"{state}.yaml"
    if RECORD:
        namespace = found["metadata"]["namespace"]
        found["metadata"] = {name: found["metadata"][name] for name in ("name", "namespace", "generation")}
        text = dump([found]).replace(namespace, "platform-memory")
        path.write_text(
            f"# Written by the operator, in a run of tests/cluster/test_gitops.py.\n{text}", encoding="utf-8"
        )
    assert said(yaml.safe_load(path.read_text(encoding="utf-8"))) == said(found)


async def test_what_is_recorded_of_baselines_for_the_health_checks_is_what_the_operator_writes(yard):
    yard.baseline("runbooks")
    archive = {"import": {"archive": {"digest": content_hash([])}}}
    create(yard, "Baseline", "archived", archive)
    check_recording("archive-missing", await reached(yard, "Baseline", "archived", "ArchiveMissing"))
    check_recording("unseen", create(yard, "Baseline", "unseen", archive))
    check_recording("current", await reached(yard, "Baseline", "runbooks", "Current"))
    for state, spec, reason in (
        ("pinned", {"pin": {"generation": 1}}, "Pinned"),
        ("pin-target-unknown", {"pin": {"generation": 99}}, "PinTargetUnknown"),
        ("suspended", {"pin": None, "suspend": True}, "Suspended"),
    ):
        yard.kubectl("patch", "baseline", "runbooks", "--type=merge", f"--patch={json.dumps({'spec': spec})}")
        check_recording(state, await reached(yard, "Baseline", "runbooks", reason))


async def test_what_is_recorded_of_runs_and_jobs_for_the_health_checks_is_what_the_operator_writes(yard):
    yard.baseline("facts", review={"mode": "Automatic"})
    agent = await yard.client("scout", "anabranch-agent")
    for name, state, reason, baseline in (
        ("run", "forked", "Forked", {"name": "facts"}),
        ("early", "baseline-unavailable", "BaselineUnavailable", {"name": "absent"}),
        ("ahead", "generation-unavailable", "GenerationUnavailable", {"name": "facts", "generation": 99}),
    ):
        create(yard, "Branch", name, {"baselineRef": baseline, "agent": {"serviceAccountName": "scout"}})
        check_recording(state, await reached(yard, "Branch", name, reason))

    run = await agent.branch(yard.namespace, "run")
    for sequence, reason, state in ((1, "Published", "published"), (2, "AwaitingReview", "awaiting-review")):
        await yard.submit(agent, run, finding("build/cache", f"Says {sequence}."), base="1", sequence=sequence)

        async def made(reason=reason):
            for each in json.loads(yard.kubectl("get", "consolidationjobs", "--output=json"))["items"]:
                if reason in {met["reason"] for met in each["status"].get("conditions", ())}:
                    return each
            return None

        check_recording(state, await eventually(made))

    async def conflict():
        found = get(yard, "baseline", "facts")
        return found if found["status"]["openConflicts"] else None

    check_recording("conflicts", await eventually(conflict))
    create(yard, "ConsolidationJob", "by-hand", {"branchRef": {"name": "run"}, "batches": {"from": 7, "through": 8}})
    check_recording("batches-missing", await reached(yard, "ConsolidationJob", "by-hand", "BatchesMissing"))
    completion = RunCompletion(
        run_id=run.run_id,
        branch_id=run.branch_id,
        agent_id=run.agent_id,
        baseline_id=run.parent_snapshot_id,
        last_submitted_sequence=2,
        delta_hash=content_hash([]),
    )
    await agent.complete(yard.namespace, run.name, completion)
    check_recording("completed", await reached(yard, "Branch", "run", "Completed"))
