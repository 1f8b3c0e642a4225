"""What `anabranch doctor` looks at in a cluster, check by check: each yields what it found and what mends it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, Literal

from anabranch import manifests
from anabranch.cli.output import take
from anabranch.cli.ownership import shared_pin
from anabranch.model.errors import AnabranchError, ForbiddenError, NotFoundError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from anabranch.cli.connection import Connection

MINIMUM_MINOR: Final = 31
"""Of Kubernetes 1.x: selectable fields of custom resources."""

TOLERANCE: Final = timedelta(minutes=1)
"""How much this machine's clock and the cluster's may differ."""

PATIENCE: Final = timedelta(minutes=2)
"""How long a resource may be on its way before that is worth a look."""

RELEASE: Final = "app.kubernetes.io/name=anabranch"
"""The label of all that the chart and the kustomize base make."""

INSTALL: Final = "anabranch manifests | kubectl apply --server-side -f -"


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at.

    Attributes:
        check: What was looked at.
        state: ``ok``, ``problem``, or ``unknown`` where it could not be looked at.
        found: What was found.
        mend: What to do, where there is something to do.
    """

    check: str
    state: Literal["ok", "problem", "unknown"]
    found: str
    mend: str = ""


def examine(connection: Connection, namespace: str) -> Iterator[Finding]:
    """Look at an installation through the API server, with the person's own rights; it only reads.

    Args:
        connection: Its kubectl is used.
        namespace: The system namespace.
    """
    checks: dict[str, Callable[[Connection, str], Iterator[Finding]]] = {
        "Kubernetes": _version,
        "definitions": _definitions,
        "review guard": _guard,
        "accounts": _accounts,
        "pods": _pods,
        "operator": _leader,
        "baselines": _baselines,
        "branches": _branches,
        "jobs": _jobs,
    }
    for name, check in checks.items():
        try:
            yield from check(connection, namespace)
        except ForbiddenError as error:
            yield Finding(name, "unknown", error.detail, "ask for the right to read it")
        except AnabranchError as error:
            yield Finding(name, "problem", error.detail, error.hint)
            if name == "Kubernetes":
                return


def _version(connection: Connection, _namespace: str) -> Iterator[Finding]:
    version = json.loads(connection.kubectl.run("version", "--output=json"))["serverVersion"]
    new_enough = int(version["major"]) > 1 or int(version["minor"].rstrip("+")) >= MINIMUM_MINOR
    mend = "" if new_enough else f"upgrade to Kubernetes 1.{MINIMUM_MINOR} or later"
    yield Finding("Kubernetes", "ok" if new_enough else "problem", version["gitVersion"], mend)


def _definitions(connection: Connection, _namespace: str) -> Iterator[Finding]:
    for wanted in manifests.crds():
        name = wanted["metadata"]["name"]
        try:
            found = json.loads(connection.kubectl.run("get", "crd", name, "--output=json"))
        except NotFoundError:
            yield Finding("definitions", "problem", f"{name} is absent", INSTALL)
            continue
        served = {version["name"]: version["schema"] for version in found["spec"]["versions"]}
        ours = {version["name"]: version["schema"] for version in wanted["spec"]["versions"]}
        if all(_covers(served.get(version), schema) for version, schema in ours.items()):
            yield Finding("definitions", "ok", name)
        else:
            yield Finding("definitions", "problem", f"{name} is of another release", INSTALL)


def _covers(live: Any, wanted: Any) -> bool:
    """Whether all that we ship stands in what the cluster has; the API server adds defaults of its own."""
    if isinstance(wanted, dict):
        return isinstance(live, dict) and all(_covers(live.get(name), value) for name, value in wanted.items())
    if isinstance(wanted, list):
        return isinstance(live, list) and len(live) == len(wanted) and all(map(_covers, live, wanted))
    return bool(live == wanted)


