"""``anabranch doctor``: looks at an installation as an SRE would, and says of each thing found what mends it."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

import click

from anabranch import manifests
from anabranch.cli.connection import Connection, connection_options
from anabranch.cli.output import output_option, show
from anabranch.model.errors import AnabranchError, ForbiddenError, NotFoundError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MINIMUM_MINOR: Final = 31
"""Of Kubernetes 1.x: selectable fields of custom resources."""


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


@click.command()
@click.option("--dsn", envvar="ANABRANCH_DSN", help="Of the database, to check its schema too.")
@click.option("--system-namespace", default=manifests.DEFAULT_NAMESPACE, show_default=True)
@output_option
@connection_options
def command(dsn: str | None, system_namespace: str, output: str, connection: Connection) -> None:
    """Say what is missing in an installation and how to mend it. Exit code 1 where something is.

    It only reads. What you may not read is reported as unknown, with the grant that it takes.
    """
    findings = [*_cluster(connection, system_namespace), *_api(connection), *_database(dsn)]
    rows = [vars(finding) for finding in findings]
    show(rows, output, columns={"check": "check", "state": "state", "found": "found", "mend": "mend"})
    if any(finding.state == "problem" for finding in findings):
        raise click.exceptions.Exit(1)


def _cluster(connection: Connection, namespace: str) -> Iterator[Finding]:
    checks: dict[str, Callable[[Connection, str], Iterator[Finding]]] = {
        "Kubernetes": _version,
        "definitions": _definitions,
        "review guard": _guard,
        "accounts": _accounts,
        "operator": _leader,
        "baselines": _baselines,
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
            yield Finding("definitions", "problem", f"{name} is absent", "kubectl apply --server-side -f crds/")
            continue
        served = {version["name"]: version["schema"] for version in found["spec"]["versions"]}
        ours = {version["name"]: version["schema"] for version in wanted["spec"]["versions"]}
        if all(_covers(served.get(version), schema) for version, schema in ours.items()):
            yield Finding("definitions", "ok", name)
        else:
            yield Finding(
                "definitions", "problem", f"{name} is of another release", "kubectl apply --server-side -f crds/"
            )


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
        yield Finding("review guard", "problem", gap, "anabranch manifests | kubectl apply --server-side -f -")
    if not gaps:
        yield Finding("review guard", "ok", "nobody can speak for another reviewer")


def _accounts(connection: Connection, namespace: str) -> Iterator[Finding]:
    for account in (manifests.OPERATOR_ACCOUNT, manifests.API_ACCOUNT):
        connection.kubectl.run("get", "serviceaccount", account, f"--namespace={namespace}", "--output=name")
        yield Finding("accounts", "ok", f"{namespace}/{account}")


def _leader(connection: Connection, namespace: str) -> Iterator[Finding]:
    text = connection.kubectl.run("get", "lease", manifests.LEASE, f"--namespace={namespace}", "--output=json")
    holder = json.loads(text)["spec"].get("holderIdentity")
    if holder:
        yield Finding("operator", "ok", f"{holder} leads")
    else:
        yield Finding("operator", "problem", "no operator leads: status is not written", "start it, or read its log")


def _baselines(connection: Connection, _namespace: str) -> Iterator[Finding]:
    items = connection.kubectl.get("baselines", everywhere=True)
    yield Finding("baselines", "ok", f"{len(items)} in the cluster")
    yield from _stalled("baselines", items)
    for item in items:
        for condition in item.get("status", {}).get("conditions", ()):
            if condition["type"] == "ConsolidationPaused" and condition["status"] == "True":
                yield Finding("baselines", "ok", f"{_name(item)} is paused: {condition['message']}")


def _jobs(connection: Connection, _namespace: str) -> Iterator[Finding]:
    items = connection.kubectl.get("consolidationjobs", everywhere=True)
    waiting = [item for item in items if item.get("status", {}).get("state") == "awaiting_review"]
    yield Finding("jobs", "ok", f"{len(items)} in the cluster, {len(waiting)} await review")
    yield from _stalled("jobs", items)


def _stalled(check: str, items: list[dict[str, Any]]) -> Iterator[Finding]:
    for item in items:
        status = item.get("status", {})
        for condition in status.get("conditions", ()):
            if condition["type"] in ("Stalled", "Failed") and condition["status"] == "True":
                yield Finding(check, "problem", f"{_name(item)}: {condition['reason']}", condition["message"])
        if status.get("observedGeneration", -1) < item["metadata"]["generation"]:
            found = f"{_name(item)}: its newest spec was not seen yet"
            yield Finding(check, "problem", found, "see whether the operator runs; read its log")


def _name(item: dict[str, Any]) -> str:
    return f"{item['metadata']['namespace']}/{item['metadata']['name']}"


def _api(connection: Connection) -> Iterator[Finding]:
    if connection.url is None:
        yield Finding("API", "unknown", "its address is not known", "give --url, or set ANABRANCH_URL")
        return
    import httpx  # noqa: PLC0415  (costs a quarter of a second)

    try:
        answer = httpx.get(f"{connection.url.rstrip('/')}/readyz", timeout=5, trust_env=False)
    except httpx.HTTPError as error:
        yield Finding("API", "problem", f"{connection.url} does not answer: {error}", "start it, or mend the address")
        return
    if answer.is_success:
        yield Finding("API", "ok", connection.url)
    else:
        yield Finding("API", "problem", f"not ready: {answer.text[:200]}", "read its log")


def _database(dsn: str | None) -> Iterator[Finding]:
    if not dsn:
        yield Finding("database", "unknown", "no DSN given", "give --dsn, or set ANABRANCH_DSN")
        return
    from anabranch.store.database import Database  # noqa: PLC0415  (an agent's install has no Postgres driver)
    from anabranch.store.migrate import check  # noqa: PLC0415

    async def look() -> None:
        database = await Database.open(dsn, application_name="anabranch doctor", max_size=1)
        try:
            async with database.connection() as conn:
                await check(conn)
        finally:
            await database.close()

    try:
        asyncio.run(look())
    except AnabranchError as error:
        yield Finding("database", "problem", error.detail, error.hint)
    else:
        yield Finding("database", "ok", "reached, and at the schema of this release")
