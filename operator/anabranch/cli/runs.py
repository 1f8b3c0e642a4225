"""What an agent says of a run that goes on, by ``anabranch branch``: presence, peers, checkpoints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from anabranch.cli.branch import branch_argument, read_content
from anabranch.cli.calls import as_json, call
from anabranch.cli.connection import Connection, connection_options
from anabranch.cli.output import output_option, show

if TYPE_CHECKING:
    from anabranch.client import AnabranchClient
    from anabranch.model.objects import PeerState

PEERS: Final = {
    "agent": "agent_id",
    "state": "state",
    "task": "task",
    "published": "last_published_sequence",
    "lease until": "lease_deadline",
    "branch id": "branch_id",
}

session_option = click.option("--session", default="default", show_default=True, help="Which of the agent's threads.")


@click.command()
@branch_argument
@click.option("--task", help="What the agent is at.  [default: what the Branch says]")
@click.option("--leave", is_flag=True, help="Say goodbye instead: the lease ends now.")
@output_option
@connection_options
def presence(*, branch: str, task: str | None, leave: bool, output: str, connection: Connection) -> None:
    """Say that the agent is there, until the deadline that is answered. Peers see what is answered."""

    async def ask(client: AnabranchClient, namespace: str) -> Any:
        return as_json(await client.presence(namespace, branch, state="stale" if leave else "active", task=task))

    show(call(connection, ask), output)


@click.command()
@branch_argument
@click.option(
    "--state", type=click.Choice(["active", "stale", "unknown", "completed"]), help="Only runs in this state."
)
@output_option
@connection_options
def peers(*, branch: str, state: PeerState | None, output: str, connection: Connection) -> None:
    """List the runs of the branch's Baseline, this one among them, as far as each permits it."""

    async def ask(client: AnabranchClient, namespace: str) -> Any:
        place, _, baseline = (await client.branch(namespace, branch)).baseline.partition("/")
        return [as_json(peer) async for peer in client.peers(place, baseline, state=state)]

    show(call(connection, ask), output, columns=PEERS)


@click.command()
@branch_argument
@click.argument("checkpoint")
@click.argument("capsule", required=False)
@session_option
@click.option("--reference", "references", multiple=True, metavar="LOCATOR", help="What it speaks of; repeatable.")
@output_option
@connection_options
def checkpoint(
    *,
    branch: str,
    checkpoint: str,
    capsule: str | None,
    session: str,
    references: tuple[str, ...],
    output: str,
    connection: Connection,
) -> None:
    """Keep what the agent would go on from, under a new name, for good.

    CAPSULE is JSON, or standard input: {"goal": …, "summary": …, "constraints": [], "decisions": [], "open_tasks": [],
    "next_action": …}, of which only the goal has to be there.
    """
    value = read_content(capsule, what="CAPSULE")

    async def ask(client: AnabranchClient, namespace: str) -> Any:
        from anabranch.model.runs import Capsule  # noqa: PLC0415  (pydantic, for this command alone)

        kept = await client.put_checkpoint(
            namespace,
            branch,
            checkpoint,
            Capsule.model_validate(value),
            session_id=session,
            references=references,
        )
        return as_json(kept)

    show(call(connection, ask), output)


@click.command()
@branch_argument
@click.argument("checkpoint", required=False)
@session_option
@output_option
@connection_options
def restore(*, branch: str, checkpoint: str | None, session: str, output: str, connection: Connection) -> None:
    """Show what to go on from: a checkpoint by its name, or the latest one of a session."""

    async def ask(client: AnabranchClient, namespace: str) -> Any:
        from anabranch.model.errors import NotFoundError  # noqa: PLC0415

        if checkpoint is not None:
            return as_json(await client.checkpoint(namespace, branch, checkpoint))
        found = await client.latest_checkpoint(namespace, branch, session_id=session)
        if found is None:
            raise NotFoundError(
                f"{branch} has no checkpoint of the session {session}.", hint="Name another --session, or keep one."
            )
        return as_json(found)

    show(call(connection, ask), output)
