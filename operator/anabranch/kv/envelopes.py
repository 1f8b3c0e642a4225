"""Structured memories: what an agent gives, and the JSON object that it becomes.

The object marks itself, so a memory that was written as a plain record is one too. Then it has to be just as
`remember` would have written it, or two ways to write would give two kinds of memories.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from pydantic import ValidationError

from anabranch.model import misfits
from anabranch.model.breadth import check_breadth
from anabranch.model.canonical import canonical_bytes
from anabranch.model.errors import InvalidInputError
from anabranch.model.kv import Memory, MemoryInput
from anabranch.model.limits import KV_MEMORY_BYTES, KV_MEMORY_TAGS, KV_METADATA_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterable

MARK: Final = "_instantkv_memory"

_LABEL_BYTES: Final = 64
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")


def made_of(given: MemoryInput, *, now_ms: int) -> Memory:
    """The memory that an agent gives, with its labels in their one form.

    Args:
        given: By the agent.
        now_ms: When it happened, unless that is said.

    Raises:
        InvalidInputError: Naming the member that does not fit, and its limit.
    """
    size = len(given.content.encode())
    if not given.content.strip() or size > KV_MEMORY_BYTES:
        raise InvalidInputError(
            f"`content` has {size} bytes; it takes 1 to {KV_MEMORY_BYTES}, and not white space alone.",
            hint="Keep one fact in a memory.",
        )
    if len(given.tags) > KV_MEMORY_TAGS:
        raise InvalidInputError(f"`tags` has {len(given.tags)} labels, the limit is {KV_MEMORY_TAGS}.")
    if (size := len(canonical_bytes(given.metadata))) > KV_METADATA_BYTES:
        raise InvalidInputError(
            f"`metadata` has {size} bytes, the limit is {KV_METADATA_BYTES}.", hint="Keep the rest in a record."
        )
    return Memory(
        content=given.content,
        topic=None if given.topic is None else label(given.topic, field="topic"),
        tags=_sorted(label(tag, field="tags") for tag in given.tags),
        metadata=given.metadata,
        occurred_at_ms=now_ms if given.occurred_at_ms is None else given.occurred_at_ms,
    )


def label(text: str, *, field: str) -> str:
    """A label in its one form: without white space around it, in lower case.

    Raises:
        InvalidInputError: If it has not 1 to 64 bytes then, or holds a control character.
    """
    plain = text.strip().lower()
    if not plain or len(plain.encode()) > _LABEL_BYTES or _CONTROL.search(plain):
        raise InvalidInputError(
            f"`{field}` takes labels of 1 to {_LABEL_BYTES} bytes without control characters.", hint="Shorten it."
        )
    return plain


def envelope_of(content: Any) -> Memory | None:
    """The memory that a JSON value marks itself as; None: it does not.

    Raises:
        InvalidInputError: If it does, and is not as `remember` would have written it.
    """
    if not isinstance(content, dict) or MARK not in content:
        return None
    check_breadth(Memory, content, within="value")
    try:
        memory = Memory.model_validate(content)
    except ValidationError as error:
        raise misfits.refusal(error, within="value", hint=_WRITTEN) from None
    given = MemoryInput.model_construct(
        content=memory.content,
        topic=memory.topic,
        tags=memory.tags,
        metadata=memory.metadata,
        occurred_at_ms=memory.occurred_at_ms,
    )
    if made_of(given, now_ms=0) != memory:
        raise InvalidInputError("The labels of the structured memory are not in their one form.", hint=_WRITTEN)
    return memory


_WRITTEN: Final = f"Write it by POST …/memories, or without the member {MARK}."


def _sorted(labels: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(set(labels)))
