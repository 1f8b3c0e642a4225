"""Answers that hold stored JSON as it is.

It was checked when it came in, and is not taken apart to be put together again: a megabyte of small values takes fifty
as objects. An answer that is made of the bytes takes no more than they do, whatever they say.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pydantic import BaseModel


def with_content(model: BaseModel, content: bytes) -> bytes:
    """The JSON of a model with another `content` than the null that it has.

    Args:
        model: Whose `content` is None.
        content: JSON.
    """
    # In a text the quotes would be escaped: no key or scope before it can look like the member.
    return model.model_dump_json().encode().replace(b'"content":null', b'"content":' + content, 1)


def with_items(page: BaseModel, items: Iterable[bytes]) -> bytes:
    """The JSON of a page with other items than the none that it has.

    Args:
        page: Whose `items` are empty.
        items: JSON each.
    """
    return page.model_dump_json().encode().replace(b'"items":[]', b'"items":[' + b",".join(items) + b"]", 1)
