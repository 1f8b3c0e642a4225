"""Runs hypothesis' state machines over a real database, each in an event loop of its own.

A machine is no coroutine, and the suite's loop does not run while it does; so it has its own, and opens its own pools
in it. Its workers run at the same time, and which of them comes first is not for hypothesis to say. Hence rules draw
plain numbers and never choose by what the database said: an example that is repeated draws the same again, whoever
wins.
"""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any, Final

from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

from anabranch.store.database import Database

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from typing import TypeVar

    T = TypeVar("T")

EXAMPLES: Final = os.environ.get("ANABRANCH_MACHINE_EXAMPLES")
"""How many examples each machine runs instead of the few that the suite has time for; then it also takes the minutes
that it needs to make short what it has found."""

TIMEOUT: Final = 300 if EXAMPLES is None else 900 + 30 * int(EXAMPLES)
"""Seconds until a machine is ended."""


_QUICK: Final = (Phase.explicit, Phase.reuse, Phase.generate)


class Machine(RuleBasedStateMachine):
    """A machine with a loop in which its rules run their coroutines."""

    def __init__(self, runner: asyncio.Runner) -> None:
        super().__init__()
        self._runner = runner

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(work)


def explore(machine: Callable[..., Machine], *dsns: str, examples: int, steps: int) -> None:
    """Run a machine over databases, which are opened once.

    Args:
        machine: Makes a machine of a runner and of one opened `Database` for each DSN.
        dsns: Where.
        examples: How many sequences of steps, unless `EXAMPLES` says otherwise.
        steps: How long each is at most.
    """
    with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
        pools = [runner.run(Database.open(dsn, application_name=f"machine {n}")) for n, dsn in enumerate(dsns)]
        try:
            run_state_machine_as_test(
                lambda: machine(runner, *pools),
                settings=settings(
                    max_examples=examples if EXAMPLES is None else int(EXAMPLES),
                    stateful_step_count=steps,
                    deadline=None,
                    derandomize=False,
                    phases=[phase for phase in Phase if EXAMPLES is not None or phase in _QUICK],
                    print_blob=True,
                    suppress_health_check=list(HealthCheck),
                ),
            )
        finally:
            for pool in pools:
                runner.run(pool.close())
