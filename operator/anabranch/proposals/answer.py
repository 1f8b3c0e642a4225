"""What a model's answer amounts to: content for a candidate, or nothing.

A model sets the content of a proposal and nothing else. Key, scope, visibility, sources and runs are those of what it
was made from, whatever the answer says of them; an answer that tries to say more is no answer. And of the content, all
is refused that can be told from a merge without knowing what is true: another kind of value, members and addresses that
nobody named, much more text than there was, or just what one side says already. The rest is for people to judge.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from anabranch.model.canonical import canonical_bytes, parse_json
from anabranch.model.errors import InvalidInputError
from anabranch.model.limits import CONTENT_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_ROOM: Final = 1_024
"""Bytes that a merge may have beyond twice what it was made from: to say that two texts differ takes some words."""

_SUMMARY_CHARACTERS: Final = 4_000
"""More than it is asked for: models count badly."""

_FENCED: Final = re.compile(r"```(?:json)?\s*\n(.*)\n\s*```", re.DOTALL)
_ADDRESS: Final = re.compile(r"[a-z][a-z0-9+.-]*://[^\s\"'<>)\]]+", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Written:
    """Content for a candidate.

    Attributes:
        body: Canonical JSON.
    """

    body: bytes


@dataclass(frozen=True, slots=True)
class Nothing:
    """There is no proposal.

    Attributes:
        reason: CamelCase: ``Declined`` if the model said so, else what is wrong with its answer.
        detail: The same for people; never in the model's words.
    """

    reason: str
    detail: str


def merged(text: str, *, sides: Sequence[bytes]) -> Written | Nothing:
    """Read an answer to `prompt.merge`.

    Args:
        text: All that the model said.
        sides: Canonical JSON of what it was asked about.
    """
    found = _value(text, member="merged")
    if isinstance(found, Nothing):
        return found
    contents = [parse_json(side) for side in sides]
    body = canonical_bytes(found.value)
    if body in sides:
        return Nothing("SaysOneSide", "the model repeats one of the sides")
    if len(body) > min(CONTENT_BYTES, 2 * sum(map(len, sides)) + _ROOM):
        return Nothing("TooLong", "the model's answer is much longer than what it was made from")
    if _kind(found.value) not in {_kind(content) for content in contents}:
        return Nothing("OtherKind", "the model's answer is another kind of JSON value than any of the sides")
    if not set(_names(found.value)) <= {name for content in contents for name in _names(content)}:
        return Nothing("InventedMember", "the model's answer has a member that none of the sides has")
    return _without_inventions(found.value, contents) or Written(body)


def summed_up(text: str, *, sides: Sequence[bytes]) -> Written | Nothing:
    """Read an answer to `prompt.summary`; arguments as those of `merged`."""
    found = _value(text, member="summary")
    if isinstance(found, Nothing):
        return found
    if not isinstance(found.value, str) or not found.value.strip():
        return Nothing("OtherKind", "the model's summary is no text")
    if len(found.value) > _SUMMARY_CHARACTERS:
        return Nothing("TooLong", "the model's summary is much longer than it was asked for")
    body = canonical_bytes(found.value)
    if body in sides:
        return Nothing("SaysOneSide", "the model repeats what is there")
    return _without_inventions(found.value, [parse_json(side) for side in sides]) or Written(body)


@dataclass(frozen=True, slots=True)
class _Found:
    value: Any


def _value(text: str, *, member: str) -> _Found | Nothing:
    """The value that an answer gives, which is one JSON object of one member, perhaps in a fence as Markdown has it."""
    stripped = text.strip()
    fenced = _FENCED.fullmatch(stripped)
    try:
        whole = parse_json(fenced[1] if fenced else stripped)
    except InvalidInputError:
        return Nothing("NotJson", "the model's answer is not JSON")
    match whole:
        case {"declined": True, **rest} if not rest:
            return Nothing("Declined", "the model found nothing that it could write")
        case dict() if len(whole) == 1 and whole.get(member) is not None:
            return _Found(whole[member])
        case _:
            return Nothing("OtherForm", "the model's answer is not of the form that it was asked for")


def _without_inventions(value: Any, contents: Sequence[Any]) -> Nothing | None:
    """What is wrong with the addresses in a value: nobody checks a link that looks as if it had always been there."""
    known = {address for content in contents for text in _texts(content) for address in _addresses(text)}
    if not {address for text in _texts(value) for address in _addresses(text)} <= known:
        return Nothing("InventedAddress", "the model's answer has an address that none of the sides has")
    return None


def _kind(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return "bool or null"
    return "number" if isinstance(value, int | float) else type(value).__name__


def _names(value: Any) -> Iterator[str]:
    """The names of all members, at any depth."""
    if isinstance(value, dict):
        for name, member in value.items():
            yield name
            yield from _names(member)
    elif isinstance(value, list):
        for member in value:
            yield from _names(member)


def _texts(value: Any) -> Iterator[str]:
    """All texts but the names of members, at any depth."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for member in value.values():
            yield from _texts(member)
    elif isinstance(value, list):
        for member in value:
            yield from _texts(member)


def _addresses(text: str) -> Iterator[str]:
    """The addresses in a text, without what may end the sentence behind them."""
    for found in _ADDRESS.findall(text):
        yield found.rstrip(".,;:!?")
