"""Traces: what is going on now, as part of what. Everybody who has something to tell of it comes here.

A trace leads from an agent's request over rows of Postgres to a worker in another process, days later perhaps, and on
to those who follow. So what is carried is a value, the context of a span, in whatever brings the work on: a header, a
column, an event. It is carried whether anything is recorded or not, since logs name it too. Spans are recorded where it
says so, which this installation has decided once, where the trace came in; what is not recorded costs next to nothing.

This module knows no library: `anabranch.telemetry.exporting` brings one, in a process that is told to export. Nothing
that an agent wrote is told of a span, neither content nor keys, and no error's words, which may quote them.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

from anabranch.model.errors import AnabranchError
from anabranch.model.trace import TraceContext
from anabranch.telemetry.spans import PREFIX, Span

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterable, Iterator, Mapping
    from datetime import datetime

    from anabranch.telemetry.spans import Kind, Recorder, Value

_T = TypeVar("_T")

TOGETHER: Final = 32
"""Traces that one piece of work is told in, at most: the first ones."""

LINKS: Final = 127
"""Other spans that a span names at most."""

NOTHING: Final = Span(None)
_here: contextvars.ContextVar[Span] = contextvars.ContextVar("span", default=NOTHING)
_recorder: Recorder | None = None


@contextlib.contextmanager
def recorded_by(recorder: Recorder | None) -> Iterator[None]:
    """Record what this process does, while the block runs; None: don't."""
    global _recorder  # noqa: PLW0603  (of the process, as its logging is)
    before, _recorder = _recorder, recorder
    try:
        yield
    finally:
        _recorder = before


def here() -> Span:
    """What is going on now."""
    return _here.get()


def handed_on() -> str | None:
    """What brings this work on elsewhere, as text for a row or a header; None: it is part of no trace."""
    context = _here.get().context
    return None if context is None else str(context)


def ids() -> Mapping[str, str]:
    """What a line of the log names."""
    if (context := _here.get().context) is None:
        return {}
    found = {"trace_id": context.trace_id}
    return found | {"span_id": context.span_id} if context.sampled else found


def span(name: str, *, kind: Kind = "internal", links: Iterable[str | None] = (), **values: Value) -> _Scope:
    """A part of what is going on, for the length of a block; recorded if that is.

    Args:
        name: Of the kind of work: one of a few.
        kind: How it relates to others.
        links: Other spans, by what they handed on, that it has to do with.
        values: What there is to tell of it, by names of ours.
    """
    outer = _here.get()
    if _recorder is None or not outer.recorded:
        return _Scope(outer)
    return _begun(_recorder, name, kind=kind, parent=outer.context, links=links, values=values)


def work(
    name: str, handed_on: str | None, *, kind: Kind = "consumer", links: Iterable[str | None] = (), **values: Value
) -> _Scope:
    """What goes on from elsewhere, for the length of a block; recorded if it is there, too.

    Args:
        name: As for `span`.
        handed_on: What brought it here, as it was handed on.
        kind: As for `span`.
        links: As for `span`.
        values: As for `span`.
    """
    context = TraceContext.parse(handed_on)
    if _recorder is None or context is None or not context.sampled:
        return _Scope(Span(context))
    return _begun(_recorder, name, kind=kind, parent=context, links=links, values=values)


def carried(handed_on: str | None) -> _Scope:
    """What goes on from elsewhere, for the length of a block, of which there is nothing to tell but in the log."""
    return _Scope(Span(TraceContext.parse(handed_on)))


def begun(name: str, **values: Value) -> _Scope:
    """What nobody has asked for, for the length of a block: a trace begins with it, or none."""
    if _recorder is None or not _recorder.draws():
        return _Scope(NOTHING)
    return _begun(_recorder, name, kind="internal", parent=None, links=(), values=values)


def request(traceparent: str | None) -> Span:
    """What a caller asks for: it is what goes on from now on, in this task, until it is ended.

    A span is recorded where this installation decides so; what the caller says of that is a wish, since anybody may say
    it. What is handed on has our decision, so what a row says can be relied on.

    Args:
        traceparent: The caller's.
    """
    caller = TraceContext.parse(traceparent)
    found = NOTHING
    if _recorder is not None and (_recorder.draws() if caller is None else _recorder.admits(caller)):
        adopted = caller is not None and _recorder.adopts(caller)
        links = [caller] if caller is not None and not adopted else []
        found = _recorder.begin("request", kind="server", parent=caller if adopted else None, links=links, values={})
    elif caller is not None:
        found = Span(TraceContext(caller.trace_id, caller.span_id, sampled=False))
    _here.set(found)
    return found


