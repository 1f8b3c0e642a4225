"""Which heads of requests are refused because another program on the way may read them otherwise.

Where a proxy and this program differ on where a request ends, or on whose it is, an attacker who shares the proxy's
connection puts a request of their own behind somebody else's. The parser refuses what is malformed. What is left are
heads that are well formed and mean two things: those are refused here, as RFC 9110 and RFC 9112 ask or allow.
"""

from collections.abc import Sequence
from typing import Final

ONCE: Final = frozenset(
    {
        b"host",
        b"authorization",
        b"content-type",
        b"content-encoding",
        b"origin",
        b"last-event-id",
        b"anabranch-protocol",
    }
)
"""Headers of which a second one would be another answer to the same question."""

_VERSIONS: Final = frozenset({"1.0", "1.1"})


def objection(version: str, headers: Sequence[tuple[bytes, bytes]], *, method: bytes) -> str | None:
    """Why a head is refused, in a sentence for its sender; None: it means one thing.

    Args:
        version: Of HTTP, as the request line has it.
        headers: With names in lower case.
        method: Of the request.
    """
    if version not in _VERSIONS:
        return f"HTTP/{version} is not spoken here."
    names = [name for name, _ in headers]
    twice = next((name for name in names if name in ONCE and names.count(name) > 1), None)
    if twice is not None:
        return f"The header {twice.decode().title()} came twice."
    if version == "1.1" and b"host" not in names:
        return "The header Host is missing."
    codings = [value.strip().lower() for name, value in headers if name == b"transfer-encoding"]
    if codings and (version == "1.0" or codings != [b"chunked"]):
        return "The body comes in another transfer coding than chunked, or in HTTP/1.0."
    if method == b"CONNECT":
        return "This is no proxy."  # who takes it for one sends on what another protocol says behind it
    return None
