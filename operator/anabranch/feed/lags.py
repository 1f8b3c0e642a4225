"""How far followers are behind, line by line, for whoever watches the service.

There may be any number of lines, each a label of a metric, so only the worst of them are told, and what was seen is
forgotten after a while: a follower that went away for good is not one that lags.
"""

from __future__ import annotations

import heapq
import time
from collections import OrderedDict
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

TOLD: Final = 20
"""Lines that are told of."""

_SECONDS: Final = 300.0
_REMEMBERED: Final = 10_000


class Lags:
    """What was seen of each line in the last minutes.

    Args:
        clock: Seconds, monotonic.
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._seen: OrderedDict[tuple[str, str], tuple[int, float]] = OrderedDict()

    def note(self, namespace: str, baseline: str, lag: int) -> None:
        """A follower asked that was so many events behind: the most that was seen of its line lately counts."""
        now, line = self._clock(), (namespace, baseline)
        before = self._seen.get(line)
        if before is not None and before[0] > lag and now - before[1] < _SECONDS:
            return
        self._seen[line] = (lag, now)
        self._seen.move_to_end(line)
        if len(self._seen) > _REMEMBERED:
            self._seen.popitem(last=False)

    def worst(self) -> dict[tuple[str, ...], float]:
        """The lines with the most, by namespace and Baseline."""
        since = self._clock() - _SECONDS
        recent = ((lag, line) for line, (lag, seen_at) in self._seen.items() if seen_at > since)
        return {line: lag for lag, line in heapq.nlargest(TOLD, recent)}
