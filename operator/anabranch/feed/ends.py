"""Why a stream ends that its follower did not end: each an error that says what to do next.

Whoever followed loses nothing by any of them: the cursor that came last says where to go on. They are of the status of
what passes, so a client knows without a list of names that it may begin anew.
"""

from __future__ import annotations

from typing import ClassVar

from anabranch.model.errors import UnavailableError


class SlowConsumerError(UnavailableError):
    """More waits for the follower than is kept for one."""

    code: ClassVar[str] = "SlowConsumer"


class GrantsUnverifiableError(UnavailableError):
    """The API server does not say whether the follower may still follow."""

    code: ClassVar[str] = "GrantsUnverifiable"


class GrantsChangedError(UnavailableError):
    """The follower may no longer see something that waits for it."""

    code: ClassVar[str] = "GrantsChanged"


class EndingError(UnavailableError):
    """The process that serves the stream is about to end; others go on."""

    code: ClassVar[str] = "Ending"


class FollowersError(UnavailableError):
    """The process has as many followers as it takes."""

    code: ClassVar[str] = "Busy"


def ending() -> EndingError:
    """The process is about to end."""
    return EndingError("This process of the API is about to end.", hint="Go on after the last cursor, at another one.")


def unverifiable() -> GrantsUnverifiableError:
    """Grants could not be asked."""
    return GrantsUnverifiableError(
        "The API server could not be asked whether you may still follow.",
        hint="Go on after the last cursor; while it is away, 503 is answered.",
    )
