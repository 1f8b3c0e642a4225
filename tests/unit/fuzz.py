"""What parsers are fed with that nobody thought of: any bytes, and good ones of their kind with a few bytes altered.

ANABRANCH_FUZZ_EXAMPLES says how many, by chance then; without it they are always the same.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from anabranch.model.errors import AnabranchError

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

EXAMPLES = os.environ.get("ANABRANCH_FUZZ_EXAMPLES")
fuzzed = settings(
    max_examples=int(EXAMPLES or 60),
    derandomize=EXAMPLES is None,
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
JSONS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda value: st.lists(value, max_size=4) | st.dictionaries(st.text(max_size=4), value, max_size=4),
    max_leaves=12,
)

PIECES = (b"\0", b"\xff", b"\r\n", b'"', b"[" * 70, b"[" * 3_000)


@st.composite
def altered(draw, *good: bytes) -> bytes:
    """Something good with up to four pieces exchanged, left out or doubled."""
    data = bytearray(draw(st.sampled_from(good)))
    for _ in range(draw(st.integers(0, 4))):
        start = draw(st.integers(0, len(data)))
        end = draw(st.integers(start, min(len(data), start + 8)))
        data[start:end] = draw(st.binary(max_size=8) | st.sampled_from(PIECES))
    return bytes(data)


def inputs(*good: bytes) -> st.SearchStrategy[bytes]:
    return st.binary(max_size=200) | altered(*good)


def texts(*good: str) -> st.SearchStrategy[str]:
    """As headers and queries come: decoded from whatever bytes there were."""
    return st.text(max_size=80) | altered(*(each.encode() for each in good)).map(lambda data: data.decode("latin-1"))


def refused(parse: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    """What a parser gives; None, if it refuses in words."""
    try:
        return parse(*arguments, **named)
    except AnabranchError as error:
        told = error
    assert told.detail
    assert told.hint
    assert told.status < 500
    assert len(told.detail) < 1_000
    return None
