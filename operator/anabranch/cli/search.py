"""``anabranch search``: the records that answer some words best, with the words marked where they stand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from anabranch.cli.calls import as_json, call
from anabranch.cli.completion import names
from anabranch.cli.connection import Connection, connection_options
from anabranch.cli.output import output_option, show, visible
from anabranch.model.limits import SEARCH_PAGE_DEFAULT, SEARCH_PAGE_MAX

if TYPE_CHECKING:
    from collections.abc import Iterator

    from anabranch.client import AnabranchClient
    from anabranch.model.found import SearchMode

_WORDS_ALONE: Final = {"off": "this installation has no embedder", "unavailable": "the embedder does not answer"}


@click.command()
@click.argument("words", nargs=-1, required=True)
@click.option("--baseline", metavar="NAME", shell_complete=names("baselines"), help="Where to search,")
@click.option("--branch", metavar="NAME", shell_complete=names("branches"), help="or the branch of your own.")
@click.option("--generation", metavar="G", help="Of the Baseline.  [default: the current one]")
@click.option(
    "--mode", type=click.Choice(["words", "hybrid"]), help="hybrid: by meaning, too.  [default: as the API is set up]"
)
@click.option(
    "--limit", type=click.IntRange(1, SEARCH_PAGE_MAX), default=SEARCH_PAGE_DEFAULT, show_default=True, help="Hits."
)
@output_option
@connection_options
def command(
    *,
    words: tuple[str, ...],
    baseline: str | None,
    branch: str | None,
    generation: str | None,
    mode: SearchMode | None,
    limit: int,
    output: str,
    connection: Connection,
) -> None:
    """Search a Baseline as of a generation, or what a branch of your own sees.

    Records that have any of the words are found; those come first that have rare ones, often, in few words. A hybrid
    search also finds records that say much the same in other words, where the installation has an embedder.
    """
    if (baseline is None) == (branch is None):
        raise click.UsageError("Give --baseline or --branch.")
    if branch is not None and generation is not None:
        raise click.UsageError("A branch has its generation: leave --generation out.")
    text = " ".join(words)

    async def ask(client: AnabranchClient, namespace: str) -> Any:
        if branch is not None:
            return as_json(await client.search_branch(namespace, branch, text, mode=mode, limit=limit))
        found = await client.search(
            namespace, baseline or "", text, ref=generation or "current", mode=mode, limit=limit
        )
        return as_json(found)

    page = call(connection, ask)
    if output != "table":
        show(page, output)
        return
    for line in report(page):
        click.echo(line)
    if mode == "hybrid" and page["mode"] == "words":
        click.echo(f"Searched by words alone: {_WORDS_ALONE.get(page['words_alone'], 'an older API')}.", err=True)
    if page["without_vector"]:
        click.echo(
            f"{page['without_vector']} records have no vector yet, and were looked at for their words.", err=True
        )
    if not page["complete"]:
        through = page["indexed_through"]
        click.echo(f"Not everything was looked at: the index has come to generation {through}.", err=True)


def report(page: dict[str, Any]) -> Iterator[str]:
    """What a person reads of a page: each hit with its place, its source and the piece that was found."""
    if not page["items"]:
        yield f"Nothing found in generation {page['manifest']['generation']}."
    for number, hit in enumerate(page["items"]):
        if number:
            yield ""
        layer = "  private" if hit["layer"] == "private" else ""
        layer += "  by meaning" if hit["found_by"] == ["meaning"] else ""
        key = click.style(visible(hit["key"]), bold=True)
        yield f"{hit['score']:7.2f}  {key}  revision {hit['revision']}  scope {hit['scope']}{layer}"
        yield f"         {marked(hit['snippet'])}"
        yield from (f"         source {visible(locator)}" for locator in hit["source_locators"][:1])


def marked(snippet: dict[str, Any]) -> str:
    """A snippet on one line, the words that were searched for in bold."""
    text, done, parts = snippet["text"], 0, []
    for begin, end in snippet["matches"]:
        parts += [_plain(text[done:begin]), click.style(_plain(text[begin:end]), bold=True, underline=True)]
        done = end
    return "".join([*parts, _plain(text[done:])])


def _plain(text: str) -> str:
    return visible(text.replace("\r\n", " ").replace("\n", " ").replace("\t", " "))
