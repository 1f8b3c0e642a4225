"""What an event carries of what its agent has not seen.

An event's payload goes into a prompt, so the digest is small: five entries, 2,560 bytes. The bounds of an exchange's
members are such that any one of them fits, so a digest is never empty while something is unseen and untold. What does
not fit is counted, and stays unseen.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from anabranch.model.agent_events import MemoryDigest
from anabranch.model.canonical import canonical_bytes
from anabranch.model.limits import DIGEST_BYTES, DIGEST_ENTRIES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anabranch.model.memory import Exchange


def share_out(unseen: Sequence[Exchange], *, events: int) -> list[MemoryDigest]:
    """The digests of events that are told together: each entry is in one of them, the first that has room.

    Args:
        unseen: What the agent has not seen, newest first.
        events: How many there are.

    Returns:
        A digest for each event. `omitted` counts what is neither in it nor in one before it.
    """
    digests = []
    for _ in range(events):
        digest = _fill(unseen)
        digests.append(digest)
        unseen = unseen[len(digest.entries) :]
    return digests


def size(digest: MemoryDigest) -> int:
    """How long a digest is: bytes of its RFC 8785 form."""
    return len(canonical_bytes(digest.model_dump(mode="json")))


def _fill(unseen: Sequence[Exchange]) -> MemoryDigest:
    """The newest entries that fit."""
    digest = MemoryDigest(omitted=len(unseen))
    for taken in range(1, min(len(unseen), DIGEST_ENTRIES) + 1):
        fuller = MemoryDigest(entries=tuple(unseen[:taken]), omitted=len(unseen) - taken)
        if size(fuller) > DIGEST_BYTES:
            break
        digest = fuller
    return digest
