"""``anabranch baseline trace`` and ``retract``: a record's lineage as a tree, and asking for it to be withdrawn."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

import click

from anabranch.cli.calls import as_json, call
from anabranch.cli.completion import names
from anabranch.cli.connection import Connection, connection_options
from anabranch.cli.output import hint, moment, output_option, show, visible
from anabranch.model.limits import PAGE_MAX

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from anabranch.client import AnabranchClient

_PATIENCE_SECONDS: Final = 30.0
_LOOK_SECONDS: Final = 0.5

_LISTED: Final = 50
"""Entries of a kind that the tree shows; `-o json` has all."""


@click.command()
@click.argument("name", shell_complete=names("baselines"))
@click.argument("key")
@click.option("--revision", metavar="R", help="Whose content is traced.  [default: the newest]")
@output_option
@connection_options
def trace(name: str, key: str, revision: str | None, output: str, connection: Connection) -> None:
    """Show where a record comes from and where it went, as a tree.

    From its sources over candidates and reviewers to all that was derived from it, what cites it, and the branches that
    have it, as far as you may see them.
    """

    async def ask(client: AnabranchClient, namespace: str) -> Any:
        found = await client.trace(namespace, name, key, revision=revision, limit=PAGE_MAX)
        items, cursor = list(found.items), found.next_cursor
        while cursor is not None:
            page = await client.trace(namespace, name, key, revision=revision, limit=PAGE_MAX, cursor=cursor)
            items, cursor = [*items, *page.items], page.next_cursor
        return as_json(found.model_copy(update={"items": tuple(items), "next_cursor": None}))

    found = call(connection, ask)
    if output != "table":
        show(found, output)
        return
    for line in tree(found):
        click.echo(line)
    if not found["complete"]:
        click.echo("Not all that was derived from it is here yet: try again in a moment.", err=True)


@click.command()
@click.argument("name", shell_complete=names("baselines"))
@click.argument("key")
@click.option("--revision", metavar="R", help="Whose content is to be withdrawn.  [default: the current one]")
@click.option("--reason", required=True, help="For reviewers, and for whoever cites the record later.")
@click.option("--wait/--no-wait", default=True, show_default=True, help="Wait until the job for it is made.")
@output_option
@connection_options
def retract(
    *, name: str, key: str, revision: str | None, reason: str, wait: bool, output: str, connection: Connection
) -> None:
    """Ask reviewers to withdraw a record, and to mark what was derived from it.

    Nothing changes before they have accepted it: then the record is deleted, and each live record that was derived from
    it says so, in one generation.
    """

    async def ask(client: AnabranchClient, namespace: str) -> Any:
        found = await client.retract(namespace, name, key, reason=reason, revision=revision)
        loop = asyncio.get_running_loop()
        until = loop.time() + _PATIENCE_SECONDS
        while wait and found.state == "requested" and loop.time() < until:
            await asyncio.sleep(_LOOK_SECONDS)
            found = await client.retraction(namespace, name, found.retraction_id)
        return as_json(found)

    found = call(connection, ask)
    if output != "table":
        show(found, output)
        return
    click.echo(f"{found['retraction_id']}: {told(found)}")
    if found["job_id"] is not None:
        hint(f"Reviewers decide: anabranch job review {found['job_id']}")


def told(found: dict[str, Any]) -> str:
    """What became of a retraction, in words."""
    match found["state"]:
        case "requested":
            return "asked for; the operator is about to make a job of it"
        case "proposed":
            return f"waits for reviewers in {found['job_id']}"
        case "published":
            return f"withdrawn in generation {found['generation']}"
        case "rejected":
            return "rejected by reviewers"
        case "reinstated":
            return "withdrawn, and published again since"
    return f"nothing to decide: {visible(found['detail'])}"


def tree(found: dict[str, Any]) -> Iterator[str]:
    """A trace as a person reads it.

    Args:
        found: A Trace, as the API's JSON has it.
    """
    key = click.style(visible(found["key"]), bold=True)
    yield f"{key}  revision {found['revision']}"
    parts = [
        _versions(found),
        _candidates(found),
        ("retractions", [_leaf(f"{told(one)}: {one['reason']}") for one in found["retractions"]]),
        _derived(found),
        _citing(found),
        _branches(found),
    ]
    shown = [_Node(f"{title} ({len(nodes)})", _few(nodes)) for title, nodes in parts if nodes]
    yield from _drawn(shown, "")


class _Node:
    """A line of the tree, and the lines below it."""

    def __init__(self, text: str, below: Sequence[_Node] = ()) -> None:
        self.text = text
        self.below = list(below)


def _leaf(text: str) -> _Node:
    return _Node(visible(text))


def _few(nodes: Sequence[_Node]) -> list[_Node]:
    more = len(nodes) - _LISTED
    return [*nodes[:_LISTED], *([_Node(f"… and {more} more")] if more > 0 else [])]


def _drawn(nodes: Sequence[_Node], before: str) -> Iterator[str]:
    for node in nodes:
        last = node is nodes[-1]
        yield f"{before}{'└─ ' if last else '├─ '}{node.text}"
        yield from _drawn(node.below, before + ("   " if last else "│  "))


def _versions(found: dict[str, Any]) -> tuple[str, list[_Node]]:
    nodes = []
    for one in found["versions"]:
        until = "on" if one["through_generation"] is None else f"to {one['through_generation']}"
        what = "deleted" if one["tombstone"] else one["state"]
        text = f"revision {one['revision']}, generation {one['from_generation']} {until}, scope {one['scope']}: {what}"
        runs = [_leaf(f"run {run}") for run in one["origin_runs"]]
        nodes.append(_Node(visible(text), [*map(_source, one["sources"]), *runs]))
    return "versions", nodes


def _source(source: dict[str, Any]) -> _Node:
    detail = f" ({source['detail']})" if source["detail"] else ""
    status = "withdrawn" if source.get("retracted") else source["status"]
    return _leaf(f"{source['locator']}: {status}{detail}")


def _candidates(found: dict[str, Any]) -> tuple[str, list[_Node]]:
    nodes = []
    for one in found["candidates"] or ():
        what = "mark" if one["mark"] else one["op"]
        text = f"{one['candidate_id']} in {one['job']}: {what} by {one['author']}, {one['state']}"
        reviews = [
            _leaf(f"{entry['reviewer']}: {entry['action']}, {moment(entry['at'])} {entry['reason']}".rstrip())
            for entry in one["reviews"]
        ]
        nodes.append(_Node(visible(text), reviews))
    return "candidates", nodes


def _derived(found: dict[str, Any]) -> tuple[str, list[_Node]]:
    """What was derived, each below the nearest thing that it cites."""
    below: dict[str, list[dict[str, Any]]] = {}
    known = {f"record:{one['key']}@{one['revision']}": one for one in found["items"]}
    for one in found["items"]:
        nearer = [text for text in one["cites"] if text in known and known[text]["steps"] < one["steps"]]
        below.setdefault(nearer[0] if one["steps"] > 1 and nearer else "", []).append(one)

    def nodes(of: str) -> list[_Node]:
        return [_Node(_version(one), nodes(f"record:{one['key']}@{one['revision']}")) for one in below.get(of, ())]

    return "derived", nodes("")


def _version(one: dict[str, Any]) -> str:
    when = "" if one["current"] else ", not current"
    return visible(f"{one['key']}  revision {one['revision']}, scope {one['scope']}: {one['state'] or 'pruned'}{when}")


def _citing(found: dict[str, Any]) -> tuple[str, list[_Node]]:
    return "cited by candidates", _leaves(
        f"{one['key']}: {one['candidate_id']} in {one['job']}, {one['state']}" for one in found["citing"] or ()
    )


def _branches(found: dict[str, Any]) -> tuple[str, list[_Node]]:
    def how(one: dict[str, Any]) -> str:
        return " and ".join(word for word in ("forked", "applied") if one[word])

    return "branches that have it", _leaves(
        f"{one['branch_id']} of {one['agent_id']}, {one['state']}: {how(one)}" for one in found["branches"] or ()
    )


def _leaves(texts: Iterable[str]) -> list[_Node]:
    return [_leaf(text) for text in texts]
