"""What a person leaves alone in an editor comes back as it was."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from anabranch.domain.editing import editable, edited, written
from anabranch.model.errors import InvalidInputError

TEXTS = st.text(st.characters(exclude_characters="\r", exclude_categories=["Cs"]), max_size=20)
SCALARS = st.none() | st.booleans() | st.integers(-(10**15), 10**15) | st.floats(allow_nan=False, allow_infinity=False)
CONTENTS = st.recursive(
    SCALARS | TEXTS, lambda each: st.lists(each, max_size=4) | st.dictionaries(TEXTS, each, max_size=4)
)


@settings(deadline=None, max_examples=200)
@example({"a": "no", "b": "12:30", "c": "2025-03-01", "d": "\x85 \u2028 \ufeff", "e": "- x\n  y\n"})
@example(["\x00", "1_000", "0x1f", "~", "null", "", " "])
@given(CONTENTS)
def test_a_content_that_nobody_has_changed_is_the_same(content):
    text, plain = editable(content)
    assert edited(written(text.replace("\n", "\r\n")), plain=plain) == content
    assert plain == isinstance(content, str)


def test_a_text_of_several_lines_is_edited_as_lines():
    assert editable({"title": "t", "text": "one\ntwo\n"}) == ("title: t\ntext: |\n  one\n  two\n", False)


def test_what_is_no_yaml_is_refused_with_its_line():
    with pytest.raises(InvalidInputError, match=r"What you have written:3: not plain YAML"):
        edited("a: 1\nb: [", plain=False)