def apart(work: Coroutine[Any, Any, _T], *, name: str) -> asyncio.Task[_T]:
    """A task that outlives whoever begins it, and is no part of what is going on for them.

    Args:
        work: What it does.
        name: Of the task.
    """
    return asyncio.create_task(work, name=name, context=contextvars.Context())


def together(name: str, handed_on: Iterable[str | None], *, kind: Kind = "internal", **values: Value) -> Together:
    """Work that serves several traces at once, for the length of a block: it is a span in each of them.

    The first one names the others, and each of them the first. What goes on now, if it is recorded and none of them, is
    named by all.

    Args:
        name: As for `span`.
        handed_on: By which the work came together.
        kind: As for `span`.
        values: As for `span`.
    """
    made = Together()
    if _recorder is None:
        return made
    asked = dict.fromkeys(text for text in handed_on if text is not None)
    contexts = [context for text in asked if (context := TraceContext.parse(text)) is not None and context.sampled]
    outer = _here.get()
    named = [outer.context] if outer.recorded and outer.context is not None and outer.context not in contexts else []
    for context in contexts[:TOGETHER]:
        others = [*named, *(contexts[1:] if not made.spans else [made.first])]
        links = [other for other in others if other.span_id != context.span_id][:LINKS]
        made.add(context, _recorder.begin(name, kind=kind, parent=context, links=links, values=_ours(values)))
    return made


def waited(name: str, since: datetime, **values: Value) -> None:
    """Tell of a time in which nothing was done, once it is over, if what goes on now is recorded."""
    outer = _here.get()
    if _recorder is not None and outer.recorded:
        kind: Kind = "internal"
        _recorder.begin(name, kind=kind, parent=outer.context, values=_ours(values), since=since).end()


class Together:
    """The spans of work that serves several traces; a context manager that ends them."""

    def __init__(self) -> None:
        self.spans: dict[str, Span] = {}

    @property
    def first(self) -> TraceContext:
        """That of the first trace."""
        context = next(iter(self.spans.values())).context
        if context is None:
            raise RuntimeError("a span that is recorded has a context")
        return context

    def add(self, context: TraceContext, span: Span) -> None:
        """Take a span in, by where its trace came from."""
        self.spans[str(context)] = span

    def handed_on(self, text: str | None) -> str | None:
        """What brings on the work that came by a text: from here, or, if it is not recorded, from where it came."""
        found = None if text is None else self.spans.get(text)
        return text if found is None else str(found.context)

    def set(self, **values: Value) -> None:
        """Tell something of all of them."""
        for each in self.spans.values():
            each.set(**values)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        for each in self.spans.values():
            if error is not None:
                each.fail(_kind_of(error))
            each.end()


class _Scope:
    """The block of a span."""

    __slots__ = ("_span", "_token")

    def __init__(self, span: Span) -> None:
        self._span = span

    def __enter__(self) -> Span:
        self._token = _here.set(self._span)
        return self._span

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        _here.reset(self._token)


class _Recorded(_Scope):
    """The block of a span that is recorded, and ends with it."""

    __slots__ = ()

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        super().__exit__(kind, error, traceback)
        if error is not None:
            self._span.fail(_kind_of(error))
        self._span.end()


def _begun(  # noqa: PLR0913  (what a span is made of)
    recorder: Recorder,
    name: str,
    *,
    kind: Kind,
    parent: TraceContext | None,
    links: Iterable[str | None],
    values: Mapping[str, Value],
) -> _Scope:
    named = [context for text in links if (context := TraceContext.parse(text)) is not None][:LINKS]
    return _Recorded(recorder.begin(name, kind=kind, parent=parent, links=named, values=_ours(values)))


def _ours(values: Mapping[str, Value]) -> Mapping[str, Value]:
    return {f"{PREFIX}{name}": value for name, value in values.items()}


def _kind_of(error: BaseException) -> str:
    return error.code if isinstance(error, AnabranchError) else type(error).__name__
