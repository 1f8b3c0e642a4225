"""How a process logs: one JSON object a line where a machine reads, plain text on a terminal.

Ours and the libraries' lines come out alike, each with the ids of what it is about: whoever takes up a request, a job
or an object binds them, and all that is said meanwhile carries them, down to the database's driver. Neither a record's
content nor a token is ever among them. kopf tells of every object that it handles; only its warnings are kept.
"""

from __future__ import annotations

import contextlib
import contextvars
import logging
import os
import re
import sys
from typing import TYPE_CHECKING, Any, Final

import structlog

from anabranch.model.errors import InvalidInputError
from anabranch.telemetry import tracing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, MutableMapping

VARIABLE: Final = "ANABRANCH_LOG_LEVEL"
LEVELS: Final = ("DEBUG", "INFO", "WARNING", "ERROR")

_QUIET: Final = ("kopf", "aiohttp", "asyncio", "httpx", "httpcore", "kubernetes", "mcp")

_ROW: Final = re.compile(r"^(DETAIL|CONTEXT|QUERY|WHERE): .*$\n?", re.MULTILINE)
"""What Postgres adds to an error for whoever may see the row that it is about."""

_ids: contextvars.ContextVar[Mapping[str, Any]] = contextvars.ContextVar("log_ids", default={})  # noqa: B039  (never changed)
_late: contextvars.ContextVar[Callable[[], Mapping[str, Any]] | None] = contextvars.ContextVar("late_ids", default=None)


def bind(ids: Mapping[str, Any], *, late: Callable[[], Mapping[str, Any]]) -> None:
    """From now on, until the task ends, say only these ids with everything that is logged.

    Args:
        ids: By name.
        late: Gives more of them, as they are known when something is logged.
    """
    _ids.set(ids)
    _late.set(late)


@contextlib.contextmanager
def bound(**ids: Any) -> Iterator[None]:
    """Say these ids with everything that is logged inside the block; those that are None are left out."""
    token = _ids.set({**_ids.get(), **{name: value for name, value in ids.items() if value is not None}})
    try:
        yield
    finally:
        _ids.reset(token)


def ids() -> Mapping[str, Any]:
    """The ids that are bound now."""
    return _ids.get()


def configure(*, level: str | None = None) -> None:
    """Set up logging for this process, to standard error.

    Args:
        level: The least severe level shown; None: what ``ANABRANCH_LOG_LEVEL`` says, else INFO.

    Raises:
        InvalidInputError: If there is no such level.
    """
    level = (level or os.environ.get(VARIABLE) or "INFO").upper()
    if level not in LEVELS:
        raise InvalidInputError(f"{VARIABLE} is {level!r}.", hint=f"Give it one of {', '.join(LEVELS)}.")
    terminal = sys.stderr.isatty()
    shared: list[Any] = [
        _with_ids,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    plain = structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
    machine = [structlog.processors.format_exc_info, _without_rows, structlog.processors.JSONRenderer()]
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                *([plain] if terminal else machine),
            ],
        )
    )
    logging.basicConfig(handlers=[handler], level=level, force=True)
    for name in _QUIET:
        logging.getLogger(name).setLevel(max(logging.WARNING, logging.getLogger().level))
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.stdlib.BoundLogger,
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )


def _with_ids(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Add the ids that are bound, and those of the trace; what the line says itself comes first."""
    late = _late.get()
    return {**_ids.get(), **tracing.ids(), **(late() if late is not None else {}), **event}


def _without_rows(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Leave out the rows that Postgres quotes in its errors: they may hold what an agent wrote."""
    for member in ("exception", "error", "event"):
        if isinstance(text := event.get(member), str) and "\n" in text:
            event[member] = _ROW.sub("", text)
    return event
