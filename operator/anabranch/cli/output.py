"""One way to print results: ``-o table`` for people, ``-o json`` and ``-o yaml`` for programs."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import click
import yaml

Decorated = TypeVar("Decorated", bound=Callable[..., Any])


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


def show(value: Any, output: str, *, columns: Mapping[str, str] | None = None) -> None:
    """Print a value.

    Args:
        value: An object, or a list of objects (as JSON has them).
        output: ``table``, ``json`` or ``yaml``.
        columns: Heading to member name (dots descend) for ``table``; without it an object prints as YAML.
    """
    if output == "json":
        click.echo(json.dumps(value, indent=2, ensure_ascii=False))
    elif output == "yaml":
        click.echo(yaml.safe_dump(value, sort_keys=False, allow_unicode=True), nl=False)
    elif columns is not None:
        rows = value if isinstance(value, list) else [value]
        click.echo(table(list(columns), [[cell(dig(row, path)) for path in columns.values()] for row in rows]))
    else:
        click.echo(yaml.safe_dump(value, sort_keys=False, allow_unicode=True), nl=False)


def table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns as kubectl prints them: upper-case headings, three spaces between."""
    if not rows:
        return "Nothing found."
    lines = [[heading.upper() for heading in headings], *rows]
    widths = [max(len(line[i]) for line in lines) for i in range(len(headings))]
    return "\n".join(
        "   ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip() for line in lines
    )


def dig(value: Any, path: str) -> Any:
    """The member that a dotted path names; None where there is none."""
    for name in path.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def cell(value: Any) -> str:
    """A value as a table shows it: one line, nothing for null."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple | dict):
        return json.dumps(value, ensure_ascii=False)
    return str(value).replace("\n", " ")
