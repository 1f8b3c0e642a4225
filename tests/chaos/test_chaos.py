"""Faults without end, from a seed: whatever is killed, cut off, delayed or filled up, what was promised holds.

``CHAOS_FAULTS`` says how many faults, ``CHAOS_SEED`` with which seed, ``CHAOS_ONLY`` which kinds. They strike in
episodes, each in a town of its own and with a seed of its own, which is told when it begins: a failure is looked into
with that seed and no more faults than an episode has. docs/chaos.md says how.
"""

from __future__ import annotations

import os
import secrets
from collections import Counter
from pathlib import Path

import pytest
from tests.chaos.episode import Episode
from tests.chaos.faults import FAULTS

MANY = int(os.environ.get("CHAOS_FAULTS", "240"))
SEED = os.environ.get("CHAOS_SEED") or secrets.token_hex(4)
ONLY = os.environ.get("CHAOS_ONLY", "")
EPISODE = 250
"""Faults of an episode: its history is short enough to be read, and what it does to Postgres has not gone stale."""

FOLDER = Path("artifacts/chaos")
SECONDS = 6.0
"""For one fault, as an upper bound of any machine; besides what an episode needs to begin and to come to rest."""


def episodes():
    """Seeds, and how many faults of each: the first one has the seed that was given."""
    numbers = range((MANY + EPISODE - 1) // EPISODE)
    return [(SEED if not n else f"{SEED}.{n}", min(EPISODE, MANY - n * EPISODE)) for n in numbers]


@pytest.mark.timeout(1200 + SECONDS * MANY)
async def test_what_was_promised_holds_whatever_fails(stage, request):
    say = request.config.get_terminal_writer().line
    faults = [fault for fault in FAULTS if not ONLY or any(name in fault.name for name in ONLY.split(","))]
    await stage.run_code(None)  # other tests have had them run what is wrong
    total, wrong = Counter(), {}
    for seed, many in episodes():
        say(f"\nseed {seed}: {many} faults")
        report = await Episode(stage, seed=seed, folder=FOLDER, faults=faults).run(many)
        say(f"{report}\n  starts of processes until now: {stage.starts}")
        total += report.faults
        if report.wrong:
            wrong[seed] = report.wrong
    say(f"\n{total.total()} faults, of {len(total)} kinds")
    assert not wrong, f"with CHAOS_SEED={next(iter(wrong))}: {wrong}"
    assert total.total() == MANY
