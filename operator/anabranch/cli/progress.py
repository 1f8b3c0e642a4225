"""How far long work has come, on standard error, where a person looks at it."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@contextmanager
def progress(what: str, *, total: int | None) -> Iterator[Callable[[int], None]]:
    """Show a bar while the block runs, and nothing afterwards; nothing at all where standard error is no terminal.

    Args:
        what: What is done: ``reading``.
        total: How much there is; None: not known.

    Yields:
        What takes how much is done by now.
    """
    if not sys.stderr.isatty():
        yield lambda _done: None
        return
    from rich.console import Console  # noqa: PLC0415  (for terminals alone)
    from rich.progress import Progress  # noqa: PLC0415

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=total)
        yield lambda done: bar.update(task, completed=done)
