"""Records spans and exports them by OTLP, where the standard variables of OpenTelemetry name a collector.

The library's SDK makes, keeps and sends them; nothing of it is imported, nor need be installed, unless one is named.
What is ours is who decides over what is recorded. A caller's wish to be recorded is granted some times a second, to all
callers together, and beyond that by the same chance as everybody: else a single agent could have everything recorded
that it does. Its `tracestate` and baggage are not read.

A collector that is down costs spans and nothing else: they wait in a queue with a bound, a thread of its own sends
them, and a process that ends waits for that a moment at most.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import random
import threading
import time
from typing import TYPE_CHECKING, Final

from anabranch import __version__
from anabranch.model.errors import InvalidInputError
from anabranch.model.trace import TraceContext
from anabranch.telemetry import tracing
from anabranch.telemetry.sampling import Settings
from anabranch.telemetry.spans import PREFIX, Span

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
    from datetime import datetime

    from opentelemetry.sdk.trace import SpanProcessor
    from opentelemetry.trace import Span as LibrarySpan
    from opentelemetry.trace import SpanContext

    from anabranch.telemetry.sending import Sender
    from anabranch.telemetry.spans import Kind, Value

_PARTING_SECONDS: Final = 3.0
_SAVED_SECONDS: Final = 10.0
"""Wishes that nobody uttered are saved up for so long."""


class Recorder:
    """Records what is to be recorded (see `spans.Recorder`).

    Args:
        settings: What that is.
        processors: Get each span that ends.
        resource: What this process is, by OpenTelemetry's names.
        clock: Seconds, for the wishes of callers.
    """

    def __init__(
        self,
        settings: Settings,
        processors: Sequence[SpanProcessor],
        *,
        resource: Mapping[str, str] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        from opentelemetry.sdk.resources import OTELResourceDetector, Resource  # noqa: PLC0415  (with tracing alone)
        from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
        from opentelemetry.sdk.trace.sampling import ALWAYS_ON  # noqa: PLC0415

        # What the environment says of this process outranks what we know of it.
        known = Resource(dict(resource or {})).merge(OTELResourceDetector().detect())
        self._provider = TracerProvider(
            resource=Resource.create(dict(known.attributes)), sampler=ALWAYS_ON, shutdown_on_exit=False
        )
        for processor in processors:
            self._provider.add_span_processor(processor)
        self._tracer = self._provider.get_tracer("anabranch", __version__)
        self._settings = settings
        self._clock = clock
        self._wishes = self._most = settings.per_second * _SAVED_SECONDS
        self._counted_at = clock()

    def draws(self) -> bool:
        """Whether a trace that begins here is to be recorded."""
        return random.random() < self._settings.share  # noqa: S311  (a sample)

    def admits(self, caller: TraceContext) -> bool:
        """Whether to record what a caller asks for.

        By chance, and not by the trace's id, which the caller has chosen.
        """
        if not self._settings.heeds:
            return self.draws()
        return caller.sampled and (self._settings.share == 1.0 or self._grants() or self.draws())

    def adopts(self, caller: TraceContext) -> bool:  # noqa: ARG002  (all of them, or none)
        """Whether a caller's trace goes on here."""
        return self._settings.callers == "continue"

    def begin(  # noqa: PLR0913  (what a span is made of)
        self,
        name: str,
        *,
        kind: Kind,
        parent: TraceContext | None,
        links: Sequence[TraceContext] = (),
        values: Mapping[str, Value],
        since: datetime | None = None,
    ) -> Span:
        """Begin a span."""
        from opentelemetry import trace  # noqa: PLC0415
        from opentelemetry.context import Context  # noqa: PLC0415

        around = Context()
        if parent is not None:
            around = trace.set_span_in_context(trace.NonRecordingSpan(_library(parent)), around)
        return _Recorded(
            self._tracer.start_span(
                name,
                context=around,
                kind=trace.SpanKind[kind.upper()],
                attributes={name: value for name, value in values.items() if value is not None},
                links=[trace.Link(_library(link)) for link in links],
                start_time=None if since is None else int(since.timestamp() * 1e9),
                # An error's words may quote what an agent wrote.
                record_exception=False,
                set_status_on_exception=False,
            )
        )

    def close(self) -> None:
        """Export what is left; it may take as long as the exporter's own patience lasts."""
        self._provider.shutdown()

    def _grants(self) -> bool:
        """Whether another wish of a caller is granted: then there is one less."""
        now = self._clock()
        self._wishes = min(self._most, self._wishes + (now - self._counted_at) * self._settings.per_second)
        self._counted_at = now
        if self._wishes < 1:
            return False
        self._wishes -= 1
        return True


