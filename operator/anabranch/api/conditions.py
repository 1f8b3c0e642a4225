"""The precondition of a write: which revision it demands to be there."""

import re
from typing import Final

from fastapi import Request

from anabranch.model.errors import InvalidInputError

_REVISION: Final = re.compile(r'"(0|[1-9][0-9]{0,17})"')


def expected(request: Request) -> int | None:
    """The revision that a write demands; 0: none; None: whatever is there.

    Raises:
        InvalidInputError: If its headers say something else, or both of them something.
    """
    match, none_match = request.headers.get("if-match"), request.headers.get("if-none-match")
    if match is None and none_match is None:
        return None
    if match is None and none_match == "*":
        return 0
    if none_match is None and match is not None and (tag := _REVISION.fullmatch(match.strip())):
        return int(tag[1])
    raise InvalidInputError(
        "The precondition is not understood.",
        hint='Send If-Match: "<revision>" with the ETag that you have, or If-None-Match: * for a new record.',
    )
