"""Snippets: which piece of a text is shown, and which words are marked in it."""

from __future__ import annotations

from anabranch.cli.search import marked, report
from anabranch.domain.snippets import LENGTH, snippet


def shown(text, *words):
    made = snippet(text, dict.fromkeys(words, 1.0))
    return made.text, [made.text[begin:end] for begin, end in made.matches]


def test_a_short_text_is_shown_whole_with_its_words_marked_as_they_are_written():
    text = "Café: warm the CACHE first"
    assert shown(text, "cafe", "cache", "absent") == (text, ["Café", "CACHE"])
    assert shown("nothing of it", "cache") == ("nothing of it", [])
    assert shown("", "cache") == ("", [])


def test_of_a_long_text_the_piece_is_shown_that_has_most_of_the_words():
    text = "cache " + "x " * 500 + "the exit code of the cache is 137 " + "y " * 500
    piece, words = shown(text, "exit", "137", "cache")
    assert len(piece) <= LENGTH
    assert words == ["exit", "cache", "137"]
    assert text.index(piece) > 900


def test_a_rare_word_counts_for_more_than_two_common_ones():
    text = "one two " + "x " * 500 + "rare"
    made = snippet(text, {"one": 1.0, "two": 1.0, "rare": 5.0})
    assert [made.text[begin:end] for begin, end in made.matches] == ["rare"]


def test_pairs_of_characters_that_overlap_are_marked_as_one():
    assert shown("住在東京都。", "東京", "京都") == ("住在東京都。", ["東京都"])


def test_a_text_without_spaces_is_cut_all_the_same():
    piece, words = shown("a" * 10_000, "a" * 64)
    assert len(piece) <= LENGTH
    assert words == ["a" * 64] * (LENGTH // 64)


def test_what_is_printed_of_a_hit_cannot_repaint_the_terminal():
    hit = {
        "score": 3.14159, "layer": "private", "key": "k\u202e", "revision": "7", "scope": "shared",
        "snippet": {"text": "a\x1b[2J\nword", "matches": [[6, 10]]}, "found_by": ["meaning"],
        "source_locators": ["git:x@y:z", "second"],
    }  # fmt: skip
    lines = list(report({"items": [hit]}))
    assert "k\\u202e" in lines[0]
    assert "private  by meaning" in lines[0]
    assert "a\\u001b[2J \x1b[1m\x1b[4mword" in lines[1]
    assert lines[2].endswith("source git:x@y:z")
    assert "\x1b[2J" not in marked(hit["snippet"])
