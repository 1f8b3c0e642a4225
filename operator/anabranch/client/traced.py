"""The trace of the program that calls, which goes on in the API.

Only a program that traces itself has one, and it has OpenTelemetry's interface loaded by then. So nothing is imported
for those that do not, and nobody needs the library for the client's sake.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

from anabranch.model.trace import HEADER, TraceContext

if TYPE_CHECKING:
    import httpx

_INTERFACE: Final = "opentelemetry.trace"


async def name_span(request: httpx.Request) -> None:
    """Name the span that a request is a part of, unless somebody else has: an instrumentation of httpx, perhaps."""
    if HEADER in request.headers or (interface := sys.modules.get(_INTERFACE)) is None:
        return
    context = interface.get_current_span().get_span_context()
    if context.is_valid:
        found = TraceContext(f"{context.trace_id:032x}", f"{context.span_id:016x}", context.trace_flags.sampled)
        request.headers[HEADER] = str(found)
