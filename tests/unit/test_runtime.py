"""What a long-running process does with Python's collector."""

from __future__ import annotations

import json
import subprocess
import sys

PROGRAM = """
import gc, json
class Cycle: pass
gc.disable()
before = Cycle(); before.own = before; del before
from anabranch.runtime import settle
settle()
frozen = gc.get_freeze_count()
after = Cycle(); after.own = after; del after
left = sum(type(each) is Cycle for each in gc.get_objects())
gc.enable(); gc.collect()
print(json.dumps([frozen > 1_000, left, sum(type(each) is Cycle for each in gc.get_objects()), gc.get_threshold()]))
"""


def test_what_is_loaded_is_frozen_without_its_garbage_and_later_garbage_is_found():
    done = subprocess.run([sys.executable, "-c", PROGRAM], check=True, capture_output=True, text=True)
    assert json.loads(done.stdout) == [True, 1, 0, [10_000, 10, 10]]
