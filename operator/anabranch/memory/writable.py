"""What an agent may write down: the one place that says so, for HTTP, MCP and the SDK alike.

The sections that agents write are listed; whatever is not on the list is refused by its name, first of all what the
platform alone writes. The table of sections would refuse it, too.
"""

from __future__ import annotations

import re
from datetime import date
from typing import TYPE_CHECKING, Final

from anabranch.model.canonical import canonical_bytes, check_json, sha256
from anabranch.model.errors import InvalidInputError, QuotaExceededError, SectionNotWritableError, TooLargeError
from anabranch.model.limits import MEMORY_BYTES, MEMORY_ITEMS, MEMORY_SECTION_BYTES
from anabranch.model.memory import SYSTEM_EXCHANGES, WRITABLE
from anabranch.store.sections import NewContent

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from pydantic import JsonValue

    from anabranch.model.memory import AgentKey, MemoryVisibility
    from anabranch.store.sections import SectionState

SHARED: Final = "shared"

_INSTANCE: Final = re.compile(r"[a-z0-9]([-._a-z0-9]{0,61}[a-z0-9])?")
_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d")
_NAMED: Final = ", ".join(WRITABLE)


def check_section(section: str) -> None:
    """Check that agents may write a section.

    Raises:
        SectionNotWritableError: If the platform alone does.
        InvalidInputError: If there is none of that name.
    """
    if section in WRITABLE:
        return
    if section == SYSTEM_EXCHANGES:
        raise SectionNotWritableError(
            f"The section {SYSTEM_EXCHANGES} is written by the platform alone.",
            hint=f"Write one of {_NAMED}.",
            section=section,
            writable=list(WRITABLE),
        )
    raise unknown(section)


def unknown(section: str) -> InvalidInputError:
    """What is said of a section that there is not."""
    return InvalidInputError(
        f"There is no section {section[:80]!r}.", hint=f"There are {_NAMED}, and {SYSTEM_EXCHANGES} to be read."
    )


def item_of(section: str, item: str | None, *, needed: bool = True) -> str:
    """The name under which an item is kept: empty, where a section has one content.

    Args:
        section: One that agents write.
        item: As the caller names it; None or empty: not at all.
        needed: Whether a section of several items needs one to be named.

    Raises:
        InvalidInputError: If the section has no items, or none of such a name.
    """
    if section == "daily":
        wanted, fits = "a date, like 2026-01-31", _is_date
    elif section == "relationships":
        wanted, fits = "another instance of the agent", _is_instance
    elif item:
        raise InvalidInputError(f"The section {section} has no items.", hint="Leave the item out.")
    else:
        return ""
    if not item and not needed:
        return ""
    if not item or not fits(item):
        raise InvalidInputError(f"An item of {section} is {wanted}, not {item!r}.", hint="Name the item.")
    return item


def envelope_of(who: AgentKey, section: str) -> AgentKey:
    """Whose envelope a section belongs to: the instance's own, or that of the agent as a whole."""
    return who.whole if section == SHARED else who


def content(
    section: str, item: str | None, *, content: JsonValue, visibility: MemoryVisibility | None, field: str = "content"
) -> NewContent:
    """What an agent wants to write, in the form in which it is kept.

    Args:
        section: Its name, as the caller gives it.
        item: Likewise.
        content: Any JSON value.
        visibility: None: private, or what the section is by its nature.
        field: What errors call the content.

    Raises:
        SectionNotWritableError: If the platform alone writes the section.
        InvalidInputError: If section or item are none, the content has no canonical form, or the section cannot have
            the visibility.
        TooLargeError: If the content is larger than 256 KiB.
    """
    check_section(section)
    name = item_of(section, item)
    if section == SHARED and visibility == "private":
        raise InvalidInputError(
            "The section shared is that of all the agent's instances.", hint="Write what is private to long_term."
        )
    check_json(content, path=field)
    body = canonical_bytes(content)
    if len(body) > MEMORY_SECTION_BYTES:
        raise TooLargeError(
            f"{field} has {len(body)} bytes, the limit is {MEMORY_SECTION_BYTES}.",
            hint="Keep what matters, or put the rest into private records of a branch.",
            limit=MEMORY_SECTION_BYTES,
        )
    return NewContent(
        section=section,
        item=name,
        body=body,
        content_hash=sha256(body),
        visibility="instances" if section == SHARED else visibility or "private",
    )


def check_room(
    have: Mapping[tuple[str, str], SectionState],
    *,
    written: Collection[NewContent],
    removed: Iterable[tuple[str, str]] = (),
) -> None:
    """Check that an envelope has room for a write; one that makes it smaller may always be made.

    Raises:
        QuotaExceededError: If it would hold more than it may.
    """
    before = {place: state.size for place, state in have.items()}
    after = before | {(content.section, content.item): len(content.body) for content in written}
    for place in removed:
        after.pop(place, None)
    for name, was, is_now, limit in (
        ("items", len(before), len(after), MEMORY_ITEMS),
        ("bytes", sum(before.values()), sum(after.values()), MEMORY_BYTES),
    ):
        if is_now > limit and is_now > was:
            raise QuotaExceededError(
                f"The memory would hold {is_now} {name}, the limit is {limit}.",
                hint="Remove what is no longer needed: days long past, or what is in long_term by now.",
                limit=limit,
            )


def _is_date(text: str) -> bool:
    if not _DATE.fullmatch(text):
        return False
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True


def _is_instance(text: str) -> bool:
    return _INSTANCE.fullmatch(text) is not None
