"""Faults of operators and replicas of the API, of their clocks, and of the leadership among operators."""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import TYPE_CHECKING, Final

from tests.chaos import clocks
from tests.chaos.stage import PROCESSES

from anabranch.devcluster.errors import DevclusterError
from anabranch.manifests import LEASE

if TYPE_CHECKING:
    import random

    from tests.chaos.fault import Inject
    from tests.chaos.stage import Stage

JUMPS: Final = (-86_400.0, -5_400.0, -30.0, 30.0, 5_400.0, 86_400.0)
"""Seconds, about which a clock goes wrong."""

NOBODY: Final = "nobody"
"""Who is given a Lease that is taken from its holder."""


def kill(names: tuple[str, ...]) -> Inject:
    async def inject(stage: Stage, chance: random.Random) -> str | None:
        name = chance.choice(names)
        if not stage.process(name):
            return None
        await asyncio.to_thread(stage.stack.kill, name)
        return name

    return inject


async def end(stage: Stage, chance: random.Random) -> str | None:
    """Tell a process to end, as an upgrade does."""
    name = chance.choice(PROCESSES)
    if not stage.process(name) or name in stage.paused:
        return None
    await asyncio.to_thread(stage.stack.stop, name)
    return name


def pause(names: tuple[str, ...], longest: float) -> Inject:
    """Stop a process and let it go on: for it the clock has jumped, and the world has gone on without it."""

    async def inject(stage: Stage, chance: random.Random) -> str | None:
        name = chance.choice(names)
        if not stage.process(name):
            return None
        stage.pause(name)
        seconds = chance.uniform(0.5, longest)
        await asyncio.sleep(seconds)
        stage.resume(name)
        return f"{name} for {seconds:.1f} s"

    return inject


async def jump(stage: Stage, chance: random.Random) -> str | None:
    """Let the clock of a process be wrong for a while; both its going and its coming back are jumps."""
    name = chance.choice(PROCESSES)
    ahead = int(chance.choice(JUMPS) * chance.uniform(0.5, 2))
    seconds = chance.uniform(0.5, 8)
    if not stage.clocks or not stage.process(name):
        return None
    clocks.put(stage.stack.folder, name, ahead)
    try:
        await asyncio.sleep(seconds)
    finally:
        clocks.put(stage.stack.folder, name, 0)
    return f"{name} by {ahead} s for {seconds:.1f} s"


async def take_lease(stage: Stage, _chance: random.Random) -> str | None:
    """Give the leadership to somebody who is not there: whoever had it may believe for a moment that it leads.

    A Lease that is merely deleted stays its holder's.
    """
    patch = json.dumps({"spec": {"holderIdentity": NOBODY, "leaseDurationSeconds": 2}})
    arguments = ("patch", "lease", LEASE, f"--namespace={stage.stack.namespace}", "--type=merge", f"--patch={patch}")
    with contextlib.suppress(DevclusterError):
        await asyncio.to_thread(stage.stack.cluster.kubectl, *arguments, timeout=10)
        return LEASE
    return None
