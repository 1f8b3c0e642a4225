"""Errors as RFC 9457 problems: each error class of this system is one, and nothing else ever leaves the API."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

import structlog
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from anabranch.model import misfits
from anabranch.model.answers import Problem
from anabranch.model.errors import AnabranchError, InvalidInputError
from anabranch.telemetry import logs
from anabranch.telemetry.of_api import PROBLEMS

MEDIA_TYPE: Final = "application/problem+json"
TYPES: Final = "/problems/"
"""Problem types are relative references: this path, and the code."""

RETRY_SECONDS: Final = 1
MEND: Final = "Mend the named fields, as GET /openapi.json describes them."

_log = structlog.get_logger(__name__)


class RouteNotFoundError(AnabranchError):
    """There is no such path."""

    status = 404
    code = "RouteNotFound"


class MethodNotAllowedError(AnabranchError):
    """The path is served, but not with this method."""

    status = 405
    code = "MethodNotAllowed"


class MalformedRequestError(AnabranchError):
    """What came is no HTTP/1.1 request."""

    status = 400
    code = "MalformedRequest"


class HeadTooLargeError(AnabranchError):
    """The path and the headers of a request are longer than any that makes sense."""

    status = 431
    code = "HeadTooLarge"


class TooSlowError(AnabranchError):
    """The request does not come in the time that any caller needs."""

    status = 408
    code = "TooSlow"


class UnexpectedError(AnabranchError):
    """A defect of this program."""


def problem(error: AnabranchError, *, request_id: str | None = None) -> Problem:
    """The problem that an error is, in the answer to a request or as a part of one."""
    return Problem(
        type=f"{TYPES}{error.code}",
        title=HTTPStatus(error.status).phrase,
        status=error.status,
        detail=error.detail,
        code=error.code,
        hint=error.hint,
        request_id=request_id,
        **error.extra,
    )


def response(error: AnabranchError, headers: Mapping[str, str] | None = None) -> Response:
    """The response that an error is; counted and logged, what the caller has to mend in debugging only."""
    PROBLEMS.labels(error.code).inc()
    if error.status < HTTPStatus.INTERNAL_SERVER_ERROR:
        _log.debug("refused", status=error.status, code=error.code)  # its words may quote what was sent
    elif not isinstance(error, UnexpectedError):  # the server logs that, with its traceback
        _log.warning("not answered", status=error.status, code=error.code, error=str(error))
    sent = {"Cache-Control": "no-store", **(headers or {})}
    if error.status == HTTPStatus.UNAUTHORIZED:
        sent["WWW-Authenticate"] = "Bearer"
    if error.status == HTTPStatus.REQUEST_TIMEOUT:
        sent["Connection"] = "close"  # what is still to come of the request must not be taken for the next one
    if error.status == HTTPStatus.SERVICE_UNAVAILABLE:
        sent["Retry-After"] = str(RETRY_SECONDS)
    body = problem(error, request_id=logs.ids().get("request_id")).model_dump_json(exclude_none=True)
    return Response(body, status_code=error.status, media_type=MEDIA_TYPE, headers=sent)


def unexpected() -> Response:
    """The response to what nobody foresaw."""
    return response(
        UnexpectedError("The API met an error of its own.", hint="Try again; if it stays, report it with its log.")
    )


def install(app: FastAPI) -> None:
    """Have the application answer with problems, whatever is raised."""

    @app.exception_handler(AnabranchError)
    async def known(_request: Request, error: AnabranchError) -> Response:
        return response(error)

    @app.exception_handler(RequestValidationError)
    async def unfit(_request: Request, error: RequestValidationError) -> Response:
        return response(misfits.invalid(error.errors(), hint=MEND))

    @app.exception_handler(HTTPException)
    async def unrouted(request: Request, error: HTTPException) -> Response:
        path = request.url.path[:200]
        if not request.scope["path"].isprintable():
            return response(
                InvalidInputError("The path holds a control character, such as %0A.", hint="No key or name has one.")
            )
        if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
            allowed = (error.headers or {}).get("Allow", "")
            detail = f"{path} does not take {request.method}."
            return response(MethodNotAllowedError(detail, hint=f"Use {allowed}."), error.headers)
        return response(
            RouteNotFoundError(f"There is nothing at {path}.", hint="GET /openapi.json lists every path."),
            error.headers,
        )

    @app.exception_handler(ClientDisconnect)
    async def gone(_request: Request, _error: Exception) -> Response:
        return Response(status_code=HTTPStatus.BAD_REQUEST)  # nobody is there to read it, and no defect is to be logged

    @app.exception_handler(Exception)
    async def unforeseen(_request: Request, _error: Exception) -> Response:
        return unexpected()  # Starlette raises it again once this is sent, and the server logs it with its traceback
