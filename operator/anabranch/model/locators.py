"""Source locators: where a finding says that it comes from.

Six kinds, by prefix. Parsing is syntax only; whether a locator resolves, and for whom, is the consolidation's business.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal, cast
from urllib.parse import urlsplit

from anabranch.model.errors import InvalidInputError

Kind = Literal["evidence", "record", "checkpoint", "git", "https", "import"]

MAX_LOCATOR_BYTES: Final = 1_024
_UNPRINTABLE: Final = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")
_DIGEST: Final = r"sha256:[0-9a-f]{64}"
_FORMS: Final[dict[Kind, re.Pattern[str]]] = {
    "evidence": re.compile(rf"evidence:(?P<digest>{_DIGEST})"),
    "record": re.compile(r"record:(?P<key>.+)@(?P<revision>[1-9][0-9]{0,17})", re.DOTALL),
    "checkpoint": re.compile(r"checkpoint:(?P<id>[A-Za-z0-9_.-]+)"),
    "git": re.compile(
        r"git:(?P<repository>[a-z0-9][a-z0-9.-]*)@(?P<commit>[0-9a-f]{40}|[0-9a-f]{64}):(?P<path>.+)", re.DOTALL
    ),
    "https": re.compile(r"(?P<url>https://.+)", re.DOTALL),
    "import": re.compile(rf"import:(?P<path>.+)@(?P<digest>{_DIGEST})", re.DOTALL),
}


@dataclass(frozen=True)
class Locator:
    """A parsed locator: its kind, its text, and the named parts of its form (digest, key, revision, …)."""

    kind: Kind
    text: str
    parts: dict[str, str]


def parse_locator(text: str) -> Locator:
    """Parse a source locator.

    Raises:
        InvalidInputError: If it has none of the six forms, is longer than 1,024 bytes, or holds control characters.
    """
    if len(text.encode(errors="replace")) > MAX_LOCATOR_BYTES:
        raise InvalidInputError(f"A source locator is longer than {MAX_LOCATOR_BYTES} bytes.", hint="Upload evidence.")
    if _UNPRINTABLE.search(text):
        raise InvalidInputError(f"The source locator {text[:80]!r} holds control characters.", hint="Remove them.")
    kind = cast("Kind", text.partition(":")[0])
    if (form := _FORMS.get(kind)) and (match := form.fullmatch(text)):
        parts = match.groupdict()
        path = parts.get("path", "")
        outside = kind in ("git", "import") and (path.startswith("/") or ".." in path.split("/"))
        if not outside and (kind != "https" or _has_host(text)):
            return Locator(kind, text, parts)
    raise InvalidInputError(
        f"{text[:80]!r} is no source locator.",
        hint="Use evidence:sha256:…, record:<key>@<revision>, checkpoint:<id>, git:<repository>@<commit>:<path>, "
        "https://… or import:<path>@sha256:….",
    )


@lru_cache(maxsize=1_024)
def check_locator(text: str) -> str:
    """The text itself, if it is a source locator (see `parse_locator`).

    The last ones are remembered: all records of a document have the same.
    """
    return parse_locator(text).text


def _has_host(url: str) -> bool:
    try:
        return bool(urlsplit(url).hostname)
    except ValueError:  # such as an unclosed bracket
        return False
