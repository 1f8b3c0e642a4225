"""Server-sent events as they arrive: whole or in any pieces, within bounds, and never half."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.client.sse import EVENT_BYTES, Message, Parser
from anabranch.model.errors import UnavailableError

STREAM = (
    b"retry: 700\n\n"
    b": a comment\n"
    b"id: one\nevent: first\ndata: a\n\n"
    b"data:no space\r\ndata:  two\r\n\r\n"
    b":\n\n"
    b"id: two\revent: bookmark\r\r"
    b"id: bad\0id\ndata\n\n"
    b"event: cut off\ndata: in the mid"
)
MESSAGES = [
    Message("first", "a", "one"),
    Message("", "no space\n two", "one"),
    Message("bookmark", "", "two"),
    Message("", "", "two"),
]


def parsed(*pieces):
    parser = Parser()
    return [message for piece in pieces for message in parser.feed(piece)]


def test_a_stream_is_parsed_as_the_standard_says_and_what_is_cut_off_is_not_seen():
    assert parsed(STREAM) == MESSAGES


@given(st.lists(st.integers(0, len(STREAM)), max_size=12))
def test_it_does_not_matter_in_which_pieces_a_stream_arrives(cuts):
    places = [0, *sorted(cuts), len(STREAM)]
    assert parsed(*(STREAM[a:b] for a, b in itertools.pairwise(places))) == MESSAGES


def test_only_line_feeds_and_carriage_returns_end_lines():
    assert parsed("data: one\u2028two\x85three\n\n".encode())[0].data == "one\u2028two\x85three"


@pytest.mark.parametrize(
    "piece", [b"data: " + b"x" * 70_000, b"data: xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\n" * 2_000]
)
def test_an_event_without_an_end_does_not_take_the_memory(piece):
    with pytest.raises(UnavailableError, match=str(EVENT_BYTES)):
        parsed(*[piece] * 20)
