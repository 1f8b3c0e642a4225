"""One root for every error that a person or an agent may see.

Each says what happened, what to do next, and maps to exactly one HTTP problem (``status`` and ``code``) and one
condition reason (``code``). Services raise them, the doors (api, controllers, cli) only translate.
"""

from __future__ import annotations

from typing import Any, ClassVar


class AnabranchError(Exception):
    """An error with a name that programs can test, and words that people can act on.

    Args:
        detail: What happened, in one sentence, naming the field and the limit where there is one.
        hint: What to do next, in one sentence.
        extra: Members for the RFC 9457 problem beside the standard ones (JSON values).
    """

    status: ClassVar[int] = 500
    code: ClassVar[str] = "Internal"

    def __init__(self, detail: str, *, hint: str = "", **extra: Any) -> None:
        super().__init__(f"{detail} {hint}".strip())
        self.detail = detail
        self.hint = hint
        self.extra = extra


class InvalidInputError(AnabranchError):
    """The caller sent something that can never be accepted as it stands."""

    status = 422
    code = "InvalidInput"


class DigestMismatchError(AnabranchError):
    """The bytes received are not the bytes that the digest names: torn or altered on the way."""

    status = 400
    code = "DigestMismatch"


class UnauthenticatedError(AnabranchError):
    """No token, or one that the API server does not accept for this audience."""

    status = 401
    code = "Unauthenticated"


class ForbiddenError(AnabranchError):
    """The caller is known, and lacks the named grant."""

    status = 403
    code = "Forbidden"


class SectionNotWritableError(ForbiddenError):
    """A section of an agent's memory that the platform alone writes."""

    code = "SectionNotWritable"


class NotFoundError(AnabranchError):
    """Absent, or not granted: both look alike, so that no answer reveals what exists."""

    status = 404
    code = "NotFound"


class ConflictError(AnabranchError):
    """The request contradicts what is already durable; both sides are named."""

    status = 409
    code = "Conflict"


class ClaimLostError(ConflictError):
    """The claim on an event does not hold any more: it ran out and the event is another's, or it was given up."""

    code = "ClaimLost"


class GoneError(AnabranchError):
    """It existed, and retention removed it."""

    status = 410
    code = "Gone"


class ReclaimedError(GoneError):
    """Retention removed what the run or the job had brought, some time after its end; what it published stays."""

    code = "Reclaimed"


class PreconditionFailedError(AnabranchError):
    """If-Match or If-None-Match does not hold."""

    status = 412
    code = "PreconditionFailed"


class TooLargeError(AnabranchError):
    """Over a limit, which is named."""

    status = 413
    code = "TooLarge"


class NotReadyError(AnabranchError):
    """Would be accepted later: it depends on something that is not there yet."""

    status = 409
    code = "NotReady"


class QuotaExceededError(AnabranchError):
    """It would exceed what a branch or an agent may keep of its kind; deleting makes room."""

    status = 507
    code = "QuotaExceeded"


class UnavailableError(AnabranchError):
    """A part that the answer needs cannot be reached now; the same call may succeed later."""

    status = 503
    code = "Unavailable"
