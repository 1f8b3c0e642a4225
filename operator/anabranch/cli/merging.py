"""``anabranch job merge``: one text of several candidates, proposed as a candidate for others to decide.

With a person's kubeconfig the text is uploaded as a draft, by a token, and the merge stands in ``spec.reviews`` of the
job under that person's name, where admission checks the grant; with a token of one's own (``--http``) it is proposed
by the API.
"""

from __future__ import annotations

import json
from typing import IO, TYPE_CHECKING, Any

import click

from anabranch.cli.calls import as_json, call
from anabranch.cli.completion import names
from anabranch.cli.connection import Connection, connection_options
from anabranch.cli.output import hint
from anabranch.cli.review import check_guard, own_entry, waiting, write
from anabranch.model.errors import ConflictError, DigestMismatchError, InvalidInputError, NotFoundError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from anabranch.cli.kubectl import Kubectl
    from anabranch.client import AnabranchClient


@click.command()
@click.argument("job", shell_complete=names("consolidationjobs"))
@click.option(
    "--input",
    "inputs",
    multiple=True,
    required=True,
    metavar="CANDIDATE",
    help="Candidate that it was made of, by id; repeatable.",
)
@click.option("--record", is_flag=True, help="It was made of the record that they would replace, too.")
@click.option(
    "--file",
    type=click.File(encoding="utf-8"),
    required=True,
    help="The merged content: JSON (.json), YAML (.yaml, .yml), else text; - is text from standard input.",
)
@click.option("--http", is_flag=True, help="Propose by the API as the token's owner, not by kubectl as yourself.")
@connection_options
def merge(
    *, job: str, inputs: tuple[str, ...], record: bool, file: IO[str], connection: Connection, http: bool
) -> None:
    """Propose one text made of several candidates for a key, or of one and the record.

    It becomes a candidate with the sources and runs of all of them, which others than its author decide. They stay open
    until it is accepted, and go no further then.
    """
    candidates = {found["candidate_id"]: found for found in waiting(connection, job)}
    if unknown := [candidate for candidate in inputs if candidate not in candidates]:
        raise NotFoundError(
            f"{unknown[0]} does not wait for a decision in {job}.", hint=f"See anabranch job show {job}."
        )
    check_sides([candidates[candidate] for candidate in set(inputs)], record=record)
    content = parsed(file.read(), name=file.name)
    revision = seen_revision(candidates[candidate] for candidate in inputs)
    if http:
        made = _post(connection, job, content, inputs=inputs, revision=revision, record=record)
        click.echo(f"{made['candidate_id']} proposed in {job}.")
    else:
        digest = uploaded(connection, job, content)
        kubectl = connection.kubectl
        claim(kubectl, job, entry(digest, inputs, revision, record=record), reviewer=kubectl.username())
        check_guard(connection)
        click.echo(f"Proposed in {job}.")
    hint(f"The candidate that it becomes: anabranch job show {job} -n {connection.namespace}")


def parsed(text: str, *, name: str) -> Any:
    """The content that a file holds.

    Raises:
        InvalidInputError: If it is not what its name says.
    """
    if name.endswith(".json"):
        try:
            return json.loads(text)
        except ValueError as error:
            raise InvalidInputError(f"{name} is no JSON: {error}.", hint="Mend it, or name it .txt.") from None
    if name.endswith((".yaml", ".yml")):
        from anabranch.domain.documents.strict_yaml import parse_yaml  # noqa: PLC0415  (a tenth of a second)

        return parse_yaml(text, place=name)
    return text.removesuffix("\n")


def check_sides(candidates: Sequence[Mapping[str, Any]], *, record: bool) -> None:
    """Refuse at once what no merge could be made of: in a resource it would be found out when nobody looks.

    Args:
        candidates: The inputs, each once, as the API's JSON has them.
        record: Whether the record is one, too.

    Raises:
        ConflictError: If there is no such record, an input says nothing, or there is one side alone.
    """
    if mute := next((each for each in candidates if each["op"] == "tombstone"), None):
        raise ConflictError(
            f"The candidate {mute['candidate_id']} proposes to delete its key: there is nothing in it to merge.",
            hint="Leave it out, and reject it if the merge is to stand instead.",
        )
    if record and any(each["canonical"] is None or each["canonical"]["tombstone"] for each in candidates):
        raise ConflictError("There is no record that it could have been made of.", hint="Leave out --record.")
    if len(candidates) + record < 2:
        raise ConflictError(
            "A merge is made of two sides at least.", hint="Name another --input, or --record where there is one."
        )


def seen_revision(candidates: Any) -> str:
    """The revision of the record that some candidates for one key stand against.

    Raises:
        ConflictError: If they are for several keys.
    """
    found = {(each["key"], each["canonical"]["revision"] if each["canonical"] else "0") for each in candidates}
    if len(found) != 1:
        raise ConflictError("A merge is made of candidates for one key.", hint="Merge those of each key by themselves.")
    return str(found.pop()[1])


def uploaded(connection: Connection, job: str, content: Any) -> str:
    """Upload a text as a draft; its hash, reckoned here: what is claimed in somebody's name is what they have written.

    Raises:
        DigestMismatchError: If the API has kept something else.
    """

    async def ask(client: AnabranchClient, namespace: str) -> str:
        return await put_draft(client, namespace, job, content)

    return call(connection, ask)


async def put_draft(client: AnabranchClient, namespace: str, job: str, content: Any) -> str:
    """The same with a client at hand."""
    from anabranch.model.canonical import content_hash  # noqa: PLC0415  (comes with pydantic)

    expected = str(content_hash(content))
    if await client.put_draft(namespace, job, content) != expected:
        raise DigestMismatchError("The API has kept another text than was sent.", hint="Nothing was proposed.")
    return expected


def entry(digest: str, inputs: Sequence[str], revision: str, *, record: bool) -> dict[str, Any]:
    """A merge in the form that ``spec.reviews`` has."""
    made = {"contentHash": digest, "inputs": sorted(inputs), "baseRevision": revision}
    return {**made, **({"withRecord": True} if record else {})}


def claim(kubectl: Kubectl, job: str, made: Mapping[str, Any], *, reviewer: str) -> None:
    """Put a merge into a job's spec, as the person that kubectl logs in; for errors see `review.note`."""
    resource = kubectl.get("consolidationjobs", job)
    reviews = with_merge(resource["spec"].get("reviews", []), reviewer, made)
    write(kubectl, job, reviews, resource=resource)


def with_merge(entries: list[dict[str, Any]], reviewer: str, made: Mapping[str, Any]) -> list[dict[str, Any]]:
    """``spec.reviews`` with a merge added to a reviewer's own entry; one of the same text takes its place."""
    others, own = own_entry(entries, reviewer)
    kept = [each for each in own.get("merges", ()) if each["contentHash"] != made["contentHash"]]
    return [*others, {**own, "merges": [*kept, dict(made)]}]


def _post(
    connection: Connection, job: str, content: Any, *, inputs: Sequence[str], revision: str, record: bool
) -> dict[str, Any]:
    from anabranch.model.merging import MergeRequest  # noqa: PLC0415  (only this way needs it)

    async def ask(client: AnabranchClient, namespace: str) -> dict[str, Any]:
        request = MergeRequest(content=content, inputs=tuple(inputs), base_revision=revision, with_record=record)
        made: dict[str, Any] = as_json(await client.merge(namespace, job, request))
        return made

    return call(connection, ask)
