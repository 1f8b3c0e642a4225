"""``anabranch feed``: what is published, as it comes, for people who watch and for programs that read lines."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Final

import click

from anabranch.cli.calls import as_json, call
from anabranch.cli.completion import names
from anabranch.cli.connection import Connection, connection_options
from anabranch.cli.output import as_yaml, cell, exact_json, moment, output_option

if TYPE_CHECKING:
    from collections.abc import Callable

    from anabranch.client import AnabranchClient
    from anabranch.client.follow import Followed

HEADINGS: Final = f"{'AT':<20}  {'EVENT':<10}  {'GENERATION':>10}  {'REVISION':>8}  {'SCOPE':<16}  KEY"


@click.group()
def command() -> None:
    """Follow what is published."""


@command.command(short_help="Print the events of a Baseline's feed, and wait for those to come.")
@click.argument("name", shell_complete=names("baselines"))
@click.option("--after", metavar="CURSOR", help="Begin behind this cursor, as JSON and YAML output show it.")
@click.option("--generation", metavar="G", help="Begin behind all that this generation includes.")
@click.option("--all", "everything", is_flag=True, help="Begin with the oldest event that is kept.")
@click.option("--count", type=click.IntRange(min=1), metavar="N", help="End after so many events.")
@click.option("--poll", is_flag=True, help="Poll instead of streaming; done by itself where no stream comes through.")
@output_option
@connection_options
def follow(
    name: str,
    output: str,
    connection: Connection,
    *,
    after: str | None,
    generation: str | None,
    count: int | None,
    everything: bool,
    poll: bool,
) -> None:
    """Print the events of a Baseline's feed in the order in which they happened, and wait for those to come.

    It begins with what comes from now on, unless told otherwise, and ends when it is interrupted or may not follow any
    more. Where the connection breaks it goes on after the last event.
    """
    if sum((after is not None, generation is not None, everything)) > 1:
        raise click.UsageError("--after, --generation and --all each say where to begin: give one.")
    if not everything and after is None and generation is None:
        generation = "head"
    tell = TELLERS[output]

    async def ask(client: AnabranchClient, namespace: str) -> None:
        left = count
        following = client.follow(namespace, name, after=after, generation=generation, poll=poll)
        async with contextlib.aclosing(following) as items:
            async for item in items:
                if item.event is None:
                    continue
                tell(item)
                left = None if left is None else left - 1
                if left == 0:
                    return

    if output == "table":
        click.echo(HEADINGS)
    call(connection, ask)


def line(event: dict[str, Any]) -> str:
    """An event for people."""
    shown = {name: cell(event[name]) for name in ("kind", "generation", "revision", "scope", "key")}
    return (
        f"{moment(event['created_at']):<20}  {shown['kind']:<10}  {shown['generation']:>10}  {shown['revision']:>8}  "
        f"{shown['scope']:<16}  {shown['key']}"
    ).rstrip()


def _tell_line(item: Followed) -> None:
    click.echo(line(as_json(item.event)))


def _tell_json(item: Followed) -> None:
    click.echo(exact_json(_told(item)))


def _tell_yaml(item: Followed) -> None:
    click.echo("---\n" + as_yaml(_told(item), exact=True), nl=False)


def _told(item: Followed) -> dict[str, Any]:
    return {"cursor": item.cursor, "event": as_json(item.event)}


TELLERS: Final[dict[str, Callable[[Followed], None]]] = {
    "table": _tell_line,
    "json": _tell_json,
    "yaml": _tell_yaml,
}
"""How an event is printed; JSON one a line, YAML one a document."""
