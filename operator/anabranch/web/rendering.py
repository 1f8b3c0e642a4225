"""Templates, and how a value reads in one. Everything that is put into a page is escaped, whoever wrote it."""

from __future__ import annotations

import shlex
from datetime import UTC, datetime
from typing import Final

from jinja2 import Environment, PackageLoader, StrictUndefined

from anabranch.domain.wording import visible
from anabranch.web.static import VERSION
from anabranch.web.voices import who

_UNITS: Final = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))
_SHORT: Final = 14


def environment() -> Environment:
    """The templates of this package."""
    made = Environment(
        loader=PackageLoader("anabranch.web"),
        autoescape=True,
        finalize=lambda value: visible(value) if type(value) is str else value,  # what is not seen is written out
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "ago": ago,
        "moment": lambda at: f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC",
        "iso": lambda at: at.astimezone(UTC).isoformat(),
        "who": who,
        "brief": brief,
        "plural": plural,
        "shell": shlex.quote,
    }
    made.globals["files"] = VERSION
    return made


def ago(at: datetime, *, now: datetime | None = None) -> str:
    """How long ago a time is, in one unit: ``4 min``."""
    seconds = max(int(((now or datetime.now(UTC)) - at).total_seconds()), 0)
    unit, size = next((unit, size) for unit, size in _UNITS if seconds >= size or size == 1)
    return f"{seconds // size} {unit}"


def brief(text: str) -> str:
    """A digest or an id, cut to what tells it apart at a glance."""
    kind, _, rest = text.rpartition(":")
    head = f"{kind}:" if kind else ""
    return text if len(rest) <= _SHORT + 2 else f"{head}{rest[:_SHORT]}…"


def plural(count: int, one: str, many: str = "") -> str:
    """A number of things: ``1 job``, ``2 jobs``."""
    return f"{count} {one if count == 1 else many or one + 's'}"
