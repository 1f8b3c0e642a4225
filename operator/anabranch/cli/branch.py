"""``anabranch branch``: fork, keep private notes, submit findings, close the run: an agent's whole run from a shell."""

from __future__ import annotations

import asyncio
import mimetypes
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from anabranch.cli.calls import as_json, call
from anabranch.cli.completion import names
from anabranch.cli.connection import Connection, cluster_options, connection_options
from anabranch.cli.lazy import LazyGroup
from anabranch.cli.output import hint, output_option, show

if TYPE_CHECKING:
    from anabranch.client import AnabranchClient
    from anabranch.model.wire import Layer

COLUMNS: Final = {
    "namespace": "metadata.namespace",
    "name": "metadata.name",
    "baseline": "spec.baselineRef.name",
    "parent": "status.parent.generation",
    "agent": "spec.agent.serviceAccountName",
    "phase": "status.phase",
    "submitted": "status.lastSubmittedSequence",
    "branch id": "status.branchId",
}

SHOWN: Final = 5
"""Batches of which `show` tells what became of them: the latest."""

COMMANDS: Final = {
    "presence": ("anabranch.cli.runs:presence", "Say that the agent is there."),
    "peers": ("anabranch.cli.runs:peers", "List the runs of the branch's Baseline."),
    "checkpoint": ("anabranch.cli.runs:checkpoint", "Keep what the agent would go on from."),
    "restore": ("anabranch.cli.runs:restore", "Show what to go on from."),
    "rebase": ("anabranch.cli.rebasing:rebase", "List what another parent contradicts, and order the rebase."),
}

branch_argument = click.argument("branch", shell_complete=names("branches"))
key_argument = click.argument("key")
content_argument = click.argument("content", required=False)
scope_option = click.option("--scope", default="shared", show_default=True)


@click.group(cls=LazyGroup, lazy=COMMANDS)
def command() -> None:
    """Fork, read, write and submit as an agent."""


@command.command("list")
@click.option("-A", "--all-namespaces", is_flag=True, help="Of every namespace.")
@output_option
@cluster_options
def list_(output: str, connection: Connection, *, all_namespaces: bool) -> None:
    """List the Branches that you may list."""
    show(connection.kubectl.get("branches", everywhere=all_namespaces), output, columns=COLUMNS)


@command.command("show")
@branch_argument
@output_option
@connection_options
def show_(branch: str, output: str, connection: Connection) -> None:
    """Show a branch: its parent, its policy, and what became of the latest batches that it submitted."""

    async def ask(client: AnabranchClient, namespace: str) -> Any:
        manifest = await client.branch(namespace, branch)
        last = manifest.last_submitted_sequence
        latest = range(last, max(last - SHOWN, 0), -1)
        batches = await asyncio.gather(*(client.batch(namespace, branch, sequence) for sequence in latest))
        return {**as_json(manifest), "latest_batches": list(map(as_json, batches))}

    show(call(connection, ask), output)


@command.command("fork")
@click.argument("name")
@click.option("--baseline", required=True, metavar="[NS/]NAME", shell_complete=names("baselines"))
@click.option("--generation", type=click.IntRange(min=1), help="[default: the current one]")
@click.option("--task", default="", help="What the run is for.")
@output_option
@connection_options
def fork(*, name: str, baseline: str, generation: int | None, task: str, output: str, connection: Connection) -> None:
    """Fork a branch for the token's ServiceAccount. The same name again is the same branch."""

    async def ask(client: AnabranchClient, namespace: str) -> Any:
        from anabranch.model.requests import BranchRequest  # noqa: PLC0415  (pydantic, for this command alone)

        place, _, baseline_name = baseline.rpartition("/")
        request = BranchRequest(
            name=name, baseline=baseline_name, baseline_namespace=place or None, generation=generation, task=task
        )
        return as_json(await client.create_branch(namespace, request))

    show(call(connection, ask), output)


@command.command("get")
@branch_argument
@key_argument
@click.option(
    "--layer", type=click.Choice(["base", "shared", "private", "merged"]), default="merged", show_default=True
)
@output_option
@connection_options
def get(*, branch: str, key: str, layer: Layer, output: str, connection: Connection) -> None:
    """Read a record as the branch sees it: its private note, else what it has followed, else what its parent says."""

    async def ask(client: AnabranchClient, namespace: str) -> Any:
        return as_json(await client.view(namespace, branch, key, layer=layer))

    show(call(connection, ask), output)


