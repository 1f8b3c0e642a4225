"""The sizing page promises no more than the last runs of the benchmarks have shown."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from benchmarks import report

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/sizing.md").read_text(encoding="utf-8")
MEASURED = [one.row for one in report.load()]
PROMISE = re.compile(r"[|(] ?([^|(]+?(?: \\\| [^|(]+?)?):\s+`(\w+) ([≤≥]) ([\d.,]+)`")
PROMISES = [match.groups() for match in PROMISE.finditer(PAGE)]


def number(text):
    return float(text.replace(",", ""))


def test_every_promise_of_the_page_is_read():
    assert len(PROMISES) == len(re.findall(r"[≤≥]", PAGE)) > 15


@pytest.mark.parametrize(("work", "figure", "bound", "least_or_most"), PROMISES)
def test_no_promise_is_more_than_what_was_measured(work, figure, bound, least_or_most):
    begins = " ".join(work.split()).replace("\\|", "|")
    rows = [row for row in MEASURED if f"{row.work} | {row.peer}".startswith(begins)]
    found = [row.figures[figure] for row in rows if figure in row.figures]
    assert found, f"no row that begins with {begins!r} has {figure}"
    for value in found:
        assert value >= number(least_or_most) if bound == "≥" else value <= number(least_or_most)
