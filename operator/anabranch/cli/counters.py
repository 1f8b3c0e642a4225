"""``anabranch quality show``: what can be counted of a Baseline, scope by scope, and how it came to that."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from anabranch.cli.calls import as_json, call
from anabranch.cli.completion import names
from anabranch.cli.connection import Connection, connection_options
from anabranch.cli.evaluating import listed
from anabranch.cli.output import moment, output_option, show, table, visible

if TYPE_CHECKING:
    from collections.abc import Iterator

    from anabranch.client import AnabranchClient

AGES = ("week", "month", "quarter", "year", "older", "undated")


@click.command("show")
@click.argument("baseline", shell_complete=names("baselines"))
@click.option("--generation", metavar="G", help="[default: the newest that is counted]")
@click.option("--history", type=click.IntRange(0, 100), default=5, show_default=True, help="Generations before it.")
@output_option
@connection_options
def show_(*, baseline: str, generation: str | None, history: int, output: str, connection: Connection) -> None:
    """Show what can be counted of a Baseline: how many records name a source, were verified, and are how old.

    If it has questions in `spec.recall`, also what its generations answer.
    """

    async def ask(client: AnabranchClient, namespace: str) -> Any:
        return as_json(await client.quality(namespace, baseline, ref=generation, history=history))

    found = call(connection, ask)
    if output != "table":
        show(found, output)
        return
    for line in report(found):
        click.echo(line)


def report(found: dict[str, Any]) -> Iterator[str]:
    """What a person reads of a Baseline's counters, in their JSON form."""
    generation = found["manifest"]["generation"]
    if found["total"] is None:
        yield f"Generation {generation} is not counted: ask again in half a minute."
    else:
        yield f"Generation {generation}"
        rows = [*((each["scope"], each, each["open_conflicts"]) for each in found["scopes"])]
        rows.append(("all scopes", found["total"], found["open_conflicts"]))
        headings = ["scope", "records", "sourced", "verified", "conflicts", *AGES]
        yield table(headings, [_row(name, counts, conflicts) for name, counts, conflicts in rows])
    yield f"Duplicates removed, ever: {found['duplicates_removed']}"
    answered = {each["generation"]: each for each in found["recall"]}
    if answered:
        yield from _answered(next(iter(answered.values())))
    if found["history"]:
        rows_before = [
            [
                str(each["generation"]),
                moment(each["published_at"]),
                str(each["records"]),
                *_shares(each),
                _recall(answered.get(each["generation"])),
            ]
            for each in found["history"]
        ]
        yield table(["generation", "published", "records", "sourced", "verified", "recall"], rows_before)


def _answered(newest: dict[str, Any]) -> Iterator[str]:
    """What the newest generation answers that was asked."""
    yield (
        f"Generation {newest['generation']}: {_recall(newest)} of {newest['tasks']} questions,"
        f" recall@1 {newest['recall_at_1']:.3f}"
    )
    if newest["change"] is not None:
        yield (
            f"change from generation {newest['against']}: {newest['change']:+.3f}"
            f" (95 % interval {newest['low']:+.3f} to {newest['high']:+.3f})"
        )
    yield from listed("worse", newest["worse"])


def _recall(told: dict[str, Any] | None) -> str:
    return "" if told is None else f"recall@{told['k']} {told['recall']:.3f}"


def _row(name: str, counts: dict[str, Any], conflicts: int) -> list[str]:
    ages = [str(counts["ages"][age]) for age in AGES]
    return [visible(name), str(counts["records"]), *_shares(counts), str(conflicts), *ages]


def _shares(counts: dict[str, Any]) -> list[str]:
    return [_share(counts["sourced"], counts["records"]), _share(counts["verified"], counts["records"])]


def _share(part: int | None, whole: int) -> str:
    if part is None:
        return ""
    return f"{part} ({part / whole:.0%})" if whole else "0"