class _Recorded(Span):
    """A span that is recorded."""

    __slots__ = ("_span",)

    recorded = True

    def __init__(self, span: LibrarySpan) -> None:
        made = span.get_span_context()
        super().__init__(TraceContext(f"{made.trace_id:032x}", f"{made.span_id:016x}", sampled=True))
        self._span = span

    def set(self, **values: Value) -> None:
        self.describe({f"{PREFIX}{name}": value for name, value in values.items()})

    def describe(self, values: Mapping[str, Value]) -> None:
        self._span.set_attributes({name: value for name, value in values.items() if value is not None})

    def link(self, handed_on: Iterable[str | None]) -> None:
        for context in itertools.islice(filter(None, map(TraceContext.parse, handed_on)), tracing.LINKS):
            self._span.add_link(_library(context))

    def rename(self, name: str) -> None:
        self._span.update_name(name)

    def fail(self, kind: str) -> None:
        from opentelemetry.trace import StatusCode  # noqa: PLC0415

        self._span.set_status(StatusCode.ERROR)
        self._span.set_attribute("error.type", kind)

    def end(self) -> None:
        self._span.end()


@contextlib.asynccontextmanager
async def exported(service: str, environment: Mapping[str, str] = os.environ) -> AsyncIterator[None]:
    """Record what this process does, and export it, while the block runs; where no collector is named, don't.

    Args:
        service: What the process is, unless `OTEL_SERVICE_NAME` says it.
        environment: Where the variables are.

    Raises:
        InvalidInputError: If one of them says something that there is not, or the library is not installed.
    """
    settings = Settings.from_environment(environment)
    if settings is None:
        yield
        return
    recorder, sender = _recorder(settings, service)
    try:
        with tracing.recorded_by(recorder):
            yield
    finally:
        # The library would wait for half a minute, and for its requests beyond that.
        parting = threading.Thread(target=recorder.close, name="spans", daemon=True)
        parting.start()
        await asyncio.to_thread(parting.join, _PARTING_SECONDS)
        if parting.is_alive():
            sender.abandon()


def _recorder(settings: Settings, service: str) -> tuple[Recorder, Sender]:
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415

        from anabranch.telemetry.sending import Sender  # noqa: PLC0415
    except ImportError as error:
        raise InvalidInputError(
            "A collector of spans is named, and OpenTelemetry's SDK is not installed.",
            hint="Install anabranch[tracing], or leave OTEL_EXPORTER_OTLP_ENDPOINT out.",
        ) from error
    named = {
        "service.name": service,
        "service.namespace": "anabranch",
        "service.version": __version__,
        "service.instance.id": os.environ.get("HOSTNAME", "") or f"{os.getpid()}",
    }
    try:
        sender = Sender(OTLPSpanExporter(), queue=settings.queue)
    except ValueError as error:
        raise InvalidInputError(
            f"The OTEL_BSP_… variables do not fit together: {error}", hint="A batch is no larger than the queue."
        ) from error
    return Recorder(settings, [sender], resource=named), sender


def _library(context: TraceContext) -> SpanContext:
    from opentelemetry import trace  # noqa: PLC0415

    return trace.SpanContext(
        int(context.trace_id, 16),
        int(context.span_id, 16),
        is_remote=True,
        trace_flags=trace.TraceFlags(context.sampled),
    )