@command.command("put")
@branch_argument
@key_argument
@content_argument
@scope_option
@output_option
@connection_options
def put(*, branch: str, key: str, content: str | None, scope: str, output: str, connection: Connection) -> None:
    """Keep a private note. CONTENT is JSON; without it, it is read from standard input."""
    value = read_content(content)

    async def ask(client: AnabranchClient, namespace: str) -> Any:
        return as_json(await client.put_private(namespace, branch, key, value, scope=scope))

    show(call(connection, ask), output)


@command.command("submit")
@branch_argument
@key_argument
@content_argument
@scope_option
@click.option("--base-revision", metavar="N", help="That the finding is based on.  [default: what the branch sees]")
@click.option("--source", "sources", multiple=True, metavar="LOCATOR", help="Where it is from; repeatable.")
@click.option(
    "--evidence",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Upload as a source; repeatable.",
)
@output_option
@connection_options
def submit(
    *,
    branch: str,
    key: str,
    content: str | None,
    scope: str,
    base_revision: str | None,
    sources: tuple[str, ...],
    evidence: tuple[Path, ...],
    output: str,
    connection: Connection,
) -> None:
    """Submit one finding as the branch's next batch. CONTENT is JSON, or standard input; the answer is a receipt.

    The finding is durable then, and not published: `branch show` tells what became of it.
    """
    value = read_content(content)

    async def ask(client: AnabranchClient, namespace: str) -> Any:
        from anabranch.model.objects import Change  # noqa: PLC0415  (pydantic, for this command alone)

        change = Change(key=key, content=value, scope=scope, visibility="shareable")
        manifest = await client.branch(namespace, branch)
        locators = list(sources)
        for file in evidence:
            media_type = mimetypes.guess_type(file.name)[0] or "application/octet-stream"
            locators.append(await client.put_evidence(namespace, branch, file.read_bytes(), media_type=media_type))
        base = base_revision or await client.base_revision(namespace, manifest.branch_id, key)
        receipt = await client.submit_batch(
            namespace,
            manifest.branch_id,
            sequence=manifest.last_submitted_sequence + 1,
            changes=[change],
            sources=[locators],
            base_revisions=[base],
        )
        return as_json(receipt)

    show(call(connection, ask), output)
    hint(f"What becomes of it: anabranch branch show {branch} -n {connection.namespace}")


@command.command("complete")
@branch_argument
@output_option
@connection_options
def complete(branch: str, output: str, connection: Connection) -> None:
    """Close the run, once all its batches are in. Closing it again is the same."""

    async def ask(client: AnabranchClient, namespace: str) -> Any:
        from anabranch.model.canonical import content_hash  # noqa: PLC0415
        from anabranch.model.objects import RunCompletion  # noqa: PLC0415

        manifest = await client.branch(namespace, branch)
        completion = RunCompletion(
            run_id=manifest.run_id,
            branch_id=manifest.branch_id,
            agent_id=manifest.agent_id,
            baseline_id=manifest.parent_snapshot_id,
            last_submitted_sequence=manifest.last_submitted_sequence,
            delta_hash=content_hash([]),
        )
        return as_json(await client.complete(namespace, manifest.branch_id, completion))

    show(call(connection, ask), output)


def read_content(argument: str | None, *, what: str = "CONTENT") -> Any:
    """The JSON value of an argument; of standard input where there is none.

    Args:
        argument: Its text.
        what: What the command calls it.

    Raises:
        InvalidInputError: If it is no JSON.
    """
    from anabranch.model.canonical import parse_json  # noqa: PLC0415
    from anabranch.model.errors import InvalidInputError  # noqa: PLC0415

    if argument is None and sys.stdin.isatty():
        click.echo("Type the content as JSON, and end with Ctrl-D.", err=True)
    try:
        return parse_json(sys.stdin.buffer.read() if argument is None else argument)
    except InvalidInputError as error:
        detail = error.detail.replace("The body is", f"{what} is")
        raise InvalidInputError(
            detail, hint="A text is JSON in quotation marks: '\"Drain the cache first.\"'."
        ) from None
