"""``anabranch job review``: decisions, each bound to what the reviewer saw.

On a terminal, without a decision, it goes through what waits and asks (see `rounds`). With a person's kubeconfig a
decision goes into the job's ``spec.reviews`` under that person's name, where admission checks the grant; an agent or a
service with a token of its own (``--http``) decides by the API.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from anabranch.cli.calls import as_json, call
from anabranch.cli.candidates import describe
from anabranch.cli.completion import names
from anabranch.cli.connection import Connection, connection_options
from anabranch.cli.output import hint, take
from anabranch.model.errors import ConflictError, ForbiddenError, NotFoundError, NotReadyError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from anabranch.cli.kubectl import Kubectl
    from anabranch.client import AnabranchClient


@click.command()
@click.argument("job", shell_complete=names("consolidationjobs"))
@click.option("--accept", multiple=True, metavar="CANDIDATE", help="Candidate id; repeatable.")
@click.option("--reject", multiple=True, metavar="CANDIDATE", help="Candidate id; repeatable.")
@click.option("--accept-group", multiple=True, metavar="GROUP", help="All of a group, by its id; repeatable.")
@click.option("--reject-group", multiple=True, metavar="GROUP", help="All of a group, by its id; repeatable.")
@click.option("--reason", default="", help="Required for a rejection: the agent gets to read it.")
@click.option("--http", is_flag=True, help="Decide by the API as the token's owner, not by kubectl as yourself.")
@click.option("--list", "listed", is_flag=True, help="Only show what there is to decide, on a terminal too.")
@connection_options
def review(
    *,
    job: str,
    accept: tuple[str, ...],
    reject: tuple[str, ...],
    accept_group: tuple[str, ...],
    reject_group: tuple[str, ...],
    reason: str,
    connection: Connection,
    http: bool,
    listed: bool,
) -> None:
    """Accept or reject candidates of a job that awaits review.

    On a terminal, without a decision, it shows one after the other and asks. Elsewhere, or with --list, it shows what
    there is to decide.

    The candidates are read through the API by token. A decision counts for exactly what was read: where the record or
    the candidate has changed meanwhile, it is to be made again. A group is near-identical candidates of the job.
    """
    actions = decided(accept, reject, reason)
    on_groups = decided(accept_group, reject_group, reason)
    if not actions and not on_groups and not listed and sys.stdin.isatty() and sys.stdout.isatty():
        from anabranch.cli.rounds import go_through  # noqa: PLC0415  (rich is for terminals alone)

        go_through(connection, job, http=http)
        return
    candidates = {found["candidate_id"]: found for found in waiting(connection, job)}
    if not actions and not on_groups:
        voices = said(connection, job) if candidates else []
        for found in candidates.values():
            click.echo("\n".join(describe(found, voices)))
        if not candidates:
            click.echo(f"Nothing waits for a decision in {job}.")
        return
    groups = group_decisions(connection, job, on_groups, reason) if on_groups else []
    if unknown := [candidate for candidate in actions if candidate not in candidates]:
        raise NotFoundError(
            f"{unknown[0]} does not wait for a decision in {job}.", hint="Call it without a decision to see what does."
        )
    check_held(candidates[candidate] for candidate, action in actions.items() if action == "accept" and not reason)
    decisions = [decision(candidates[candidate], action, reason) for candidate, action in actions.items()]
    if http:
        _post(connection, job, decisions, groups)
    else:
        kubectl = connection.kubectl
        resource = kubectl.get("consolidationjobs", job)
        reviewer = kubectl.username()
        note(kubectl, job, decisions, groups=groups, reviewer=reviewer, resource=resource)
        check_guard(connection)
        for candidate in own_of(candidates, actions, reviewer):
            hint(f"You wrote {candidate}, or part of it: where self-review is forbidden, this counts for nothing.")
    click.echo(f"{len(decisions) + len(groups)} decided in {job}.")
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


def own_of(candidates: Mapping[str, Mapping[str, Any]], decided_on: Iterable[str], reviewer: str) -> list[str]:
    """Which of the candidates that were decided on their reviewer has written, or what one was made of.

    Args:
        candidates: What waits in the job, by id, as the API's JSON has it.
        decided_on: Ids.
        reviewer: Username.
    """
    own = {candidate for candidate, found in candidates.items() if found["author"] == reviewer}
    return [each for each in decided_on if own & {each, *(candidates[each].get("inputs") or ())}]


def check_held(unexplained: Iterable[Mapping[str, Any]]) -> None:
    """Have a reviewer say why what costs answers is to be published all the same.

    Args:
        unexplained: Candidates that are to be accepted without a reason.

    Raises:
        click.UsageError: If the recall gate holds one of them.
    """
    from anabranch.domain.gate import REASONS  # noqa: PLC0415  (pydantic, for what decides alone)

    if any(found["reason"] in REASONS for found in unexplained):
        raise click.UsageError(
            "It is held for the questions that would be answered no more: say why it is to be published all the same, "
            "in a --reason that was not there before."
        )


def waiting(connection: Connection, job: str) -> list[dict[str, Any]]:
    """The candidates of a job that wait for a decision, as the API's JSON has them."""

    async def ask(client: AnabranchClient, namespace: str) -> list[dict[str, Any]]:
        found = [candidate async for candidate in client.candidates(namespace, job)]
        return [as_json(candidate) for candidate in found if candidate.state == "waiting"]

    return call(connection, ask)


