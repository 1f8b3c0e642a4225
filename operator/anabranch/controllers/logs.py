"""How the operator logs: one JSON object a line where a machine reads, plain text on a terminal.

Ours and the libraries' lines come out alike. kopf tells of every object that it handles; only its warnings are kept.
"""

from __future__ import annotations

import logging
import sys
from typing import Any, Final

import structlog

_QUIET: Final = ("kopf", "aiohttp", "asyncio", "httpx")


def configure(*, level: str = "INFO") -> None:
    """Set up logging for this process, to standard error.

    Args:
        level: The least severe level shown, by its name in `logging`.
    """
    terminal = sys.stderr.isatty()
    shared: list[Any] = [
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    plain = structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
    shown = [plain] if terminal else [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *shown],
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
