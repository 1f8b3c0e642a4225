"""The statement that forks, as pgbench runs it: what it is not given a value for would be null, or fail."""

from __future__ import annotations

import re

from benchmarks import forking


def test_each_parameter_of_the_statement_has_a_value():
    asked = set(re.findall(r"(?<!:):([a-z_]+)", forking.statement()))
    assert "run_id" in asked
    assert asked <= {*forking.SETTINGS, "line", "number"}
