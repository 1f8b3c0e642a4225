"""One clock decides, Postgres' own: machines whose clocks differ must agree about leases, retention and ages."""

import ast
from pathlib import Path

import pytest

import anabranch

ROOT = Path(anabranch.__file__).parent
DECIDING = ("api", "baselines", "branches", "consolidation", "domain", "feed", "model", "store")
WALL_CLOCKS = {("datetime", "now"), ("datetime", "utcnow"), ("date", "today"), ("time", "time"), ("time", "time_ns")}


def wall_clocks(source: str) -> list[int]:
    """Lines that look at this machine's wall clock."""
    return [
        node.lineno
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and (node.value.id, node.attr) in WALL_CLOCKS
    ]


@pytest.mark.parametrize("package", DECIDING)
def test_nothing_that_decides_looks_at_the_clock_of_its_machine(package):
    files = sorted((ROOT / package).rglob("*.py"))
    assert files
    assert {str(file): found for file in files if (found := wall_clocks(file.read_text()))} == {}


def test_a_look_at_the_clock_would_be_found():
    assert wall_clocks("from datetime import datetime\nnow = datetime.now()\n") == [2]
