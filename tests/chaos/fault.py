"""What a fault is: something that goes wrong, and says what it did once it is over.

A fault draws all that is to be decided from one source of chance, so that a seed gives the same faults in the same
order. When exactly they strike is the machine's business: two runs of a seed are alike, not the same.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import asyncpg

if TYPE_CHECKING:
    import random

    from tests.chaos.stage import Stage

Inject = Callable[["Stage", "random.Random"], Awaitable["str | None"]]
"""Does it, and gives what it did in words; None where there was nothing to do it to, and nothing was done."""

GONE: Final = (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, TimeoutError)
"""What a question to Postgres may end with while it is the one that suffers."""


@dataclass(frozen=True)
class Fault:
    """One kind of fault.

    Attributes:
        name: Of the kind.
        weight: How often it is drawn, beside the others.
        inject: See `Inject`.
        alone: Faults of one group do not strike together: there is nothing to see where all is down.
    """

    name: str
    weight: float
    inject: Inject
    alone: str = ""
