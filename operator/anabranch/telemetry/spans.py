"""What a span is to those who tell of their work, and what records it, whichever library that is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    from anabranch.model.trace import TraceContext

Kind: TypeAlias = Literal["internal", "server", "client", "consumer", "producer"]
Value: TypeAlias = "str | int | float | bool | None"

PREFIX: Final = "anabranch."
"""Of the names that are ours."""


class Span:
    """A piece of work. This one is not recorded: it only tells where the work stands.

    Attributes:
        context: By which others name it; None: nobody has begun a trace.
        recorded: Whether it is.
    """

    __slots__ = ("context",)

    recorded = False

    def __init__(self, context: TraceContext | None) -> None:
        self.context = context

    def set(self, **values: Value) -> None:
        """Tell something of it, by names of ours; None tells nothing."""

    def describe(self, values: Mapping[str, Value]) -> None:
        """Tell something of it, by names of OpenTelemetry's conventions."""

    def link(self, handed_on: Iterable[str | None]) -> None:
        """Name other spans that it has to do with, by what they handed on."""

    def rename(self, name: str) -> None:
        """Name it, once that is known."""

    def fail(self, kind: str) -> None:
        """It came to nothing, for a reason of this kind."""

    def end(self) -> None:
        """It is over."""


class Recorder(Protocol):
    """Records spans, in a process that exports them."""

    def draws(self) -> bool:
        """Whether a trace that begins here is to be recorded."""

    def admits(self, caller: TraceContext) -> bool:
        """Whether to record what a caller asks for, who may be anybody."""

    def adopts(self, caller: TraceContext) -> bool:
        """Whether a caller's trace goes on here; else a trace of our own names it."""

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
        """Begin a span, which is recorded."""
