"""Which refusals pass by themselves: those that say nothing of what was sent, only of the moment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from anabranch.model.errors import DigestMismatchError, NotReadyError, UnauthenticatedError

if TYPE_CHECKING:
    from anabranch.model.errors import AnabranchError

_LATER: Final = frozenset({408, 429})


def passes(error: AnabranchError) -> bool:
    """Whether the same request may be answered otherwise later, without anybody changing what is sent.

    The API or something before it is away, slow or ill; the token has run out and its file will hold another; the bytes
    were torn on the way; or the branch is still to fork.
    """
    return (
        error.status >= 500
        or error.status in _LATER
        or isinstance(error, UnauthenticatedError | DigestMismatchError | NotReadyError)
    )
