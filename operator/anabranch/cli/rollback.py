"""``anabranch baseline rollback``: the way back, with what it will change said beforehand.

A rollback is a line in Git. Where Argo CD or Flux owns the spec, this command therefore prints the commit to make and
touches nothing: a pin that the command set and Git adopted later would stay when Git removes it, since both own it.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

import click

from anabranch.cli.connection import Connection, connection_options
from anabranch.manifests import dump
from anabranch.model.errors import ConflictError, NotFoundError

if TYPE_CHECKING:
    from collections.abc import Iterable

MANAGER: Final = "anabranch-rollback"
GITOPS_MANAGERS: Final = ("argocd", "flux", "kustomize-controller", "helm-controller")
SHOWN: Final = 20
"""How many changed keys and branches are named."""


@click.command()
@click.argument("name")
@click.option("--to", "target", type=click.IntRange(min=1), help="Generation.  [default: the previous one]")
@click.option("--apply", is_flag=True, help="Pin it now, as yourself, instead of printing what to commit.")
@click.option("--release", is_flag=True, help="Give up the pin that --apply set: the Baseline goes on from its head.")
@connection_options
def rollback(name: str, target: int | None, connection: Connection, *, apply: bool, release: bool) -> None:
    """Point a Baseline back at an earlier generation.

    Nothing is deleted: branches, worker history and the newer manifests stay, and consolidation pauses until the pin
    goes. Without --apply it only prints.
    """
    baseline = connection.kubectl.get("baselines", name)
    if release:
        connection.kubectl.apply(_manifest(baseline, None), manager=MANAGER)
        click.echo(f"Released. {name} follows its head again, unless somebody else pins it.")
        return
    target = target or _previous(baseline)
    for line in _consequences(baseline, target, connection):
        click.echo(line, err=True)
    patch = _manifest(baseline, target)
    owner = gitops_owner(baseline)
    if not apply:
        click.echo(dump([patch]), nl=False)
        click.echo(
            f"# {owner} owns this spec: commit the pin to Git."
            if owner
            else "# Commit this, or run again with --apply.",
            err=True,
        )
        return
    if owner:
        raise ConflictError(
            f"{owner} owns the spec of {name} and would fight over it.", hint="Commit the printed pin to Git instead."
        )
    connection.kubectl.apply(patch, manager=MANAGER)
    click.echo(
        f"Pinned {name} to generation {target}. To go on from the head: anabranch baseline rollback {name} --release"
    )


def gitops_owner(baseline: dict[str, Any]) -> str | None:
    """The GitOps tool that manages fields of the spec, if one does."""
    for entry in baseline["metadata"].get("managedFields", ()):
        manager = entry.get("manager", "")
        if "f:spec" in entry.get("fieldsV1", {}) and any(mark in manager.lower() for mark in GITOPS_MANAGERS):
            return str(manager)
    return None


def _previous(baseline: dict[str, Any]) -> int:
    status = baseline.get("status", {})
    current = status.get("current", {}).get("generation", 0)
    previous = status.get("previous", {}).get("generation")
    if previous and previous != current:
        return int(previous)
    older = [entry["generation"] for entry in status.get("history", ()) if entry["generation"] < current]
    if not older:
        raise NotFoundError("There is no earlier generation to go back to.", hint="Name one with --to.")
    return int(max(older))


def _manifest(baseline: dict[str, Any], generation: int | None) -> dict[str, Any]:
    metadata = baseline["metadata"]
    return {
        "apiVersion": baseline["apiVersion"],
        "kind": "Baseline",
        "metadata": {"name": metadata["name"], "namespace": metadata["namespace"]},
        "spec": {} if generation is None else {"pin": {"generation": generation}},
    }


def _consequences(baseline: dict[str, Any], target: int, connection: Connection) -> Iterable[str]:
    """What a person should know before: what readers lose, who works on what is withdrawn, what will be held."""
    metadata, status = baseline["metadata"], baseline.get("status", {})
    current = status.get("current", {}).get("generation", 0)
    yield f"{metadata['namespace']}/{metadata['name']}: current goes from generation {current} to {target}."
    if connection.configured:
        yield from asyncio.run(_changes(connection, metadata["name"], current, target))
    branches = [
        "{namespace}/{name} (generation {g})".format(**item["metadata"], g=item["status"]["parent"]["generation"])
        for item in _list(connection, "branches")
        if _forks(item, metadata) and item.get("status", {}).get("parent", {}).get("generation", 0) > target
    ]
    yield from _named("branches forked from a withdrawn generation; they keep it", branches)
    jobs = [
        f"{item['metadata']['name']} ({item['status'].get('state')})"
        for item in _list(connection, "consolidationjobs", namespace=metadata["namespace"])
        if not any(
            c["type"] in ("Complete", "Failed") and c["status"] == "True" for c in item["status"].get("conditions", ())
        )
    ]
    yield from _named("jobs held until the pin goes", jobs)


async def _changes(connection: Connection, name: str, current: int, target: int) -> list[str]:
    async with connection.client() as client:
        pages = client.diff(connection.namespace, name, from_generation=current, to_generation=target)
        keys = [entry.key async for entry in pages]
    return list(_named("records change for readers", keys))


def _list(connection: Connection, kind: str, *, namespace: str | None = None) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = connection.kubectl.get(kind, everywhere=True)
    return [item for item in items if "status" in item and namespace in (None, item["metadata"]["namespace"])]


def _forks(branch: dict[str, Any], baseline: dict[str, Any]) -> bool:
    ref = branch["spec"]["baselineRef"]
    namespace = ref.get("namespace") or branch["metadata"]["namespace"]
    return (namespace, ref["name"]) == (baseline["namespace"], baseline["name"])


def _named(what: str, names: list[str]) -> Iterable[str]:
    yield f"{len(names)} {what}{':' if names else '.'}"
    yield from (f"  {name}" for name in names[:SHOWN])
    if len(names) > SHOWN:
        yield f"  … and {len(names) - SHOWN} more"
