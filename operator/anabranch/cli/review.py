"""``anabranch job review``: decisions, each bound to what the reviewer saw.

With a person's kubeconfig a decision goes into the job's ``spec.reviews`` under that person's name, where admission
checks the grant; an agent or a service with a token of its own (``--http``) decides by the API.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from anabranch.cli.calls import as_json, call
from anabranch.cli.candidates import describe
from anabranch.cli.completion import names
from anabranch.cli.connection import Connection, connection_options
from anabranch.cli.output import hint, take
from anabranch.model.errors import ForbiddenError, NotFoundError, NotReadyError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from anabranch.cli.kubectl import Kubectl
    from anabranch.client import AnabranchClient


@click.command()
@click.argument("job", shell_complete=names("consolidationjobs"))
@click.option("--accept", multiple=True, metavar="CANDIDATE", help="Candidate id; repeatable.")
@click.option("--reject", multiple=True, metavar="CANDIDATE", help="Candidate id; repeatable.")
@click.option("--reason", default="", help="Required for a rejection: the agent gets to read it.")
@click.option("--http", is_flag=True, help="Decide by the API as the token's owner, not by kubectl as yourself.")
@connection_options
def review(
    *, job: str, accept: tuple[str, ...], reject: tuple[str, ...], reason: str, connection: Connection, http: bool
) -> None:
    """Accept or reject candidates of a job that awaits review. Without a decision it shows what there is to decide.

    The candidates are read through the API by token. A decision counts for exactly what was read: where the record or
    the candidate has changed meanwhile, it is to be made again.
    """
    actions = decided(accept, reject, reason)
    candidates = {found["candidate_id"]: found for found in waiting(connection, job)}
    if not actions:
        for found in candidates.values():
            click.echo("\n".join(describe(found)))
        if not candidates:
            click.echo(f"Nothing waits for a decision in {job}.")
        return
    if unknown := [candidate for candidate in actions if candidate not in candidates]:
        raise NotFoundError(
            f"{unknown[0]} does not wait for a decision in {job}.", hint="Call it without a decision to see what does."
        )
    decisions = [decision(candidates[candidate], action, reason) for candidate, action in actions.items()]
    if http:
        _post(connection, job, decisions)
    else:
        kubectl = connection.kubectl
        note(kubectl, job, decisions, reviewer=kubectl.username(), resource=kubectl.get("consolidationjobs", job))
        check_guard(connection)
    click.echo(f"{len(decisions)} decided in {job}.")
    hint(f"What comes of it: anabranch job show {job} -n {connection.namespace}")


def decided(accept: tuple[str, ...], reject: tuple[str, ...], reason: str) -> dict[str, str]:
    """The decisions of a command line: candidate id to action.

    Raises:
        click.UsageError: If they contradict each other, or a rejection has no reason.
    """
    if reject and not reason:
        raise click.UsageError("A rejection needs a --reason: the agent gets to read it.")
    if both := set(accept) & set(reject):
        raise click.UsageError(f"{min(both)} is both accepted and rejected.")
    return dict.fromkeys(accept, "accept") | dict.fromkeys(reject, "reject")


def waiting(connection: Connection, job: str) -> list[dict[str, Any]]:
    """The candidates of a job that wait for a decision, as the API's JSON has them."""

    async def ask(client: AnabranchClient, namespace: str) -> list[dict[str, Any]]:
        found = [candidate async for candidate in client.candidates(namespace, job)]
        return [as_json(candidate) for candidate in found if candidate.state == "waiting"]

    return call(connection, ask)


def decision(found: Mapping[str, Any], action: str, reason: str) -> dict[str, Any]:
    """A decision on a candidate, in the form that ``spec.reviews`` has."""
    return {
        "candidateId": found["candidate_id"],
        "contentHash": found["content_hash"],
        "baseRevision": found["canonical"]["revision"] if found["canonical"] else "0",
        "action": action,
        **({"reason": reason} if reason else {}),
    }


def with_decisions(
    entries: list[dict[str, Any]], reviewer: str, decisions: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """``spec.reviews`` with decisions added to a reviewer's own entry.

    Others' entries, and earlier decisions on other candidates, stay.
    """
    own: list[dict[str, Any]] = next((entry["decisions"] for entry in entries if entry["reviewer"] == reviewer), [])
    new = {each["candidateId"] for each in decisions}
    kept = [each for each in own if each["candidateId"] not in new]
    others = [entry for entry in entries if entry["reviewer"] != reviewer]
    return [*others, {"reviewer": reviewer, "decisions": [*kept, *decisions]}]


def note(
    kubectl: Kubectl, job: str, decisions: list[dict[str, Any]], *, reviewer: str, resource: Mapping[str, Any]
) -> None:
    """Put decisions into a job's spec, as the person that kubectl logs in.

    Args:
        kubectl: Of that person, in the job's namespace.
        job: Its name.
        decisions: In the form that ``spec.reviews`` has.
        reviewer: The person's username.
        resource: The job as it was read just before.

    Raises:
        ConflictError: If somebody has changed the job since: a decision of another reviewer would be lost.
        ForbiddenError: If the person may not decide.
    """
    reviews = with_decisions(resource["spec"].get("reviews", []), reviewer, decisions)
    version = resource["metadata"]["resourceVersion"]
    kubectl.patch("consolidationjobs", job, {"metadata": {"resourceVersion": version}, "spec": {"reviews": reviews}})


def check_guard(connection: Connection) -> None:
    """Check that decisions on resources count here.

    Raises:
        NotReadyError: If the operator ignores them, since nothing would keep people from deciding as somebody else.
    """
    try:
        baselines = connection.kubectl.get("baselines")
    except ForbiddenError:
        return
    for baseline in baselines:
        for found in take(baseline, "status.conditions") or ():
            if found["type"] == "ReviewGuardMissing" and found["status"] == "True":
                raise NotReadyError(
                    f"The decision stands in spec.reviews, and does not count now: {found['message']}",
                    hint="Tell who runs Anabranch (`anabranch doctor` shows what to mend), or decide by --http.",
                )


def _post(connection: Connection, job: str, decisions: list[dict[str, Any]]) -> None:
    from anabranch.model.requests import DecisionRequest  # noqa: PLC0415  (only this way needs it)

    async def ask(client: AnabranchClient, namespace: str) -> None:
        requests = [
            DecisionRequest(
                candidate_id=each["candidateId"],
                content_hash=each["contentHash"],
                base_revision=each["baseRevision"],
                action=each["action"],
                reason=each.get("reason", ""),
            )
            for each in decisions
        ]
        await client.review(namespace, job, requests)

    call(connection, ask)
