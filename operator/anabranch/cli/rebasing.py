"""``anabranch branch rebase``: another parent for a run, with what that leaves to be settled said beforehand.

What is ordered is a field of the Branch, so it is a person's or Git's to order. The conflicts are told to the run's own
agent alone: the command reads them with its token.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

import click

from anabranch.cli.branch import branch_argument
from anabranch.cli.calls import as_json, call
from anabranch.cli.connection import Connection, connection_options
from anabranch.cli.output import as_yaml, output_option, show, take
from anabranch.cli.rollback import PATIENCE, POLL, gitops_owner
from anabranch.model.errors import ConflictError, NotReadyError

if TYPE_CHECKING:
    from anabranch.client import AnabranchClient

COLUMNS: Final = {
    "key": "key",
    "based on": "base_revision",
    "target": "target.revision",
    "scope": "scope",
}


@click.command()
@branch_argument
@click.option("--to", "target", type=click.IntRange(min=1), help="Generation.  [default: compare with the parent]")
@click.option("--apply", is_flag=True, help="Order it now, as yourself, instead of printing what to commit.")
@output_option
@connection_options
def rebase(*, branch: str, target: int | None, apply: bool, output: str, connection: Connection) -> None:
    """List which private records another parent contradicts, and print the field that orders the rebase.

    With --apply the rebase is ordered at once. The private overlay stays as it is: what is listed is settled by writing
    each record again on what is beneath it then. Without --to it lists what is unsettled still.
    """
    if apply and target is None:
        raise click.UsageError("--apply needs --to.")

    async def ask(client: AnabranchClient, namespace: str) -> Any:
        page, found = await client.rebase_conflicts(namespace, branch, to=target)
        return {**as_json(page), "items": [as_json(conflict) for conflict in found]}

    answer = call(connection, ask)
    show(answer if output != "table" else answer["items"], output, columns=COLUMNS)
    if target is None:
        return
    resource = connection.kubectl.get("branches", branch) if apply else None
    if resource is None:
        click.echo(f"# To order it: {connection.namespace}/{branch}, spec:", err=True)
        click.echo(as_yaml({"rebase": {"toGeneration": target}}), nl=False, err=True)
        return
    if owner := gitops_owner(resource):
        raise ConflictError(
            f"{owner} owns the spec of {branch}: what it does not know of, it would fight or never remove.",
            hint="Commit spec.rebase to Git instead.",
        )
    connection.kubectl.patch("branches", branch, {"spec": {"rebase": {"toGeneration": target}}})
    _await(connection, branch, target)
    click.echo(f"{branch} stands on generation {target}.", err=True)


def settled(resource: dict[str, Any], target: int) -> bool:
    """Whether a Branch stands on a generation.

    Raises:
        NotReadyError: If it will not, in the operator's words.
    """
    status = resource.get("status", {})
    if status.get("observedGeneration", -1) < resource["metadata"]["generation"]:
        return False
    for condition in status.get("conditions", ()):
        if condition["type"] == "Stalled" and condition["status"] == "True":
            raise NotReadyError(condition["message"], hint="See `kubectl describe branch`.")
    return bool(take(resource, "status.parent.generation") == target)


def _await(connection: Connection, branch: str, target: int) -> None:
    deadline = time.monotonic() + PATIENCE
    while not settled(connection.kubectl.get("branches", branch), target):
        if time.monotonic() > deadline:
            raise NotReadyError(
                f"The spec of {branch} is changed, and the operator has not acted on it within {PATIENCE} s.",
                hint=f"See `kubectl describe branch {branch}`, and `doctor`.",
            )
        time.sleep(POLL)
