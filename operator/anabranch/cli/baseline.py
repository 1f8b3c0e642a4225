"""``anabranch baseline``: what the cluster has, whether it is what it claims to be, and the way back."""

from __future__ import annotations

import asyncio
from typing import Any

import click

from anabranch.cli.connection import Connection, connection_options
from anabranch.cli.output import output_option, show
from anabranch.cli.rollback import rollback
from anabranch.cli.verify import verify

COLUMNS = {
    "namespace": "metadata.namespace",
    "name": "metadata.name",
    "current": "status.current.generation",
    "head": "status.head.generation",
    "records": "status.current.records",
    "conflicts": "status.openConflicts",
    "pending": "status.pendingBatches",
    "pinned": "spec.pin.generation",
    "line": "status.lineId",
}


@click.group()
def command() -> None:
    """List, show, verify and roll back baselines."""


@command.command("list")
@click.option("-A", "--all-namespaces", is_flag=True, help="Of every namespace.")
@output_option
@connection_options
def list_(output: str, connection: Connection, *, all_namespaces: bool) -> None:
    """List the Baselines that you may list."""
    items = connection.kubectl.get("baselines", everywhere=all_namespaces)
    show(items, output, columns=COLUMNS)


@command.command("show")
@click.argument("name")
@output_option
@connection_options
def show_(name: str, output: str, connection: Connection) -> None:
    """Show one Baseline: where it is, what it was, and what stands in its way."""
    found = connection.kubectl.get("baselines", name)
    show(found if output != "table" else summary(found), output)


@command.command("verify")
@click.argument("name")
@click.option("--generation", type=click.IntRange(min=1), help="[default: the current one]")
@output_option
@connection_options
def verify_(name: str, generation: int | None, output: str, connection: Connection) -> None:
    """Recompute a manifest's root from its records, as read through the API.

    Exit code 1 where the roots differ. Records in scopes that you may not read are missing from the computation; then
    nothing can be said, and the command says so.
    """
    result = asyncio.run(verify(connection, name, generation))
    show(result, output)
    if not result["verified"]:
        raise click.exceptions.Exit(1)


def summary(found: dict[str, Any]) -> dict[str, Any]:
    """A Baseline for people: no managed fields, the conditions as sentences."""
    status = found.get("status", {})
    conditions = {
        condition["type"]: f"{condition['status']} {condition.get('reason', '')}: {condition.get('message', '')}".strip(
            ": "
        )
        for condition in status.get("conditions", ())
    }
    kept = {name: value for name, value in status.items() if name not in ("conditions", "observedGeneration")}
    where = f"{found['metadata']['namespace']}/{found['metadata']['name']}"
    return {"baseline": where, "spec": found.get("spec", {}), **kept, "conditions": conditions}


command.add_command(rollback)
