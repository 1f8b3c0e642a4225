"""Leaves an endpoint alone that does not answer, and tries it again now and then.

A model that is away would otherwise cost every job its budget, and every turn its time. After some failures in a row
nothing is asked for a while, the longer, the longer it goes on; then one request finds out whether it is back.
"""

from __future__ import annotations

from typing import Final

FAILURES: Final = 3
"""In a row, after which the endpoint is left alone."""

FIRST_SECONDS: Final = 30.0
LONGEST_SECONDS: Final = 600.0


class Breaker:
    """Whether an endpoint is to be asked. Times are of one clock that never goes back, in seconds."""

    def __init__(self) -> None:
        self._failures = 0
        self._until = 0.0

    def closed(self, now: float) -> bool:
        """Whether it may be asked now."""
        return now >= self._until

    def slots(self, slots: int) -> int:
        """How many requests may be made at once: a single one while it is not known to be back."""
        return slots if self._failures < FAILURES else 1

    def succeeded(self) -> None:
        """It has answered."""
        self._failures = 0

    def failed(self, now: float, *, pause: float | None = None) -> None:
        """It has not.

        Args:
            now: The time.
            pause: For how long it asked to be left alone, seconds; as long as that it is, from the first time on.
        """
        self._failures += 1
        beyond = self._failures - FAILURES
        wait = min(FIRST_SECONDS * 2.0 ** min(beyond, 16), LONGEST_SECONDS) if beyond >= 0 else 0.0
        if pause is not None:
            wait = min(max(wait, pause), LONGEST_SECONDS)
        self._until = max(self._until, now + wait)
