"""What a token says of itself, read and not trusted: enough to see that the API server would refuse it.

Anybody may send a token, and each question costs the API server milliseconds. A token that is no JWT, that names
another audience, or that expired long ago is therefore refused here, and its owner is told which of these it is.
Nothing is ever accepted here: whether a token is genuine is the API server's to say.
"""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime
from typing import Any, Final

TOKEN_BYTES: Final = 16_384
LEEWAY_SECONDS: Final = 300.0
"""Clocks differ: a token that expired less than this ago is left for the API server to judge."""

_PARTS: Final = 3
_SHOWN: Final = 100


def objection(token: str, *, audience: str, now: float, leeway: float = 0.0) -> str | None:
    """Why the API server would not accept a token, in a sentence for its owner; None: nothing to be seen.

    Args:
        token: As it came, of any content.
        audience: That it must be meant for.
        now: Seconds since the epoch.
        leeway: Seconds for which an expired token is not objected to.
    """
    if not token:
        return "The request has no token."
    if len(token) > TOKEN_BYTES:
        return f"The token is longer than {TOKEN_BYTES} bytes."
    claims = _claims(token)
    if claims is None:
        return "The token is no JWT, as the cluster's tokens are."
    meant_for = claims.get("aud")
    if audience not in (meant_for if isinstance(meant_for, list) else [meant_for]):
        return f"The token is not meant for the audience {audience!r}, but for {ascii(meant_for)[:_SHOWN]}."
    expiry = claims.get("exp")
    if isinstance(expiry, int | float) and now - leeway >= expiry:
        return f"The token expired at {_moment(expiry)}."
    return None


def issuer_of(token: str) -> str | None:
    """Whom a token names as its issuer; None: nobody."""
    claims = _claims(token) if len(token) <= TOKEN_BYTES else None
    issuer = claims.get("iss") if claims is not None else None
    return issuer if isinstance(issuer, str) else None


def _claims(token: str) -> dict[str, Any] | None:
    """The payload of a JWT; None: it has none."""
    parts = token.split(".")
    if len(parts) != _PARTS or not all(parts):
        return None
    try:
        payload = base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4))
        claims = json.loads(payload)
    except (ValueError, RecursionError):
        return None
    return claims if isinstance(claims, dict) else None


def _moment(seconds: float) -> str:
    try:
        return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
    except (ValueError, OverflowError, OSError):
        return "a time before all calendars"
