"""The words of texts: what is compared as one, and where they stand."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from anabranch.domain.words import LONGEST, places, text_of, words


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Warm the cache first.", ["warm", "the", "cache", "first"]),
        ("build/exit-137 PYTHON_VERSION=3.11", ["build", "exit", "137", "python", "version", "3", "11"]),
        ("Café CAFE\u0301 naïve", ["cafe", "cafe", "naive"]),
        ("Straße STRASSE", ["strasse", "strasse"]),
        ("\uff21\uff22\uff23 \u2460", ["abc", "1"]),
        ("東京都 GPU显卡", ["東京", "京都", "gpu", "显卡"]),
        ("서울 한", ["서울", "한"]),
        ("ж" * (LONGEST + 1), ["ж" * LONGEST, "ж"]),
        ("", []),
        ("… — \u0301 _", []),
    ],
)
def test_words_are_compared_without_case_accents_and_width(text, found):
    assert words(text) == found


@given(st.text(max_size=60))
@example("⼀")  # a radical, which is no letter, and becomes one
@example("⼀東京 GPU显卡㎏")
@example("東\u0301京⑴서울\u1112\u1161\u11ab")
@example("ぱ\u3099か\u309a")
def test_the_words_with_their_places_are_the_words(text):
    found = list(places(text))
    assert [word for *_, word in found] == words(text)
    assert all(0 <= begin < end <= len(text) for begin, end, _ in found)
    for begin, end, word in found:
        assert word in words(text[begin:end])


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("as it is", "as it is"),
        (137, "137"),
        (None, "null"),
        ({"cause": "memory", "codes": [137, 9], "final": True}, "cause: memory\ncodes: 137\n9\nfinal: true"),
        ({"host": {"name": "b1"}}, "host: name: b1"),
        ([], ""),
    ],
)
def test_names_and_values_of_a_content_are_its_text(content, text):
    assert text_of(content) == text