def said(connection: Connection, job: str) -> list[dict[str, Any]]:
    """What reviewers have decided in a job, in order, as the API's JSON has it."""

    async def ask(client: AnabranchClient, namespace: str) -> list[dict[str, Any]]:
        return [as_json(entry) for entry in await client.reviews(namespace, job)]

    return call(connection, ask)


def decision(found: Mapping[str, Any], action: str, reason: str) -> dict[str, Any]:
    """A decision on a candidate, in the form that ``spec.reviews`` has."""
    return {
        "candidateId": found["candidate_id"],
        "contentHash": found["content_hash"],
        "baseRevision": found["canonical"]["revision"] if found["canonical"] else "0",
        "action": action,
        **({"reason": reason} if reason else {}),
        **({"hold": found["hold"]} if found.get("hold") else {}),
    }


def group_decisions(connection: Connection, job: str, actions: Mapping[str, str], reason: str) -> list[dict[str, Any]]:
    """Decisions on groups as they are now, in the form that ``spec.reviews`` has.

    Raises:
        NotFoundError: If nothing of a group waits in the job.
        ConflictError: If one cannot be accepted as one.
    """

    async def ask(client: AnabranchClient, namespace: str) -> list[dict[str, Any]]:
        return [as_json(group) for group in await client.groups(namespace, job)]

    found = {group["group_id"]: group for group in call(connection, ask)}
    for group, action in actions.items():
        if group not in found:
            raise NotFoundError(f"{group} is no group of which anything waits in {job}.", hint="See `--list`.")
        if action == "accept" and not found[group]["acceptable"]:
            raise ConflictError(
                f"{group} has conflicts, or several candidates for a key.",
                hint="Accept those that you mean one by one.",
            )
    return [
        {
            "groupId": group,
            "digest": found[group]["digest"],
            "action": action,
            **({"reason": reason} if reason else {}),
        }
        for group, action in actions.items()
    ]


def with_decisions(
    entries: list[dict[str, Any]],
    reviewer: str,
    decisions: list[dict[str, Any]],
    groups: list[dict[str, Any]] | None = None,
) -> list[dict[str, Any]]:
    """``spec.reviews`` with decisions, on candidates and on groups, added to a reviewer's own entry.

    Others' entries, and whatever else stands in the own one, stay.
    """
    others, own = own_entry(entries, reviewer)
    entry = {**own, "decisions": _merged(own["decisions"], decisions, by="candidateId")}
    if groups:
        entry["groups"] = _merged(own.get("groups", []), groups, by="groupId")
    return [*others, entry]


def _merged(old: list[dict[str, Any]], new: list[dict[str, Any]], *, by: str) -> list[dict[str, Any]]:
    said = {each[by] for each in new}
    return [*(each for each in old if each[by] not in said), *new]


def own_entry(entries: list[dict[str, Any]], reviewer: str) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The entries of others in ``spec.reviews``, and a reviewer's own one."""
    empty: dict[str, Any] = {"reviewer": reviewer, "decisions": []}
    own = next((entry for entry in entries if entry["reviewer"] == reviewer), empty)
    return [entry for entry in entries if entry["reviewer"] != reviewer], own


def note(
    kubectl: Kubectl,
    job: str,
    decisions: list[dict[str, Any]],
    *,
    reviewer: str,
    resource: Mapping[str, Any],
    groups: list[dict[str, Any]] | None = None,
) -> None:
    """Put decisions into a job's spec, as the person that kubectl logs in.

    Args:
        kubectl: Of that person, in the job's namespace.
        job: Its name.
        decisions: In the form that ``spec.reviews`` has.
        reviewer: The person's username.
        resource: The job as it was read just before.
        groups: Decisions on groups, in that form.

    Raises:
        ConflictError: If somebody has changed the job since: a decision of another reviewer would be lost.
        ForbiddenError: If the person may not decide.
    """
    reviews = with_decisions(resource["spec"].get("reviews", []), reviewer, decisions, groups)
    write(kubectl, job, reviews, resource=resource)


def write(kubectl: Kubectl, job: str, reviews: list[dict[str, Any]], *, resource: Mapping[str, Any]) -> None:
    """Put ``spec.reviews`` into a job; what it raises is told at `note`."""
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


def _post(connection: Connection, job: str, decisions: list[dict[str, Any]], groups: list[dict[str, Any]]) -> None:
    from anabranch.model.requests import DecisionRequest, GroupDecisionRequest  # noqa: PLC0415  (only this way needs it)

    async def ask(client: AnabranchClient, namespace: str) -> None:
        requests = [
            DecisionRequest(
                candidate_id=each["candidateId"],
                content_hash=each["contentHash"],
                base_revision=each["baseRevision"],
                action=each["action"],
                reason=each.get("reason", ""),
                hold=each.get("hold"),
            )
            for each in decisions
        ]
        together = [
            GroupDecisionRequest(
                group_id=each["groupId"], digest=each["digest"], action=each["action"], reason=each.get("reason", "")
            )
            for each in groups
        ]
        await client.review(namespace, job, requests, groups=together)

    call(connection, ask)
