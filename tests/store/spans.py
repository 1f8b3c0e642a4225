"""What is recorded of traces, for tests to look at: in memory, by the SDK that exports them in production."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from anabranch.model.trace import TraceContext
from anabranch.telemetry import tracing
from anabranch.telemetry.exporting import Recorder
from anabranch.telemetry.sampling import Settings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opentelemetry.sdk.trace import ReadableSpan


@dataclass(frozen=True)
class Seen:
    """The spans that have ended."""

    exporter: InMemorySpanExporter

    @property
    def spans(self) -> list[ReadableSpan]:
        return list(self.exporter.get_finished_spans())

    def named(self, name: str, trace_id: str | None = None) -> list[ReadableSpan]:
        return [span for span in self.spans if span.name == name and trace_id in {None, trace_of(span)}]

    def one(self, name: str, trace_id: str | None = None) -> ReadableSpan:
        (found,) = self.named(name, trace_id)
        return found

    def parent(self, span: ReadableSpan) -> str | None:
        """The name of a span's parent; ``remote`` if nobody here has recorded it."""
        if span.parent is None:
            return None
        found = [each.name for each in self.spans if each.context.span_id == span.parent.span_id]
        return found[0] if found else "remote"

    def texts(self) -> Iterator[str]:
        """All that was told of spans."""
        for span in self.spans:
            yield span.name
            yield str(span.status.description)
            told: list[Any] = [span.attributes, *(event.attributes for event in span.events)]
            told += [link.attributes for link in span.links]
            for attributes in told:
                for name, value in (attributes or {}).items():
                    yield from (name, str(value))


def trace_of(span: ReadableSpan) -> str:
    return f"{span.context.trace_id:032x}"


def span_of(span: ReadableSpan) -> str:
    return f"{span.context.span_id:016x}"


def links_of(span: ReadableSpan) -> set[str]:
    return {f"{link.context.span_id:016x}" for link in span.links}


def caller(number: int = 1, *, sampled: bool = True) -> TraceContext:
    """The span of somebody who calls."""
    return TraceContext(f"{number:032x}", f"{number:016x}", sampled)


@contextlib.contextmanager
def recorded(**settings: Any) -> Iterator[Seen]:
    """Record everything, unless the settings say otherwise, while the block runs."""
    exporter = InMemorySpanExporter()
    recorder = Recorder(Settings(**settings), [SimpleSpanProcessor(exporter)])
    with tracing.recorded_by(recorder):
        yield Seen(exporter)
    recorder.close()
