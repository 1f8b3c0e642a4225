"""The page of the rules of review: each rule names the test that fails when it does not hold."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/spec/review.md").read_text()
TESTS = "".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))


def test_each_rule_names_a_test_that_there_is():
    named = re.findall(r"`(test_\w+)`", PAGE)
    rows = [line for line in PAGE.splitlines() if line.startswith("|") and "---" not in line]
    rules = [line for line in rows if not line.endswith("| test |")]

    assert rules
    assert [line for line in rules if "`test_" not in line] == []
    assert [name for name in named if f"def {name}(" not in TESTS] == []
