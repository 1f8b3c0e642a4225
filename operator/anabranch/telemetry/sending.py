"""Spans on their way to the collector: the library's queue, which tells what it had no room for.

By itself it drops the oldest ones and says so in the log. So room is asked for here, before a span goes in, and given
back when it comes out, and each span is counted once: as sent, or as given up. Only a process that exports imports
this, since it needs the library.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

from anabranch.telemetry.common import SPANS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opentelemetry.sdk.trace import ReadableSpan

_EXPORTED, _LOST = SPANS.labels("exported"), SPANS.labels("lost")


class Sender(BatchSpanProcessor):
    """Sends spans in batches, in a thread of its own.

    Args:
        exporter: Sends one batch.
        queue: Spans that wait at most; what ends meanwhile is lost.
        batch: Spans that are sent at once, at most; None: as the environment says.

    Raises:
        ValueError: If batches are larger than the queue.
    """

    def __init__(self, exporter: SpanExporter, *, queue: int, batch: int | None = None) -> None:
        self._room = threading.Semaphore(queue)
        self._counted = _Counted(exporter, self._room)
        super().__init__(self._counted, max_queue_size=queue, max_export_batch_size=batch)

    def on_end(self, span: ReadableSpan) -> None:
        """Take a span, if there is room."""
        if not span.context.trace_flags.sampled:  # the library keeps none of those
            return
        if self._room.acquire(blocking=False):
            super().on_end(span)
        else:
            _LOST.inc()

    def abandon(self) -> None:
        """Send nothing more, and try nothing again; a request that waits for its answer still has its own patience."""
        self._counted.shutdown()


class _Counted(SpanExporter):
    """Counts what became of the spans that it was given."""

    def __init__(self, exporter: SpanExporter, room: threading.Semaphore) -> None:
        self._exporter = exporter
        self._room = room
        self._ended = threading.Lock()  # taken by who ends the exporter, and never given back

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self._room.release(len(spans))
        result = SpanExportResult.FAILURE
        try:
            result = self._exporter.export(spans)
        finally:
            (_EXPORTED if result is SpanExportResult.SUCCESS else _LOST).inc(len(spans))
        return result

    def shutdown(self) -> None:
        if self._ended.acquire(blocking=False):
            self._exporter.shutdown()