def _guard(connection: Connection, _namespace: str) -> Iterator[Finding]:
    kinds = ("validatingadmissionpolicies", "validatingadmissionpolicybindings")
    policies, bindings = (json.loads(connection.kubectl.run("get", kind, "--output=json"))["items"] for kind in kinds)
    gaps = manifests.gaps(policies, bindings)
    for gap in gaps:
        yield Finding("review guard", "problem", gap, INSTALL)
    if not gaps:
        yield Finding("review guard", "ok", "nobody can speak for another reviewer")


def _accounts(connection: Connection, namespace: str) -> Iterator[Finding]:
    for account in (manifests.OPERATOR_ACCOUNT, manifests.API_ACCOUNT):
        text = connection.kubectl.run("get", "serviceaccount", account, f"--namespace={namespace}", "--output=json")
        yield Finding("accounts", "ok", f"{namespace}/{account}")
        # The API's account says what audience its tokens carry.
        wanted = json.loads(text)["metadata"].get("annotations", {}).get(manifests.AUDIENCE_ANNOTATION)
        if wanted and wanted != (minted := connection.minted_audience()):
            found = f"the API takes tokens for {wanted}; here they are minted for {minted}"
            yield Finding("accounts", "problem", found, f"export ANABRANCH_AUDIENCE={wanted}")


def _pods(connection: Connection, namespace: str) -> Iterator[Finding]:
    kinds = (f"--namespace={namespace}", f"--selector={RELEASE}", "--output=json")
    items = json.loads(connection.kubectl.run("get", "pods,jobs.batch", *kinds))["items"]
    pods = [
        item for item in items if item["kind"] == "Pod" and item["status"].get("phase") not in {"Succeeded", "Failed"}
    ]
    found = [problem for item in items if (problem := _failed(item))]
    found += [problem for pod in pods if (problem := _unready(pod))]
    for words, mend in found:
        yield Finding("pods", "problem", words, mend)
    if not found:
        ready = f"{len(pods)} in {namespace}, all ready" if pods else f"none in {namespace}: the programs run elsewhere"
        yield Finding("pods", "ok", ready)


def _failed(item: dict[str, Any]) -> tuple[str, str] | None:
    """What stands of a job of the release that failed for good, and what to do."""
    name = item["metadata"]["name"]
    failed = _condition(item, "Failed") if item["kind"] == "Job" else {}
    if failed.get("status") != "True":
        return None
    return f"the Job {name} has failed: {failed.get('message', '')}", f"kubectl logs job/{name}, then upgrade again"


def _unready(pod: dict[str, Any]) -> tuple[str, str] | None:
    """What a pod waits for, and what to do; nothing of one that is ready, or on its way out."""
    name, status = pod["metadata"]["name"], pod["status"]
    if "deletionTimestamp" in pod["metadata"] or _condition(pod, "Ready").get("status") == "True":
        return None
    if (scheduled := _condition(pod, "PodScheduled")).get("status") == "False":
        return f"{name} has no node", scheduled.get("message", "")
    for container in (*status.get("initContainerStatuses", ()), *status.get("containerStatuses", ())):
        waiting = container.get("state", {}).get("waiting", {})
        if waiting and waiting["reason"] not in {"ContainerCreating", "PodInitializing"}:
            mend = waiting.get("message") or f"kubectl logs {name} --container={container['name']} --previous"
            return f"{name}: {waiting['reason']}", mend
        if container["name"] == "schema" and "running" in container.get("state", {}):
            mend = f"kubectl logs {name} --container=schema says for what; then look at the migration's Job"
            return f"{name} waits for the schema", mend
    return f"{name} is not ready", f"kubectl logs {name}"


def _condition(item: dict[str, Any], kind: str) -> dict[str, Any]:
    return next((each for each in item["status"].get("conditions", ()) if each["type"] == kind), {})


