"""``anabranch baseline rollback``: the way back, with what it will change said beforehand.

A rollback is a line in Git. Where Argo CD or Flux owns the spec, this command therefore prints the commit to make and
touches nothing: a pin that the command set and Git adopted later would stay when Git removes it, since both own it.
"""

from __future__ import annotations

import time
from typing import Any, Final

import click

from anabranch.cli.completion import names
from anabranch.cli.connection import Connection, connection_options
from anabranch.cli.consequences import consequences
from anabranch.cli.output import as_yaml, take
from anabranch.cli.ownership import MANAGER, pin_owners
from anabranch.model.errors import ConflictError, NotFoundError, NotReadyError

GITOPS_MANAGERS: Final = ("argocd", "flux", "kustomize-controller", "helm-controller")
PATIENCE: Final = 30
"""Seconds to wait until readers have what was asked for."""

POLL: Final = 0.3
"""Seconds between two looks."""


@click.command()
@click.argument("name", shell_complete=names("baselines"))
@click.option("--to", "target", type=click.IntRange(min=1), help="Generation.  [default: the previous one]")
@click.option("--apply", is_flag=True, help="Pin it now, as yourself, instead of printing what to commit.")
@click.option("--release", is_flag=True, help="Give up the pin that --apply set: the Baseline goes on from its head.")
@connection_options
@click.pass_context
def rollback(
    ctx: click.Context, /, *, name: str, target: int | None, connection: Connection, apply: bool, release: bool
) -> None:
    """Point a Baseline back at an earlier generation.

    Nothing is deleted: branches, worker history and the newer manifests stay, and consolidation pauses until the pin
    goes. Says first what will change; without --apply it then only prints the pin to commit. With a token it names the
    records that change for readers too.
    """
    if release and (apply or target):
        raise click.UsageError("--release goes without --apply and --to.")
    baseline = connection.kubectl.get("baselines", name)
    if release:
        _release(connection, baseline)
        return
    target = target or previous(baseline)
    check_target(baseline, target)
    for line in consequences(baseline, target, connection):
        click.echo(line, err=True)
    owner = gitops_owner(baseline)
    if not apply:
        click.echo(as_yaml(manifest(baseline, target)), nl=False)
        advice = f"{owner} owns this spec: commit the pin to Git." if owner else "Commit it, or run again with --apply."
        click.echo(f"# {advice}", err=True)
        return
    if owner:
        raise ConflictError(
            f"{owner} owns the spec of {name}: what it does not know of, it would fight or never remove.",
            hint="Commit the pin to Git instead: without --apply it is printed.",
        )
    connection.kubectl.apply(manifest(baseline, target), manager=MANAGER)
    _await(connection, name)
    click.echo(f"Readers of {name} have generation {target}, and consolidation is paused.")
    click.echo(f"To go on from the head: {ctx.command_path} {name} -n {connection.namespace} --release", err=True)


def gitops_owner(baseline: dict[str, Any]) -> str | None:
    """The GitOps tool that manages fields of the spec, if one does."""
    for entry in baseline["metadata"].get("managedFields", ()):
        manager = entry.get("manager", "")
        if "f:spec" in entry.get("fieldsV1", {}) and any(mark in manager.lower() for mark in GITOPS_MANAGERS):
            return str(manager)
    return None


def previous(baseline: dict[str, Any]) -> int:
    """The generation to go back to where none was named: what readers had before, else the next older one."""
    current = take(baseline, "status.current.generation") or 0
    before = take(baseline, "status.previous.generation")
    if before and before < current:
        return int(before)
    older = [entry["generation"] for entry in take(baseline, "status.history") or () if entry["generation"] < current]
    if not older:
        raise NotFoundError("There is no earlier generation to go back to.", hint="See `baseline history`.")
    return int(max(older))


def check_target(baseline: dict[str, Any], target: int) -> None:
    """Check that a generation can have been made.

    Raises:
        NotReadyError: If the Baseline has none at all.
        NotFoundError: If it is newer than the newest.
    """
    head = take(baseline, "status.head.generation")
    if head is None:
        raise NotReadyError(f"{baseline['metadata']['name']} has no generation yet.", hint="Wait until it is Ready.")
    if target > head:
        raise NotFoundError(f"There is no generation {target}; the newest is {head}.", hint="See `baseline history`.")


def manifest(baseline: dict[str, Any], generation: int | None) -> dict[str, Any]:
    """What to apply, or to commit, for a pin; for none where the generation is None."""
    metadata = baseline["metadata"]
    return {
        "apiVersion": baseline["apiVersion"],
        "kind": "Baseline",
        "metadata": {"name": metadata["name"], "namespace": metadata["namespace"]},
        "spec": {} if generation is None else {"pin": {"generation": generation}},
    }


def settled(baseline: dict[str, Any]) -> bool:
    """Whether readers have what the spec asks for: the pinned generation, or the head.

    Raises:
        NotReadyError: If they will not get it, in the operator's words.
    """
    status = baseline.get("status", {})
    if status.get("observedGeneration", -1) < baseline["metadata"]["generation"]:
        return False
    for condition in status.get("conditions", ()):
        if condition["type"] == "Stalled" and condition["status"] == "True":
            raise NotReadyError(f"Readers stay where they are: {condition['message']}", hint="See `baseline history`.")
    current, head = status.get("current") or {}, status.get("head") or {}
    pin = take(baseline, "spec.pin") or {"generation": head.get("generation")}
    return all(current.get(name) == value for name, value in pin.items())


def _release(connection: Connection, baseline: dict[str, Any]) -> None:
    """Give up our pin; somebody else's stays, and is named."""
    name = baseline["metadata"]["name"]
    connection.kubectl.apply(manifest(baseline, None), manager=MANAGER)
    now = connection.kubectl.get("baselines", name)
    if pin := take(now, "spec.pin"):
        raise ConflictError(
            f"{name} is still pinned, to {' '.join(str(part) for item in pin.items() for part in item)}, "
            f"by {' and '.join(pin_owners(now)) or 'somebody'}.",
            hint="Whoever pinned it has to remove spec.pin.",
        )
    _await(connection, name)
    click.echo(f"Readers of {name} have its head again, and consolidation goes on.")


def _await(connection: Connection, name: str) -> None:
    """Wait until readers have what the spec asks for."""
    deadline = time.monotonic() + PATIENCE
    while not settled(connection.kubectl.get("baselines", name)):
        if time.monotonic() > deadline:
            raise NotReadyError(
                f"The spec of {name} is changed, and the operator has not acted on it within {PATIENCE} s.",
                hint=f"See `baseline show {name}` for what stands in the way, and `doctor`.",
            )
        time.sleep(POLL)
