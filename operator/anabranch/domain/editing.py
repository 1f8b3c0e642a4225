"""A record's content as a person edits it, and back: whatever they leave alone comes back as it was.

A text is edited as it is. Everything else is JSON, which has no lines, so it is edited as YAML; the few characters that
YAML would not give back are escaped.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

from anabranch.domain.documents.strict_yaml import parse_yaml
from anabranch.domain.wording import as_yaml
from anabranch.model.errors import InvalidInputError

if TYPE_CHECKING:
    from pydantic import JsonValue

_FOLDED: Final = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
"""What YAML takes for an end of a line, or for nothing; JSON allows all of it in a text."""

_PLACE: Final = "What you have written"


def editable(content: JsonValue) -> tuple[str, bool]:
    """A content as it is edited, and whether that is the text itself."""
    if isinstance(content, str):
        return content, True
    text = as_yaml(content).removesuffix("...\n")
    try:
        same = parse_yaml(text, place=_PLACE) == content
    except InvalidInputError:
        same = False
    return (text if same else _as_json(content)), False


def written(field: str) -> str:
    """What a person has written, of what a form sends: browsers send every end of a line as two characters."""
    return field.replace("\r\n", "\n")


def edited(text: str, *, plain: bool) -> Any:
    """The content of what a person has written.

    Args:
        text: As they wrote it.
        plain: Whether it is the content itself.

    Raises:
        InvalidInputError: If it is no YAML, naming the line.
    """
    return text if plain else parse_yaml(text, place=_PLACE)


def _as_json(content: JsonValue) -> str:
    text = json.dumps(content, ensure_ascii=False, indent=2)
    return _FOLDED.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