def _leader(connection: Connection, namespace: str) -> Iterator[Finding]:
    text = connection.kubectl.run("get", "lease", manifests.LEASE, f"--namespace={namespace}", "--output=json")
    spec = json.loads(text)["spec"]
    holder, renewed = spec.get("holderIdentity"), spec.get("renewTime")
    late = datetime.now(UTC) - datetime.fromisoformat(renewed) if renewed else TOLERANCE
    if not holder:
        yield Finding("operator", "problem", "no operator leads: status is not written", "start it, or read its log")
    elif late > timedelta(seconds=spec.get("leaseDurationSeconds", 0)) + TOLERANCE:
        found = f"{holder} leads, and last renewed its lease at {renewed}"
        yield Finding("operator", "problem", found, "start the operator, or read its log")
    else:
        yield Finding("operator", "ok", f"{holder} leads")


def _baselines(connection: Connection, _namespace: str) -> Iterator[Finding]:
    items = connection.kubectl.get("baselines", everywhere=True, managed=True)
    yield Finding("baselines", "ok", f"{len(items)} in the cluster")
    yield from _stalled("baselines", items)
    yield from _waiting("baselines", items)
    for item in items:
        if shared := shared_pin(item):
            yield Finding("baselines", "problem", f"{_name(item)}: {shared[0]}", shared[1])
        for condition in take(item, "status.conditions") or ():
            if condition["type"] == "ConsolidationPaused" and condition["status"] == "True":
                yield Finding("baselines", "ok", f"{_name(item)} is paused: {condition['message']}")
            elif _speaks(condition):
                yield Finding(
                    "baselines",
                    "problem",
                    f"{_name(item)}: {condition['type']} ({condition['reason']})",
                    condition["message"],
                )


def _speaks(condition: dict[str, Any]) -> bool:
    """Whether a condition tells of something to mend though the Baseline is ready: publications may wait for it."""
    lacking = condition["type"] in {"RecallTasksUnavailable", "ProposalsUnavailable"} and condition["status"] == "True"
    return bool(lacking or condition["reason"] == "BackupFailed")


def _branches(connection: Connection, _namespace: str) -> Iterator[Finding]:
    items = connection.kubectl.get("branches", everywhere=True)
    yield Finding("branches", "ok", f"{len(items)} in the cluster")
    yield from _stalled("branches", items)
    yield from _waiting("branches", items)


def _jobs(connection: Connection, _namespace: str) -> Iterator[Finding]:
    items = connection.kubectl.get("consolidationjobs", everywhere=True)
    waiting = [item for item in items if take(item, "status.state") == "awaiting_review"]
    yield Finding("jobs", "ok", f"{len(items)} in the cluster, {len(waiting)} await review")
    yield from _stalled("jobs", items)


def _stalled(check: str, items: list[dict[str, Any]]) -> Iterator[Finding]:
    for item in items:
        status = item.get("status", {})
        true = {each["type"]: each for each in status.get("conditions", ()) if each["status"] == "True"}
        if condition := true.get("Failed") or true.get("Stalled"):
            yield Finding(check, "problem", f"{_name(item)}: {condition['reason']}", condition["message"])
        if status.get("observedGeneration", -1) < item["metadata"]["generation"]:
            found = f"{_name(item)}: its newest spec was not seen yet"
            yield Finding(check, "problem", found, "see whether the operator runs; read its log")


def _waiting(check: str, items: list[dict[str, Any]]) -> Iterator[Finding]:
    for item in items:
        condition = _condition({"status": item.get("status", {})}, "Reconciling")
        if condition.get("status") != "True":
            continue
        since = datetime.now(UTC) - datetime.fromisoformat(condition["lastTransitionTime"])
        if since > PATIENCE:
            found = f"{_name(item)}: {condition['reason']}, for {since // timedelta(minutes=1)} minutes"
            yield Finding(check, "problem", found, condition["message"])


def _name(item: dict[str, Any]) -> str:
    return f"{item['metadata']['namespace']}/{item['metadata']['name']}"
