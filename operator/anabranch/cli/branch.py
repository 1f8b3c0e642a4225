"""``anabranch branch``: fork, keep private notes, submit findings, close the run: an agent's whole run from a shell."""

from __future__ import annotations

import asyncio
import mimetypes
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from anabranch.cli.connection import Connection, connection_options
from anabranch.cli.output import output_option, show
from anabranch.model.canonical import parse_json

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from anabranch.client import AnabranchClient

COLUMNS = {
    "namespace": "metadata.namespace",
    "name": "metadata.name",
    "baseline": "spec.baselineRef.name",
    "parent": "status.parent.generation",
    "agent": "spec.agent.serviceAccountName",
    "phase": "status.phase",
    "submitted": "status.lastSubmittedSequence",
    "branch id": "status.branchId",
}


@click.group()
def command() -> None:
    """List and show branches; fork, read, write and submit as an agent."""


@command.command("list")
@click.option("-A", "--all-namespaces", is_flag=True, help="Of every namespace.")
@output_option
@connection_options
def list_(output: str, connection: Connection, *, all_namespaces: bool) -> None:
    """List the Branches that you may list."""
    show(connection.kubectl.get("branches", everywhere=all_namespaces), output, columns=COLUMNS)


@command.command("show")
@click.argument("branch")
@output_option
@connection_options
def show_(branch: str, output: str, connection: Connection) -> None:
    """Show a branch of the token's agent: its parent, its policy, what it has submitted."""
    show(_call(connection, lambda client, ns: client.branch(ns, branch)), output)


@command.command("fork")
@click.argument("name")
@click.option("--baseline", required=True, help="[NAMESPACE/]NAME.")
@click.option("--generation", type=click.IntRange(min=1), help="[default: the current one]")
@click.option("--task", default="", help="What the run is for.")
@output_option
@connection_options
def fork(*, name: str, baseline: str, generation: int | None, task: str, output: str, connection: Connection) -> None:
    """Fork a branch for the token's ServiceAccount. The same name again is the same branch."""
    from anabranch.model.requests import BranchRequest  # noqa: PLC0415  (pydantic, for this command alone)

    namespace, _, baseline_name = baseline.rpartition("/")
    request = BranchRequest(
        name=name, baseline=baseline_name, baseline_namespace=namespace or None, generation=generation, task=task
    )
    show(_call(connection, lambda client, ns: client.create_branch(ns, request)), output)


@command.command("get")
@click.argument("branch")
@click.argument("key")
@click.option("--layer", type=click.Choice(["base", "private", "merged"]), default="merged", show_default=True)
@output_option
@connection_options
def get(
    *, branch: str, key: str, layer: Literal["base", "private", "merged"], output: str, connection: Connection
) -> None:
    """Read a record as the branch sees it."""
    show(_call(connection, lambda client, ns: client.view(ns, branch, key, layer=layer)), output)


@command.command("put")
@click.argument("branch")
@click.argument("key")
@click.argument("content", required=False)
@click.option("--scope", default="shared", show_default=True)
@output_option
@connection_options
def put(*, branch: str, key: str, content: str | None, scope: str, output: str, connection: Connection) -> None:
    """Keep a private note. CONTENT is JSON; without it, it is read from standard input."""
    value = parse_json(content if content is not None else sys.stdin.buffer.read())
    show(_call(connection, lambda client, ns: client.put_private(ns, branch, key, value, scope=scope)), output)


@command.command("submit")
@click.argument("branch")
@click.argument("key")
@click.argument("content", required=False)
@click.option("--scope", default="shared", show_default=True)
@click.option("--base-revision", default=None, help="That the finding is based on.  [default: the parent's]")
@click.option("--source", "sources", multiple=True, help="Source locator; repeatable.")
@click.option(
    "--evidence",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Upload as a source.",
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
    """Submit one finding as the branch's next batch. CONTENT is JSON, or standard input; the answer is a receipt."""
    value = parse_json(content if content is not None else sys.stdin.buffer.read())

    async def call(client: AnabranchClient, namespace: str) -> Any:
        from anabranch.model.objects import Change  # noqa: PLC0415  (pydantic, for this command alone)

        manifest = await client.branch(namespace, branch)
        locators = list(sources)
        for file in evidence:
            media_type = mimetypes.guess_type(file.name)[0] or "application/octet-stream"
            locators.append(await client.put_evidence(namespace, branch, file.read_bytes(), media_type=media_type))
        base = base_revision or await client.base_revision(namespace, manifest.branch_id, key)
        return await client.submit_batch(
            namespace,
            manifest.branch_id,
            sequence=manifest.last_submitted_sequence + 1,
            changes=[Change(key=key, content=value, scope=scope, visibility="shareable")],
            sources=[locators],
            base_revisions=[base],
        )

    show(_call(connection, call), output)


@command.command("complete")
@click.argument("branch")
@output_option
@connection_options
def complete(branch: str, output: str, connection: Connection) -> None:
    """Close the run, once all its batches are in. Closing it again is the same."""

    async def call(client: AnabranchClient, namespace: str) -> Any:
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
        return await client.complete(namespace, manifest.branch_id, completion)

    show(_call(connection, call), output)


def _call(connection: Connection, call: Callable[[AnabranchClient, str], Awaitable[Any]]) -> Any:
    """Call the API once, and return the answer as JSON has it."""

    async def run() -> Any:
        async with connection.client() as client:
            answer = await call(client, connection.namespace)
            return answer.model_dump(mode="json") if hasattr(answer, "model_dump") else answer

    return asyncio.run(run())
