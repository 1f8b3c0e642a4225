"""``anabranch job``: what waits for a decision, both sides of it, and the decision."""

from __future__ import annotations

import asyncio
from typing import Any

import click

from anabranch.cli.connection import Connection, connection_options
from anabranch.cli.output import output_option, show
from anabranch.cli.review import review

COLUMNS = {
    "namespace": "metadata.namespace",
    "name": "metadata.name",
    "branch": "spec.branchRef.name",
    "from": "spec.batches.from",
    "through": "spec.batches.through",
    "state": "status.state",
    "accepted": "status.counts.accepted",
    "conflicts": "status.counts.conflicting",
    "held": "status.heldJob",
    "attempt": "status.attempt",
}


@click.group()
def command() -> None:
    """List, show and review consolidation jobs."""


@command.command("list")
@click.option("-A", "--all-namespaces", is_flag=True, help="Of every namespace.")
@click.option("--waiting", is_flag=True, help="Only those that wait for a reviewer.")
@output_option
@connection_options
def list_(output: str, connection: Connection, *, all_namespaces: bool, waiting: bool) -> None:
    """List the ConsolidationJobs that you may list."""
    items = connection.kubectl.get("consolidationjobs", everywhere=all_namespaces)
    if waiting:
        items = [item for item in items if item.get("status", {}).get("state") == "awaiting_review"]
    show(items, output, columns=COLUMNS)


@command.command("show")
@click.argument("name")
@output_option
@connection_options
def show_(name: str, output: str, connection: Connection) -> None:
    """Show a job with its candidates: each beside the record that it would replace, with the sources of both."""
    show(asyncio.run(_read(connection, name)), output)


async def _read(connection: Connection, name: str) -> dict[str, Any]:
    async with connection.client() as client:
        job = await client.job(connection.namespace, name)
        candidates = [candidate async for candidate in client.candidates(connection.namespace, name)]
        transitions = await client.transitions(connection.namespace, name)
    return {
        "job": job.model_dump(mode="json"),
        "candidates": [candidate.model_dump(mode="json") for candidate in candidates],
        "transitions": [transition.model_dump(mode="json") for transition in transitions],
    }


command.add_command(review)
