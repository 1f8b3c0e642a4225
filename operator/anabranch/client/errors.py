"""Problems as errors: what the API answered becomes the same error that was raised there."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Final, TypeGuard

from anabranch.model import errors
from anabranch.model.errors import AnabranchError, UnavailableError

if TYPE_CHECKING:
    from collections.abc import Mapping

    import httpx

_STANDARD: Final = frozenset({"type", "title", "status", "detail", "code", "hint"})

_KNOWN: Final = {
    error.code: error
    for error in vars(errors).values()
    if isinstance(error, type) and issubclass(error, AnabranchError)
}
_OF_STATUS: Final = {error.status: error for error in reversed(_KNOWN.values())}


def error_of(response: httpx.Response) -> AnabranchError:
    """The error that an answer stands for.

    A code that this release does not know is an error of its own class below the one of its status, so that callers can
    catch either: ``except ForbiddenError`` catches ``SelfReview`` too.
    """
    problem = _problem(response)
    if problem is None:
        text = " ".join(response.text[:200].split())
        return _class("Unavailable" if response.status_code >= 502 else "Internal", response.status_code)(
            f"{response.request.url} was answered with {response.status_code}, and no problem: {text!r}.",
            hint="Check that the address is that of the Anabranch API, with nothing in between.",
        )
    return error_from(problem, status=response.status_code)


def error_from(problem: Mapping[str, Any], *, status: int) -> AnabranchError:
    """The error that a problem stands for, such as one of a batch among several.

    Args:
        problem: With its ``code``.
        status: That it was answered with.
    """
    return _class(str(problem["code"]), status)(
        str(problem.get("detail", "")),
        hint=str(problem.get("hint", "")),
        **{name: value for name, value in problem.items() if name not in _STANDARD},
    )


def _problem(response: httpx.Response) -> dict[str, Any] | None:
    media_type = response.headers.get("content-type", "").partition(";")[0]
    if media_type not in {"application/problem+json", "application/json"}:
        return None
    try:
        value = response.json()
    except ValueError:
        return None
    if not isinstance(value, dict):
        return None
    if media_type == "application/json":  # the key-value contract has errors of its own
        said = value.get("error")
        return {"code": said["code"], "detail": said.get("message", "")} if _is_named(said) else None
    return value if _is_named(value) else None


def _is_named(value: object) -> TypeGuard[dict[str, Any]]:
    return isinstance(value, dict) and "code" in value


@functools.lru_cache(maxsize=256)
def _class(code: str, status: int) -> type[AnabranchError]:
    known = _KNOWN.get(code)
    if known is not None and known.status == status:
        return known
    base = _OF_STATUS.get(status, UnavailableError if status >= 502 else AnabranchError)
    return type(f"{code}Error", (base,), {"code": code, "status": status, "__doc__": f"The API's problem {code}."})
