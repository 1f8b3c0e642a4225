"""Routes of the key-value contract: what goes wrong is said in its words, `{"error": {code, message, retryable}}`.

Clients of that contract know a few codes and statuses, and nothing of problems. So these routes raise what all others
raise, and say it otherwise: a request that does not fit is 400, a precondition that does not hold is 409, and what
retention has removed is not found.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError

from anabranch.api.problems import MEND, TooSlowError
from anabranch.api.routing import Route, may_fail
from anabranch.identity.answers import BusyError
from anabranch.model import misfits
from anabranch.model.errors import (
    AnabranchError,
    ConflictError,
    DigestMismatchError,
    ForbiddenError,
    GoneError,
    InvalidInputError,
    NotFoundError,
    PreconditionFailedError,
    QuotaExceededError,
    TooLargeError,
    UnauthenticatedError,
    UnavailableError,
)
from anabranch.model.kv import KvError, KvErrorDetail
from anabranch.telemetry.of_api import PROBLEMS

SECONDS: Final = 30.0
"""How long a request may take, its body included; what it wrote by then may be durable."""


class SlowError(TooSlowError):
    """The answer is not there in the time that a client waits for it."""

    status = 504
    code = "Timeout"


_WORDS: Final[Mapping[type[AnabranchError], tuple[int, str]]] = {
    InvalidInputError: (400, "invalid_request"),
    UnauthenticatedError: (401, "unauthorized"),
    DigestMismatchError: (400, "invalid_request"),
    ForbiddenError: (403, "forbidden"),
    NotFoundError: (404, "not_found"),
    GoneError: (404, "not_found"),
    ConflictError: (409, "conflict"),
    PreconditionFailedError: (409, "conflict"),
    TooLargeError: (413, "payload_too_large"),
    TooSlowError: (504, "timeout"),
    QuotaExceededError: (507, "quota_exceeded"),
    BusyError: (503, "overloaded"),
    UnavailableError: (503, "storage_unavailable"),
    AnabranchError: (500, "internal_error"),
}
"""By the class of an error, or the nearest that it is derived from: its status and code here."""


class KvRoute(Route):
    """A route of the key-value contract."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        operation = self.openapi_extra or {}
        operation["responses"] = _documented(operation.get("responses", {}))
        may_fail(operation, InvalidInputError)  # a path with a control character is no path of any route
        self.openapi_extra = operation

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The handler, whose errors are in the contract's words."""
        handler = super().get_route_handler()

        async def answered(request: Request) -> Response:
            try:
                async with asyncio.timeout(SECONDS):
                    return await handler(request)
            except AnabranchError as error:
                return response(error)
            except RequestValidationError as error:
                return response(misfits.invalid(error.errors(), hint=MEND))
            except TimeoutError:
                return response(
                    SlowError(
                        f"There was no answer within {SECONDS:.0f} s; what was sent may be written all the same.",
                        hint="Look at the revision, or send the same checkpoint again.",
                    )
                )

        return answered


def response(error: AnabranchError) -> Response:
    """The response that an error is in the key-value contract; counted like all problems."""
    PROBLEMS.labels(error.code).inc()
    status, code = words_of(type(error))
    headers = {"Cache-Control": "no-store"}
    if isinstance(error, UnauthenticatedError):
        headers["WWW-Authenticate"] = "Bearer"
    if status == UnavailableError.status:
        headers["Retry-After"] = "1"
    detail = KvErrorDetail(code=code, message=str(error), retryable=status == UnavailableError.status)
    return Response(
        KvError(error=detail).model_dump_json(), status_code=status, media_type="application/json", headers=headers
    )


def words_of(kind: type[AnabranchError]) -> tuple[int, str]:
    """The status and the code that a class of errors has in the key-value contract."""
    return next(_WORDS[base] for base in kind.__mro__ if base in _WORDS)


_STATUSES: Final = {
    "400": 400, "401": 401, "403": 403, "404": 404, "408": 504, "409": 409, "410": 404, "412": 409, "413": 413,
    "422": 400, "503": 503, "507": 507,
}  # fmt: skip
"""Which status a documented problem has here."""


def _documented(responses: Mapping[str, Any]) -> dict[str, Any]:
    """The documented problems as errors of the key-value contract; other answers as they are."""
    told: dict[str, Any] = {}
    for status, each in responses.items():
        if "application/problem+json" not in each.get("content", {}):
            told[status] = each
            continue
        here = "default" if status == "default" else str(_STATUSES[status])
        content = {"application/json": {"schema": {"$ref": "#/components/schemas/KvError"}}}
        known = told.setdefault(here, {"description": "", "content": content})
        known["description"] = " ".join(filter(None, (known["description"], each["description"])))
    return told
