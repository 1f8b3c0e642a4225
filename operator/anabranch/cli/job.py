"""``anabranch job``: what waits for a decision, both sides of it, and the decision."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from anabranch.cli.calls import as_json, call
from anabranch.cli.candidates import describe
from anabranch.cli.completion import names
from anabranch.cli.connection import Connection, cluster_options, connection_options
from anabranch.cli.lazy import LazyGroup
from anabranch.cli.output import cell, moment, output_option, show, table, take
from anabranch.domain.wording import visible

if TYPE_CHECKING:
    from collections.abc import Iterator

    from anabranch.client import AnabranchClient

COLUMNS: Final = {
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

COMMANDS: Final = {
    "merge": ("anabranch.cli.merging:merge", "Propose one text made of several candidates."),
    "review": ("anabranch.cli.review:review", "Accept or reject candidates, as yourself."),
}


@click.group(cls=LazyGroup, lazy=COMMANDS)
def command() -> None:
    """See and review consolidation jobs."""


@command.command("list")
@click.option("-A", "--all-namespaces", is_flag=True, help="Of every namespace.")
@click.option("--waiting", is_flag=True, help="Only those that wait for a reviewer.")
@output_option
@cluster_options
def list_(output: str, connection: Connection, *, all_namespaces: bool, waiting: bool) -> None:
    """List the ConsolidationJobs that you may list."""
    items = connection.kubectl.get("consolidationjobs", everywhere=all_namespaces)
    if waiting:
        items = [item for item in items if take(item, "status.state") == "awaiting_review"]
    show(items, output, columns=COLUMNS)


@command.command("show", short_help="Show a job: its candidates beside what they would replace, and its steps.")
@click.argument("name", shell_complete=names("consolidationjobs"))
@output_option
@connection_options
def show_(name: str, output: str, connection: Connection) -> None:
    """Show a job: each candidate beside the record that it would replace, the sources of both, and the job's steps."""

    async def ask(client: AnabranchClient, namespace: str) -> dict[str, Any]:
        return {
            "job": as_json(await client.job(namespace, name)),
            "candidates": [as_json(candidate) async for candidate in client.candidates(namespace, name)],
            "reviews": [as_json(entry) for entry in await client.reviews(namespace, name)],
            "merges": [as_json(merge) for merge in await client.merges(namespace, name)],
            "transitions": [as_json(step) for step in await client.transitions(namespace, name)],
        }

    found = call(connection, ask)
    if output == "table":
        for line in report(found):
            click.echo(line)
    else:
        show(found, output)


def report(found: dict[str, Any]) -> Iterator[str]:
    """A job for people."""
    job = found["job"]
    reason = f" ({job['reason']})" if job["reason"] else ""
    yield f"{job['namespace']}/{job['name']}: {job['state']}{', failed' if job['failed'] else ''}{reason}"
    for title, member in (
        ("origin", "origin"),
        ("branch", "branch_id"),
        ("held job", "held_job"),
        ("published as", "published_baseline_id"),
        ("last error", "last_error"),
        ("tried again at", "retry_at"),
        ("trace", "trace_id"),
    ):
        if job.get(member):
            yield f"{title:<14} {visible(job[member])}"
    for candidate in found["candidates"]:
        yield ""
        yield from describe(candidate, found["reviews"])
    yield from _unmade(found["merges"])
    steps = [
        [moment(step["at"]), step["from_state"] or "", step["to_state"], cell(step["attempt"]), cell(step["detail"])]
        for step in found["transitions"]
    ]
    yield ""
    yield table(["at", "from", "to", "attempt", "detail"], steps)


def _unmade(merges: list[dict[str, Any]]) -> Iterator[str]:
    """The merges that are no candidates: yet, or for good."""
    for merge in merges:
        if merge["state"] != "made":
            sides = [*merge["inputs"], *(["the record"] if merge["with_record"] else [])]
            became = f"no candidate: {visible(merge['detail'])}" if merge["state"] == "void" else "no candidate yet"
            yield ""
            yield f"{click.style(visible(merge['key']), bold=True)}  {became}"
            yield f"  a {merge['origin']} of {', '.join(sides)}, by {visible(merge['author'])}"
