"""``anabranch baseline``: what the cluster has, how it came about, whether it is what it claims, and the way back."""

from __future__ import annotations

from typing import Any, Final

import click

from anabranch.cli.completion import names
from anabranch.cli.connection import Connection, cluster_options
from anabranch.cli.lazy import LazyGroup
from anabranch.cli.output import Column, condition, output_option, show, take


def _pinned(baseline: Any) -> Any:
    return take(baseline, "spec.pin.generation") or take(baseline, "spec.pin.baselineId")


COLUMNS: Final[dict[str, Column]] = {
    "namespace": "metadata.namespace",
    "name": "metadata.name",
    "current": "status.current.generation",
    "head": "status.head.generation",
    "records": "status.current.records",
    "conflicts": "status.openConflicts",
    "pending": "status.pendingBatches",
    "pinned": _pinned,
    "ready": condition("Ready"),
}

COMMANDS: Final = {
    "history": ("anabranch.cli.history:history", "List the generations that are kept, and what made each."),
    "diff": ("anabranch.cli.diff:diff", "Show what differs between two generations."),
    "verify": ("anabranch.cli.verify:verify", "Recompute a generation's root from its records."),
    "prove": ("anabranch.cli.proof:prove", "Write down a record with the proof that a generation has it."),
    "check-proof": ("anabranch.cli.proof:check_proof", "Check such a proof, without any network."),
    "export": ("anabranch.cli.exporting:export", "Write a generation to a file, which leads to its root."),
    "check-archive": ("anabranch.cli.exporting:check_archive", "Check such a file, without any network."),
    "trace": ("anabranch.cli.lineage:trace", "Show where a record comes from, and what was derived from it."),
    "retract": ("anabranch.cli.lineage:retract", "Ask reviewers to withdraw a record, and to mark what came of it."),
    "rollback": ("anabranch.cli.rollback:rollback", "Point a Baseline back at an earlier generation."),
}


@click.group(cls=LazyGroup, lazy=COMMANDS)
def command() -> None:
    """See, compare, prove, verify, export, trace and roll back baselines."""


@command.command("list", short_help="List the Baselines that you may list.")
@click.option("-A", "--all-namespaces", is_flag=True, help="Of every namespace.")
@output_option
@cluster_options
def list_(output: str, connection: Connection, *, all_namespaces: bool) -> None:
    """List the Baselines that you may list."""
    items = connection.kubectl.get("baselines", everywhere=all_namespaces)
    show(items, output, columns=COLUMNS)


@command.command("show", short_help="Show where a Baseline is, and what stands in its way.")
@click.argument("name", shell_complete=names("baselines"))
@output_option
@cluster_options
def show_(name: str, output: str, connection: Connection) -> None:
    """Show one Baseline: where it is, what it was, and what stands in its way."""
    found = connection.kubectl.get("baselines", name)
    show(found if output != "table" else summary(found), output)


def summary(found: dict[str, Any]) -> dict[str, Any]:
    """A Baseline for people: no managed fields, the conditions as sentences."""
    status = found.get("status", {})
    conditions = {each["type"]: sentence(each) for each in status.get("conditions", ())}
    kept = {name: value for name, value in status.items() if name not in ("conditions", "observedGeneration")}
    where = f"{found['metadata']['namespace']}/{found['metadata']['name']}"
    return {"baseline": where, "spec": found.get("spec", {}), **kept, "conditions": conditions}


def sentence(condition: dict[str, Any]) -> str:
    """A condition as a person reads it."""
    return f"{condition['status']} ({condition['reason']}). {condition['message']}"
