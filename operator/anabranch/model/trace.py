"""Where a piece of work stands in a trace: W3C Trace Context, as headers, rows and events carry it.

It is a value that anybody may have made, so it is taken apart strictly and put together anew: what is handed on has one
spelling, and nothing in it that we did not understand.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Self

HEADER: Final = "traceparent"

_TEXT: Final = re.compile(r"(?!ff)([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_LONGEST: Final = 512
_SAMPLED: Final = 1


@dataclass(frozen=True, slots=True)
class TraceContext:
    """A span, as others name it.

    Attributes:
        trace_id: Of its trace: 32 hex digits.
        span_id: Its own: 16 hex digits.
        sampled: Whether it is recorded.
    """

    trace_id: str
    span_id: str
    sampled: bool

    @classmethod
    def parse(cls, text: str | None) -> Self | None:
        """What a ``traceparent`` says; None if there is none, or it is not one.

        A later version than ours is read as far as ours goes, as the recommendation asks.
        """
        if text is None or len(text) > _LONGEST or (match := _TEXT.fullmatch(text)) is None:
            return None
        version, trace_id, span_id, flags, more = match.groups()
        if (version == "00" and more) or not (trace_id.strip("0") and span_id.strip("0")):
            return None
        return cls(trace_id, span_id, bool(int(flags, 16) & _SAMPLED))

    def __str__(self) -> str:
        return f"00-{self.trace_id}-{self.span_id}-{'01' if self.sampled else '00'}"


def trace_id_of(traceparent: str | None) -> str | None:
    """The id of the trace that a stored ``traceparent`` names."""
    context = TraceContext.parse(traceparent)
    return None if context is None else context.trace_id
