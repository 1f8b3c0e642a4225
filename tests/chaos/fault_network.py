"""Faults of the network: what befalls requests of agents, and connections of processes."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from tests.chaos.stage import PROCESSES

if TYPE_CHECKING:
    import random

    from tests.chaos.fault import Inject
    from tests.chaos.stage import Stage


def request(kind: str) -> Inject:
    async def inject(stage: Stage, chance: random.Random) -> str | None:
        return await stage.service.meddle(kind, chance, within=3)

    return inject


async def cut_one(stage: Stage, chance: random.Random) -> str | None:
    """Break one connection, perhaps in the middle of what it carries."""
    wire = chance.choice([*stage.wires.values()])
    if not wire.strands:
        return None
    strand = chance.choice(sorted(wire.strands, key=lambda each: each.port))
    strand.cut()
    return wire.name


async def cut_soon(stage: Stage, chance: random.Random) -> str | None:
    """Break a connection to Postgres after some more bytes, on either way: also between a COMMIT and its answer."""
    wire = stage.wires[chance.choice(PROCESSES), "postgres"]
    if not wire.strands:
        return None
    strand = chance.choice(sorted(wire.strands, key=lambda each: each.port))
    way, left = chance.choice(["out", "back"]), chance.choice([0, 0, 5, 40, 400])
    strand.left[way] = left
    return f"{wire.name}, {left} more bytes {way}"


async def cut_all(stage: Stage, chance: random.Random) -> str | None:
    wire = chance.choice([*stage.wires.values()])
    return f"{wire.name}: {many}" if (many := wire.cut()) else None


async def silence(stage: Stage, chance: random.Random) -> str:
    """Let nothing pass for a while, without a word."""
    wire = chance.choice([*stage.wires.values()])
    wire.silence()
    await asyncio.sleep(chance.uniform(0.3, 4))
    wire.heal()
    if chance.random() < 0.5:
        wire.cut()
    return wire.name


async def refuse(stage: Stage, chance: random.Random) -> str:
    """Break all connections, and take no new ones for a while."""
    wire = chance.choice([*stage.wires.values()])
    wire.refusing = True
    wire.cut()
    await asyncio.sleep(chance.uniform(0.2, 2))
    wire.heal()
    return wire.name


async def slow(stage: Stage, chance: random.Random) -> str:
    wire = chance.choice([*stage.wires.values()])
    wire.latency = chance.uniform(0.01, 0.2)
    await asyncio.sleep(chance.uniform(0.5, 3))
    wire.heal()
    return wire.name
