"""``anabranch baseline diff``: what differs between two generations, with the content of both where a person looks."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import click

from anabranch.cli import contents
from anabranch.cli.calls import as_json, call
from anabranch.cli.completion import names
from anabranch.cli.connection import Connection, connection_options
from anabranch.cli.output import output_option, show, visible
from anabranch.model.errors import NotFoundError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from anabranch.client import AnabranchClient
    from anabranch.model.objects import BaselineManifest, PublishedFact

AT_ONCE: Final = 8
"""Records that are asked for at the same time."""

ADDED, CHANGED, DELETED = "added", "changed", "deleted"
SIGNS: Final = {ADDED: ("+", "green"), CHANGED: ("~", "yellow"), DELETED: ("-", "red")}


@dataclass(frozen=True)
class Difference:
    """A key that differs, in full.

    Attributes:
        entry: As the API's JSON has it: `key`, `before` and `after`.
        before: The record as it was; None: absent, deleted, or not asked for.
        after: The record as it is; likewise.
    """

    entry: dict[str, Any]
    before: PublishedFact | None = None
    after: PublishedFact | None = None

    @property
    def kind(self) -> str:
        """Whether the key was added, changed or deleted, for readers."""
        was, now = _live(self.entry["before"]), _live(self.entry["after"])
        return CHANGED if was == now else ADDED if now else DELETED


@click.command()
@click.argument("name", shell_complete=names("baselines"))
@click.option("--from", "older", metavar="G", help="Generation.  [default: the one before --to]")
@click.option("--to", "newer", metavar="G", default="current", show_default=True, help="Generation.")
@click.option(
    "--limit", type=click.IntRange(min=0), default=20, show_default=True, help="Records shown in full; others by key."
)
@output_option
@connection_options
def diff(*, name: str, older: str | None, newer: str, limit: int, output: str, connection: Connection) -> None:
    """Show what differs between two generations: by itself, what the newest publication changed.

    A generation is a number, `current`, `head` or a baseline id. As JSON and YAML the changes come without their
    content: revisions and hashes of both sides.
    """

    async def ask(client: AnabranchClient, namespace: str) -> tuple[list[BaselineManifest], list[Difference]]:
        after = await client.manifest(namespace, name, newer)
        before = await client.manifest(namespace, name, older or _parent(after))
        pages = client.diff(namespace, name, from_generation=before.generation, to_generation=after.generation)
        found = [Difference(as_json(entry)) async for entry in pages]
        if output == "table":
            found[:limit] = await _read(client, namespace, name, (before, after), found[:limit])
        return [before, after], found

    (before, after), found = call(connection, ask)
    if output == "table":
        place = f"{connection.namespace}/{name}"
        for line in report(f"{place}: generation {before.generation} to {after.generation}", found, limit=limit):
            click.echo(line)
    else:
        changes = [difference.entry for difference in found]
        show({"from": before.generation, "to": after.generation, "changes": changes}, output)


def report(title: str, found: list[Difference], *, limit: int) -> Iterator[str]:
    """What a person reads: how many keys differ, the first ones in full, the others by key."""
    counts = {kind: sum(difference.kind == kind for difference in found) for kind in SIGNS}
    told = ", ".join(f"{count} {kind}" for kind, count in counts.items() if count)
    yield f"{title}: {told or 'no difference'}"
    for place, difference in enumerate(found):
        sign, colour = SIGNS[difference.kind]
        if place < limit:
            yield ""
        key = click.style(visible(difference.entry["key"]), bold=True)
        yield f"{click.style(sign, fg=colour)} {key}  {_moved(difference)}"
        if place < limit:
            yield from (f"    {line}" for line in contents.diff(_lines(difference.before), _lines(difference.after)))


def _parent(manifest: BaselineManifest) -> int:
    if manifest.parent_generation == 0:
        raise NotFoundError(
            f"There is no generation before {manifest.generation}.",
            hint="It was imported; name others by --from, --to.",
        )
    return manifest.parent_generation


async def _read(
    client: AnabranchClient,
    namespace: str,
    name: str,
    manifests: tuple[BaselineManifest, BaselineManifest],
    found: list[Difference],
) -> list[Difference]:
    """The same differences, with both records."""
    turns = asyncio.Semaphore(AT_ONCE)

    async def read(manifest: BaselineManifest, descriptor: dict[str, Any] | None) -> PublishedFact | None:
        if descriptor is None or not _live(descriptor):
            return None
        async with turns:
            return await client.record(namespace, name, descriptor["key"], ref=manifest.generation)

    async def both(difference: Difference) -> Difference:
        entry, (older, newer) = difference.entry, manifests
        before, after = await asyncio.gather(read(older, entry["before"]), read(newer, entry["after"]))
        return Difference(entry, before, after)

    return await asyncio.gather(*map(both, found))


def _live(descriptor: dict[str, Any] | None) -> bool:
    return descriptor is not None and not descriptor["tombstone"]


def _lines(fact: PublishedFact | None) -> list[str]:
    if fact is None:
        return []
    withdrawn = fact.retracted_sources
    return contents.lines_of(
        fact.content, [f"{text} (withdrawn)" if text in withdrawn else text for text in fact.source_locators]
    )


def _moved(difference: Difference) -> str:
    """From which revision to which, and in which scope."""
    sides = [side for side in (difference.entry["before"], difference.entry["after"]) if side is not None]
    return "  ".join(
        f"{what} {' to '.join(dict.fromkeys(side[what] for side in sides))}" for what in ("revision", "scope")
    )
