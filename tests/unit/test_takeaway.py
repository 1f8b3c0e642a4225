"""What is left of a conversation: the last words of who concluded it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.domain import takeaway
from anabranch.model.memory import Turn


def said(*turns: tuple[str, str]) -> str:
    return takeaway.of_turns([Turn(sender=sender, content=content) for sender, content in turns])


@pytest.mark.parametrize(
    ("turns", "expected"),
    [
        ([("a", "1"), ("b", "2"), ("a", "3"), ("b", "4"), ("a", "5")], "5"),
        ([("a", "1"), ("b", "2"), ("a", "3"), ("b", "4"), ("a", "NO_REPLY")], "3"),
        ([("a", "1"), ("b", "2"), ("b", "NO_REPLY")], "2"),
        ([("a", "1"), ("b", " no_reply\n"), ("a", "2"), ("b", "No_Reply")], ""),
        ([("a", "NO_REPLY is what I would say")], "NO_REPLY is what I would say"),
        ([("b", "2"), ("a", "NO_REPLY")], ""),
        ([], ""),
    ],
    ids=[
        "the last turn",
        "the one before NO_REPLY, of the same sender",
        "two in a row",
        "whatever its case and the space around it",
        "a turn that only speaks of it",
        "a sender who said nothing",
        "no turns",
    ],
)
def test_the_takeaway_is_what_the_last_sender_said_last_other_than_no_reply(turns, expected):
    assert said(*turns) == expected


def test_a_long_one_is_cut_at_its_end_and_the_mark_counts():
    assert said(("a", "x" * 280)) == "x" * 280
    assert said(("a", "x" * 281)) == "x" * 279 + "…"
    assert said(("a", "🙂" * 300)) == "🙂" * 279 + "…"


def test_paragraphs_become_one_line_without_control_characters():
    assert said(("a", "\n first\r\nsecond\u2028third\x1b[31m\x00\x85 \t")) == "first  second third [31m"


@given(st.text())
def test_a_takeaway_has_no_control_characters_and_no_more_than_280_code_points(text):
    line = said(("a", text))
    assert len(line) <= 280
    assert line == line.strip()
    assert not any(ord(character) < 32 or 127 <= ord(character) < 160 for character in line)
