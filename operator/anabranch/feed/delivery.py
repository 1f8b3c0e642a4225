"""Delivery as a part of the traces that the events come from.

What is read for all followers of a line is told in each of these traces once a process, however many follow. What is
read for one alone is told where its own request is recorded: else a thousand agents that come back would have the same
old publication recorded a thousand times.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from anabranch.telemetry import tracing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anabranch.feed.follower import Frame
    from anabranch.telemetry.tracing import Together

_NAME: Final = "deliver events"


def delivered(line: str, frames: Sequence[Frame], *, followers: int) -> Together:
    """What is handed to all who follow, for the length of a block."""
    traces = (frame.traceparent for frame in frames)
    return tracing.together(_NAME, traces, kind="producer", line=line, events=len(frames), followers=followers)


def told(line: str, traces: Sequence[str | None]) -> None:
    """Tell that one follower gets some events.

    Args:
        line: Whose.
        traces: What each of them came from.
    """
    if traces and tracing.here().recorded:
        with tracing.together(_NAME, traces, kind="producer", line=line, events=len(traces), followers=1):
            pass
