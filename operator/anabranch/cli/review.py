"""``anabranch job review``: one decision, bound to what the reviewer saw.

With a person's kubeconfig the decision goes into the job's ``spec.reviews`` under that person's name, where admission
checks the grant; an agent or a service with a token of its own (``--http``) decides by the API.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import click

from anabranch.cli.connection import Connection, connection_options
from anabranch.model.errors import InvalidInputError, NotFoundError

if TYPE_CHECKING:
    from anabranch.model.objects import KnowledgeCandidate


@click.command()
@click.argument("job")
@click.option("--accept", multiple=True, metavar="CANDIDATE", help="Candidate id; repeatable.")
@click.option("--reject", multiple=True, metavar="CANDIDATE", help="Candidate id; repeatable.")
@click.option("--reason", default="", help="Required for a rejection.")
@click.option("--http", is_flag=True, help="Decide by the API as the token's owner, not by kubectl as yourself.")
@connection_options
def review(
    *, job: str, accept: tuple[str, ...], reject: tuple[str, ...], reason: str, connection: Connection, http: bool
) -> None:
    """Accept or reject candidates of a job that awaits review. Without a decision it shows what there is to decide."""
    if reject and not reason:
        raise InvalidInputError("A rejection needs a reason.", hint="Say why with --reason: the agent gets to read it.")
    candidates = {found.candidate_id: found for found in asyncio.run(_waiting(connection, job))}
    actions = dict.fromkeys(accept, "accept") | dict.fromkeys(reject, "reject")
    if not actions:
        for found in candidates.values():
            click.echo(describe(found))
        return
    if unknown := [name for name in actions if name not in candidates]:
        raise NotFoundError(f"{unknown[0]} does not wait in {job}.", hint=f"See `anabranch job review {job}`.")
    decisions = [_decision(candidates[name], action, reason) for name, action in actions.items()]
    if http:
        asyncio.run(_post(connection, job, decisions))
    else:
        _patch(connection, job, decisions)
    click.echo(f"{len(decisions)} decided in {job}.")


def describe(found: KnowledgeCandidate) -> str:
    """A candidate and the record that it would replace, one above the other."""
    lines = [f"{found.candidate_id}   {found.key}   {'conflict' if found.conflicting else found.op}"]
    if canonical := found.canonical:
        lines += [f"  canonical, revision {canonical.revision}: {canonical.content}"]
        lines += [f"    source {locator}" for locator in canonical.source_locators]
    lines += [f"  candidate of {found.author}: {found.content if found.op == 'put' else '(delete the record)'}"]
    lines += [f"    source {check.locator} ({check.status})" for check in found.sources]
    return "\n".join(lines)


async def _waiting(connection: Connection, job: str) -> list[KnowledgeCandidate]:
    async with connection.client() as client:
        found = [candidate async for candidate in client.candidates(connection.namespace, job)]
    return [candidate for candidate in found if candidate.state == "waiting"]


def _decision(found: KnowledgeCandidate, action: str, reason: str) -> dict[str, Any]:
    return {
        "candidateId": found.candidate_id,
        "contentHash": found.content_hash,
        "baseRevision": found.canonical.revision if found.canonical else "0",
        "action": action,
        **({"reason": reason} if reason else {}),
    }


async def _post(connection: Connection, job: str, decisions: list[dict[str, Any]]) -> None:
    from anabranch.model.requests import DecisionRequest  # noqa: PLC0415  (only this way needs it)

    requests = [
        DecisionRequest(
            candidate_id=decision["candidateId"],
            content_hash=decision["contentHash"],
            base_revision=decision["baseRevision"],
            action=decision["action"],
            reason=decision.get("reason", ""),
        )
        for decision in decisions
    ]
    async with connection.client() as client:
        await client.review(connection.namespace, job, requests)


def _patch(connection: Connection, job: str, decisions: list[dict[str, Any]]) -> None:
    """Add the decisions to the person's own entry; earlier ones on other candidates stay."""
    kubectl = connection.kubectl
    reviewer = kubectl.username()
    resource = kubectl.get("consolidationjobs", job)
    entries = resource["spec"].get("reviews", [])
    own: list[dict[str, Any]] = next((entry["decisions"] for entry in entries if entry["reviewer"] == reviewer), [])
    decided = {decision["candidateId"] for decision in decisions}
    kept = [decision for decision in own if decision["candidateId"] not in decided]
    others = [entry for entry in entries if entry["reviewer"] != reviewer]
    # The resource version turns a race with another reviewer into a conflict instead of a lost decision.
    patch = {
        "metadata": {"resourceVersion": resource["metadata"]["resourceVersion"]},
        "spec": {"reviews": [*others, {"reviewer": reviewer, "decisions": [*kept, *decisions]}]},
    }
    kubectl.patch("consolidationjobs", job, patch)
