"""Templates, and how a value reads in one. Everything that is put into a page is escaped, whoever wrote it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined

from anabranch.domain.wording import visible
from anabranch.web.static import VERSION

if TYPE_CHECKING:
    from collections.abc import Iterable

_ACCOUNT: Final = "system:serviceaccount:"
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
    }
    made.globals["files"] = VERSION
    return made


def ago(at: datetime, *, now: datetime | None = None) -> str:
    """How long ago a time is, in one unit: ``4 min``."""
    seconds = max(int(((now or datetime.now(UTC)) - at).total_seconds()), 0)
    unit, size = next((unit, size) for unit, size in _UNITS if seconds >= size or size == 1)
    return f"{seconds // size} {unit}"


def who(username: str) -> tuple[str, str]:
    """A username as a name, and what it is a name in: a ServiceAccount's own name and its namespace."""
    if username.startswith(_ACCOUNT):
        namespace, _, name = username.removeprefix(_ACCOUNT).partition(":")
        return name, namespace
    return username, ""


def brief(text: str) -> str:
    """A digest or an id, cut to what tells it apart at a glance."""
    kind, _, rest = text.rpartition(":")
    head = f"{kind}:" if kind else ""
    return text if len(rest) <= _SHORT + 2 else f"{head}{rest[:_SHORT]}…"


def plural(count: int, one: str, many: str = "") -> str:
    """A number of things: ``1 job``, ``2 jobs``."""
    return f"{count} {one if count == 1 else many or one + 's'}"


def latest(entries: Iterable[Any]) -> list[Any]:
    """Of the decisions on a candidate the last one of each reviewer, those that were taken back left out."""
    found = {entry.reviewer: entry for entry in entries}
    return [entry for entry in found.values() if entry.action != "withdraw"]
