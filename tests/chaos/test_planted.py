"""The judge against bugs that are really there: each is planted in what the processes run, and each must be found.

Two at a time, one of the API and one of the operator, which different rules have to find: starting the processes anew
takes longer than all the rest.
"""

from __future__ import annotations

import pytest
from tests.chaos import plants
from tests.chaos.episode import Episode
from tests.chaos.faults import FAULTS
from tests.chaos.stage import APIS, OPERATORS, PROCESSES
from tests.pace import allowed

BATCHES = 30
"""So many are handed in with two bugs,"""

MANY = 40
"""and there are so many faults, where it takes some to show."""

PAIRS = list(
    zip(
        [bug for bug in plants.BUGS if bug.where == APIS],
        [bug for bug in plants.BUGS if bug.where == OPERATORS],
        strict=True,
    )
)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: "; ".join(bug.name for bug in pair))
async def test_bugs_that_are_planted_are_found(stage, tmp_path, pair):
    code = plants.copy(tmp_path / "code")
    for bug in pair:
        bug.plant(code)
    await stage.run_code(code, *PROCESSES)
    needed = [name for bug in pair for name in bug.faults]
    faults = [fault for fault in FAULTS if any(name in fault.name for name in needed)]
    episode = Episode(stage, seed="planted", folder=tmp_path, faults=faults, patience=allowed(15))
    report = await episode.run(MANY if faults else 0, batches=BATCHES)
    assert [bug.name for bug in pair if bug.rule not in report.wrong] == [], report
