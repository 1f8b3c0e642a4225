"""The tables of docs/security.md: what each role may do, to be compared with what it may, and which tests show what."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

PAGE = Path(__file__).parents[2] / "docs/security.md"

_TEST = re.compile(r"\[`(test_[a-z0-9_]+)`\]\(\.\./(tests/[a-z0-9_/]+\.py)\)")


def told(heading: str) -> list[str]:
    """The rows of the first table below a heading of the page."""
    _, _, rest = PAGE.read_text(encoding="utf-8").partition(f"\n## {heading}\n")
    assert rest, f"the page has no section {heading!r}"
    lines = rest.split("\n## ")[0].splitlines()
    begin = next(number for number, line in enumerate(lines) if line.startswith("| ---")) + 1
    end = next((number for number in range(begin, len(lines)) if not lines[number].startswith("|")), len(lines))
    return lines[begin:end]


def shown_by() -> set[tuple[str, str]]:
    """The tests that the page names, each by its file and its name."""
    return {(path, name) for name, path in _TEST.findall(PAGE.read_text(encoding="utf-8"))}


def of_roles(roles: Iterable[Mapping]) -> Iterator[str]:
    """What Kubernetes roles may do, as rows: a role's name stands in its first."""
    for role in roles:
        name = f"`{role['metadata']['name']}`"
        if role["kind"] == "Role":
            name += ", in its own namespace"
        for rule in role["rules"]:
            (group,) = rule["apiGroups"]
            resources = ", ".join(f"`{resource}`" for resource in rule["resources"])
            if group != "anabranch.dev":
                resources += f" of `{group}`" if group else " of the core"
            if "resourceNames" in rule:
                resources += ", only " + ", ".join(f"`{each}`" for each in rule["resourceNames"])
            yield f"| {name} | {resources} | {', '.join(rule['verbs'])} |"
            name = ""


def of_tables(rights: Mapping[str, tuple[str, ...]]) -> Iterator[str]:
    """What database roles may do with each table, as rows: tables with the same rights share one."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for table in sorted(rights):
        groups.setdefault(rights[table], []).append(table)
    for each, tables in sorted(groups.items(), key=lambda group: group[1]):
        yield f"| {', '.join(f'`{table}`' for table in tables)} | {' | '.join(each)} |"
