"""docs/chaos.md names whatever strikes, whatever is judged, and whatever was planted."""

from __future__ import annotations

from pathlib import Path

from tests.chaos.faults import FAULTS
from tests.chaos.judging import RULES
from tests.chaos.plants import BUGS
from tests.cluster.test_operator_killed import POINTS

PAGE = (Path(__file__).parents[2] / "docs/chaos.md").read_text()


def test_every_fault_and_every_rule_is_named():
    named = [f"`{fault.name}`" for fault in FAULTS] + [f"`{rule.__name__}`" for rule in RULES]
    assert [name for name in named if name not in PAGE] == []
    assert f"one of {len(POINTS)} named" in PAGE


def test_every_bug_is_named():
    assert [bug.name for bug in BUGS if f"\n- {bug.name}\n" not in PAGE] == []
    assert PAGE.count("\n- ") >= len(BUGS) == 10


def test_restarts_of_the_control_plane_are_few():
    weights = {fault.name: fault.weight for fault in FAULTS}
    slow = sum(weight for name, weight in weights.items() if name in ("kube-apiserver killed", "etcd killed"))
    assert slow / sum(weights.values()) <= 0.02
