"""How often a Branch's status is written when only numbers of it rise.

An agent that submits all the time would cost a write each time, for a number that nobody waits for. The first rise is
shown at once, further ones half a minute later; whatever else changes is shown at once, with the numbers as they are.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final

from anabranch.model.canonical import canonical_bytes, sha256

if TYPE_CHECKING:
    from collections.abc import Mapping

QUIET_SECONDS: Final = 30.0
_RISING: Final = frozenset({"lastSubmittedSequence", "sharedFeedCursor", "feedLag"})
_REMEMBERED: Final = 50_000


class Pacing:
    """Remembers, of each status that was written, what besides the rising numbers it said."""

    def __init__(self) -> None:
        self._written: OrderedDict[str, tuple[bytes, float]] = OrderedDict()  # and until when a rise must wait

    def wait_until(self, uid: str, status: Mapping[str, Any], *, now: float) -> float | None:
        """Until when a status is not to be written; None: it may be written now."""
        before, until = self._written.get(uid, (b"", 0.0))
        return until if before == steady(status) and now < until else None

    def wrote(self, uid: str, status: Mapping[str, Any], *, now: float) -> None:
        """Note that a status was written."""
        before, until = self._written.pop(uid, (b"", 0.0))
        found = steady(status)
        self._written[uid] = (found, now + QUIET_SECONDS if before == found else until)
        if len(self._written) > _REMEMBERED:
            self._written.popitem(last=False)

    def forget(self, uid: str) -> None:
        """The object is gone."""
        self._written.pop(uid, None)


def steady(status: Mapping[str, Any]) -> bytes:
    """The hash of what a status says besides the rising numbers."""
    return sha256(canonical_bytes({name: value for name, value in status.items() if name not in _RISING}))
