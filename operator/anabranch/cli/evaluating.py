"""``anabranch quality evaluate`` and ``make-set``: the recall of a Baseline over a set of questions."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from anabranch.cli.calls import call
from anabranch.cli.completion import names
from anabranch.cli.connection import Connection, connection_options
from anabranch.cli.output import hint, output_option, show, table, visible
from anabranch.model.limits import RECALL_DEPTH

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from anabranch.client import AnabranchClient
    from anabranch.domain.evaluation_set import Statement
    from anabranch.model.found import SearchMode
    from anabranch.model.recall import RecallTask

BUILT_IN: Final = "built-in"

_MODES: Final = click.Choice(["words", "hybrid"])

LISTED: Final = 20
"""Ids of tasks that a person is shown; `-o json` has all."""


@click.command("evaluate")
@click.argument("file", required=False, metavar="[FILE.jsonl]", type=click.Path(path_type=Path))
@click.option("--set", "named", type=click.Choice([BUILT_IN]), help="Instead of a file: the project's own set.")
@click.option("--baseline", required=True, metavar="NAME", shell_complete=names("baselines"), help="What is asked.")
@click.option("--generation", metavar="G", default="current", show_default=True, help="Of the Baseline.")
@click.option("--against", metavar="G", help="An earlier generation: tell the change from it.")
@click.option("--mode", type=_MODES, help="How to search.  [default: as the API is set up]")
@click.option("--against-mode", type=_MODES, help="Another way: tell the change from it, or of both from --against.")
@click.option("-k", "k", type=click.IntRange(1, RECALL_DEPTH), default=10, show_default=True, help="Hits that count.")
@click.option("--floor", type=click.FloatRange(0, 1), metavar="R", help="Exit with 1 if recall at k is lower.")
@output_option
@connection_options
def evaluate(
    *,
    file: Path | None,
    named: str | None,
    baseline: str,
    generation: str,
    against: str | None,
    mode: SearchMode | None,
    against_mode: SearchMode | None,
    k: int,
    floor: float | None,
    output: str,
    connection: Connection,
) -> None:
    """Ask a Baseline an evaluation set, as the token's owner, and tell how much of it is found.

    A set is JSON Lines, a task a line: id, query, answers (keys), and perhaps kind, says, absent.
    """
    if (file is None) == (named is None):
        raise click.UsageError("Give a file, or --set.")
    tasks = read(file)

    async def ask(client: AnabranchClient, namespace: str) -> dict[str, Any]:
        from anabranch.client.evaluation import evaluate as asked  # noqa: PLC0415  (httpx and pydantic)
        from anabranch.domain import recall  # noqa: PLC0415

        later = await asked(client, namespace, baseline, tasks=tasks, ref=generation, mode=mode, k=k)
        told = recall.report(later.outcomes, k=k)
        found: dict[str, Any] = {"generation": later.manifest.generation, "complete": later.complete, **asdict(told)}
        missed = [one.task.id for one in later.outcomes if one.task.counts and one.recall(k) < 1]
        found |= {"against": None, "against_mode": against_mode, "change": None, "missed": missed}
        if against is not None or against_mode is not None:
            ref, way = against or later.manifest.generation, against_mode or mode
            earlier = await asked(client, namespace, baseline, tasks=tasks, ref=ref, mode=way, k=k)
            change = recall.change(earlier.outcomes, later.outcomes, k=k)
            found |= {"against": earlier.manifest.generation, "change": None if change is None else asdict(change)}
            found["complete"] &= earlier.complete
        return found

    found = call(connection, ask)
    if output == "table":
        for line in report(found):
            click.echo(line)
    else:
        show(found, output)
    if not found["complete"]:
        click.echo("Not everything was looked at: the index is being made. Ask again in a moment.", err=True)
    if floor is not None and (found["all"] is None or found["all"]["recall"] < floor):
        raise click.exceptions.Exit(1)


@click.command("make-set")
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@click.option(
    "--services", type=click.IntRange(5, 150), help="How many it is about.  [default: as in `--set built-in`]"
)
@click.option("--seed", type=int, help="Of all chance in it.  [default: as in `--set built-in`]")
def make_set(*, folder: Path, services: int | None, seed: int | None) -> None:
    """Write down the project's own evaluation set: FOLDER/tasks.jsonl, and the memory that it is about.

    FOLDER/before is a directory to import; FOLDER/after is the same as it is once all that was found out is accepted.
    """
    from anabranch.domain import evaluation_set  # noqa: PLC0415  (pydantic, for this command alone)

    made = evaluation_set.make(
        seed=evaluation_set.SEED if seed is None else seed, services=services or evaluation_set.SERVICES
    )
    _write(folder / "before" / "services.jsonl", map(_as_record, made.records))
    _write(folder / "after" / "services.jsonl", map(_as_record, made.afterwards()))
    _write(folder / "tasks.jsonl", (task.model_dump(mode="json", exclude_defaults=True) for task in made.tasks))
    click.echo(f"{len(made.records)} records, {len(made.findings)} findings, {len(made.tasks)} tasks in {folder}")
    hint(f"Next: anabranch import {folder / 'before'} --baseline NAME")


def read(file: Path | None) -> list[RecallTask]:
    """The tasks of a file, or of the project's own set.

    Raises:
        InvalidInputError: If the file is no set.
    """
    from anabranch.domain import evaluation_set, recall  # noqa: PLC0415  (pydantic)

    if file is None:
        return evaluation_set.make().tasks
    return recall.parse(file.read_bytes(), name=file.name)


def report(found: dict[str, Any]) -> Iterator[str]:
    """What a person reads of an evaluation, in its JSON form."""
    k = found["k"]
    parts = [*found["kinds"].items(), *([("all", found["all"])] if found["all"] else [])]
    yield f"Generation {found['generation']}"
    yield table(["kind", "tasks", f"recall@{k}", "recall@1", "mrr"], [_row(name, part) for name, part in parts])
    if (abstention := found["abstention"]) is not None:
        text = f"abstention: {abstention['tasks']} tasks, nothing found for {abstention['silent']:.0%}"
        if abstention["separation"] is not None:
            text += f", the best score separates them by {abstention['separation']:.2f} (0.5: not at all)"
        yield text
    if (change := found["change"]) is not None:
        yield (
            f"change from {_what(found)}: {change['mean']:+.3f} "
            f"(95 % interval {change['low']:+.3f} to {change['high']:+.3f})"
        )
        yield from listed("worse", change["worse"])
        yield from listed("better", change["better"])
    else:
        yield from listed("missed", found["missed"])


def _what(found: dict[str, Any]) -> str:
    way = f" by {found['against_mode']}" if found["against_mode"] else ""
    return f"generation {found['against']}{way}"


def _row(name: str, part: dict[str, Any]) -> list[str]:
    mrr = "" if part["mrr"] is None else f"{part['mrr']:.3f}"
    return [visible(name), str(part["tasks"]), f"{part['recall']:.3f}", f"{part['recall_at_1']:.3f}", mrr]


def listed(what: str, tasks: Sequence[str]) -> Iterator[str]:
    """A line that names the first of some tasks; none if there are none."""
    if tasks:
        more = f", and {len(tasks) - LISTED} more" if len(tasks) > LISTED else ""
        yield f"{what}: {', '.join(map(visible, tasks[:LISTED]))}{more}"


def _as_record(record: Statement) -> dict[str, str]:
    return {"key": record.key, "content": record.text}


def _write(file: Path, lines: Iterable[dict[str, Any]]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("w", encoding="utf-8") as opened:
        opened.writelines(f"{json.dumps(line, ensure_ascii=False)}\n" for line in lines)
