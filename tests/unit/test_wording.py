"""What has changed between two texts, told to the word."""

from __future__ import annotations

from anabranch.domain.wording import MOST_LINES, Piece, as_yaml, compare, lines_of, visible


def told(before: list[str], after: list[str]) -> list[tuple[str, str, str]]:
    """Each stretch as its sign and its lines, what is marked in brackets."""

    def line(pieces: tuple[Piece, ...]) -> str:
        return "".join(f"[{piece.text}]" if piece.marked else piece.text for piece in pieces)

    return [
        ("=" if stretch.same else "~", "|".join(map(line, stretch.before)), "|".join(map(line, stretch.after)))
        for stretch in compare(before, after) or ()
    ]


def test_only_the_words_that_differ_are_marked():
    before, after = ["Set pool: large for that job."], ["Set pool: medium for that job."]
    assert told(before, after) == [("~", "Set pool: [large] for that job.", "Set pool: [medium] for that job.")]


def test_a_blank_between_two_changed_words_is_marked_with_them():
    before, after = ["the pool is too small now"], ["the pool was quite small now"]
    assert told(before, after) == [("~", "the pool [is too] small now", "the pool [was quite] small now")]


def test_a_short_word_between_two_changed_ones_is_marked_with_them():
    before, after = ["Drain the cache node before the build."], ["Warm the mirror node before the build."]
    assert told(before, after) == [
        ("~", "[Drain the cache] node before the build.", "[Warm the mirror] node before the build.")
    ]


def test_a_line_that_was_replaced_is_not_picked_to_pieces():
    before, after = ["Restart the job at once."], ["Nobody knows, ask Rosa or wait for Monday."]
    assert told(before, after) == [("~", before[0], after[0])]


def test_lines_that_stay_stand_between_those_that_change():
    assert told(["a", "same", "b"], ["x", "same", "b", "y"]) == [
        ("~", "a", "x"),
        ("=", "same|b", "same|b"),
        ("~", "", "y"),
    ]


def test_equal_texts_have_nothing_that_differs():
    assert told(["a", "b"], ["a", "b"]) == [("=", "a|b", "a|b")]


def test_what_would_take_for_ever_to_compare_is_not_compared():
    assert compare(["x"] * (MOST_LINES + 1), []) is None


def test_a_text_reads_as_it_is_and_anything_else_as_yaml():
    assert lines_of("one\ntwo") == ["one", "two"]
    assert lines_of({"title": "T", "text": "one\ntwo"}) == ["title: T", "text: |-", "  one", "  two"]
    assert lines_of(5) == ["5"]
    assert as_yaml({"b": 1, "a": 2}) == "b: 1\na: 2\n"


def test_what_is_not_seen_is_written_out():
    assert visible("a\u202eb\u200bc\x1b\ttab\nline") == "a\\u202eb\\u200bc\\u001b\ttab\nline"
    assert lines_of("a\u202eb") == ["a\\u202eb"]
