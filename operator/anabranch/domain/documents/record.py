"""One record as a document states it, before an import adds where it came from.

Every format ends here, so that a wrong key in a JSON Lines file and one in front matter are refused in the same words,
each naming the file and the line.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal, get_args

from anabranch.model.canonical import check_json
from anabranch.model.errors import InvalidInputError
from anabranch.model.locators import parse_locator
from anabranch.model.text import check_key, check_scope

Visibility = Literal["private", "shareable"]

_MEMBERS: Final = frozenset({"key", "content", "scope", "sources", "visibility"})
_SOURCE_KINDS: Final = ("https", "git")


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentRecord:
    """A record that a document states.

    Attributes:
        key: Where the record stands in the line, such as ``runbooks/build-failures#linker-killed``.
        content: Any JSON value.
        scope: The scope that the document names, or None where it names none.
        sources: Locators that the document itself names (``https:…``, ``git:…``), besides the file.
        visibility: ``private`` where the document asks to stay out of the shared memory; an import leaves it out.
        place: Path and line for people, such as ``runbooks/build-failures.md:12``.
    """

    key: str
    content: Any
    scope: str | None = None
    sources: tuple[str, ...] = ()
    visibility: Visibility = "shareable"
    place: str


def is_explicit(value: object) -> bool:
    """Whether a JSON value states a record itself: an object with the members ``key`` and ``content``."""
    return isinstance(value, dict) and "key" in value and "content" in value


def explicit_record(value: dict[str, Any], *, place: str) -> DocumentRecord:
    """The record that a ``{key, content, scope?, sources?, visibility?}`` object states.

    Raises:
        InvalidInputError: On another member, or on one that its grammar refuses; naming the place.
    """
    if unknown := sorted(value.keys() - _MEMBERS):
        raise InvalidInputError(
            f"{place}: a record has no member {unknown[0]!r}.", hint=f"Use {', '.join(sorted(_MEMBERS))}."
        )
    return checked_record(
        key=value["key"],
        content=value["content"],
        scope=value.get("scope"),
        sources=value.get("sources", ()),
        visibility=value.get("visibility", "shareable"),
        place=place,
    )


def checked_record(  # noqa: PLR0913  (one parameter for each member, all named)
    *,
    key: object,
    content: Any,
    scope: object = None,
    sources: object = (),
    visibility: object = "shareable",
    place: str,
) -> DocumentRecord:
    """A record of values that a document gave, each checked.

    Raises:
        InvalidInputError: Naming the place and the member.
    """
    try:
        check_json(content, path="content")
        return DocumentRecord(
            key=check_key(key),
            content=content,
            scope=None if scope is None else check_scope(scope),
            sources=_check_sources(sources),
            visibility=_check_visibility(visibility),
            place=place,
        )
    except InvalidInputError as error:
        raise at_place(place, error) from None


def at_place(place: str, error: InvalidInputError) -> InvalidInputError:
    """The same error, saying where in which document."""
    return InvalidInputError(f"{place}: {error.detail}", hint=error.hint, **error.extra)


def _check_sources(sources: object) -> tuple[str, ...]:
    if not isinstance(sources, list | tuple):
        raise InvalidInputError("sources is not a list.", hint="Write a list of https: and git: locators.")
    for index, source in enumerate(sources):
        if not isinstance(source, str) or parse_locator(source).kind not in _SOURCE_KINDS:
            raise InvalidInputError(
                f"sources[{index}] is neither an https: nor a git: locator.",
                hint="A document may cite https:… and git:<repository>@<commit>:<path>; the file itself is added.",
            )
    return tuple(sources)


def _check_visibility(visibility: object) -> Visibility:
    if visibility == "private":
        return "private"
    if visibility == "shareable":
        return "shareable"
    raise InvalidInputError("visibility is unknown.", hint=f"Write one of {', '.join(get_args(Visibility))}.")
