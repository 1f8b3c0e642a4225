"""One way to print results: ``-o table`` for people, ``-o json`` and ``-o yaml`` for programs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

import click

from anabranch.domain import wording

Decorated = TypeVar("Decorated", bound=Callable[..., Any])
Column: TypeAlias = str | Callable[[Any], Any]
"""What a table shows of an object: the member that a dotted path names, or what a function gives."""

as_yaml = wording.as_yaml
exact_json = wording.exact_json
visible = wording.visible


def output_option(function: Decorated) -> Decorated:
    """Add ``-o/--output`` to a command; it arrives as the keyword ``output``."""
    return click.option(
        "-o",
        "--output",
        type=click.Choice(["table", "json", "yaml"]),
        default="table",
        show_default=True,
        help="Form of the output.",
    )(function)


def show(value: Any, output: str, *, columns: Mapping[str, Column] | None = None) -> None:
    """Print a value.

    Args:
        value: An object, or a list of objects (as JSON has them).
        output: ``table``, ``json`` or ``yaml``.
        columns: By their headings, for ``table``; without them an object prints as YAML.
    """
    if output == "json":
        click.echo(exact_json(value, indent=2))
    elif output == "table" and columns is not None:
        rows = value if isinstance(value, list) else [value]
        click.echo(table(list(columns), [[cell(take(row, column)) for column in columns.values()] for row in rows]))
    else:
        click.echo(as_yaml(value, exact=True) if output == "yaml" else visible(as_yaml(value)), nl=False)


def hint(text: str) -> None:
    """Tell a person what to type next; scripts are not told."""
    if sys.stderr.isatty():
        click.echo(click.style(text, dim=True), err=True)


def table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns as kubectl prints them: upper-case headings, three spaces between."""
    if not rows:
        return "Nothing found."
    lines = [[heading.upper() for heading in headings], *rows]
    widths = [max(len(line[i]) for line in lines) for i in range(len(headings))]
    return "\n".join(
        "   ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip() for line in lines
    )


def take(row: Any, column: Column) -> Any:
    """What a column shows of an object; None where there is nothing."""
    if callable(column):
        return column(row)
    for name in column.split("."):
        row = row.get(name) if isinstance(row, Mapping) else None
    return row


def cell(value: Any) -> str:
    """A value as a table shows it: one line, nothing for null."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple | dict):
        return exact_json(value)
    return visible(" ".join(str(value).split("\n")))


def moment(text: str) -> str:
    """A time of the API as a table shows it: to the second."""
    return f"{text[:19]}Z"


def condition(kind: str) -> Callable[[Any], str | None]:
    """A column that shows whether a condition of a resource is true; its reason where it is not."""

    def look(resource: Any) -> str | None:
        for found in resource.get("status", {}).get("conditions", ()):
            if found["type"] == kind:
                return "yes" if found["status"] == "True" else f"no ({found['reason']})"
        return None

    return look
