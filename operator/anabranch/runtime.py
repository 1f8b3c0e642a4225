"""How a process that runs for long treats Python's own machinery."""

from __future__ import annotations

import gc
from typing import Final

_YOUNG: Final = 10_000
"""So many more objects are made than ended before the collector looks for cycles among them; by itself, 700."""


def settle() -> None:
    """Take all that there is by now for what stays, and look for garbage less often. To be called when all is loaded.

    The collector goes through everything that is alive, again and again, looking for cycles that nobody needs any more.
    Modules, models and routes are most of that, 200,000 objects that never end: they are frozen, so that it passes them
    over. And one request of a hundred batches makes more than 700 objects, none of which is in a cycle. Together that
    is a fifth of what a batch costs the API, and most of its slowest answers (docs/adr/0043-garbage.md).
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG, *gc.get_threshold()[1:])
