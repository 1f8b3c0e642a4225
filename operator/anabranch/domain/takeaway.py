"""What is left of a conversation: the words by which an agent is told what its other session did.

They are words of the conversation, never a summary: nobody has to trust a model for them, and the same turns always
give the same takeaway.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from anabranch.model.limits import TAKEAWAY_CHARACTERS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anabranch.model.memory import Turn

_NO_REPLY: Final = "no_reply"
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_ELLIPSIS: Final = "\N{HORIZONTAL ELLIPSIS}"


def of_turns(turns: Sequence[Turn]) -> str:
    """The takeaway of a conversation: what the sender of its last turn said last, other than NO_REPLY.

    A turn of NO_REPLY says that its sender has nothing to add, so it concludes a conversation and is no part of it.

    Args:
        turns: In their order.

    Returns:
        At most 280 code points; empty, if that sender said nothing.
    """
    if not turns:
        return ""
    sender = turns[-1].sender
    said = (turn.content for turn in reversed(turns) if turn.sender == sender)
    return head(next((content for content in said if content.strip().lower() != _NO_REPLY), ""))


def head(text: str, *, limit: int = TAKEAWAY_CHARACTERS) -> str:
    """The beginning of a text on one line, with … where there was more.

    Args:
        text: Any.
        limit: Code points, those of the … included.
    """
    line = plain(text).strip()
    return line if len(line) <= limit else line[: limit - len(_ELLIPSIS)] + _ELLIPSIS


def plain(text: str) -> str:
    """A text without control characters and ends of lines; there are spaces in their places.

    So a text has no more bytes in JSON than in UTF-8, but for quotes and backslashes, and cannot draw on a terminal.
    """
    return _CONTROL.sub(" ", text)
