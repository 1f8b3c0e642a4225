"""Two contents side by side: member by member, what does not change folded away."""

from __future__ import annotations

from anabranch.domain.wording import MOST_LINES
from anabranch.web.shown import ABSENT, Member, members


def text(pieces) -> str | None:
    return pieces and "".join(piece.text for piece in pieces)


def rows(member: Member) -> list[tuple[str | None, str | None]]:
    return [(text(row.before), text(row.after)) for passage in member.passages for row in passage.rows]


def test_objects_are_compared_member_by_member():
    body, late, title = members({"title": "T", "text": "old"}, {"title": "T", "text": "new", "since": 3})
    assert (title.label, title.same) == ("title", True)
    assert (body.label, body.same, rows(body)) == ("text", False, [("old", "new")])
    assert (late.label, late.one_sided, rows(late)) == ("since", True, [(None, "3")])


def test_what_says_what_it_is_about_comes_first():
    assert [member.label for member in members(ABSENT, {"text": "t", "title": "T"})] == ["title", "text"]


def test_contents_of_different_kinds_are_compared_as_they_read():
    (whole,) = members("old", {"text": "new"})
    assert (whole.label, rows(whole)) == ("", [("old", "text: new")])


def test_a_new_record_and_a_deleted_one_have_one_side():
    assert [rows(member) for member in members(ABSENT, {"a": "1"})] == [[(None, "1")]]
    assert [rows(member) for member in members("gone", ABSENT)] == [[("gone", None)]]


def test_null_is_a_content():
    (whole,) = members(None, None)
    assert whole.same
    assert rows(whole) == [("null", "null")]


def test_what_is_far_from_a_change_is_folded():
    before = [f"line {number}" for number in range(20)]
    after = [*before[:10], "changed", *before[11:]]
    (whole,) = members("\n".join(before), "\n".join(after))
    assert [(len(passage.rows), passage.folded) for passage in whole.passages] == [
        (7, True),
        (3, False),
        (1, False),
        (3, False),
        (6, True),
    ]


def test_what_is_the_same_everywhere_stays_open():
    (whole,) = members("\n".join("abcdefghij"), "\n".join("abcdefghij"))
    assert [passage.folded for passage in whole.passages] == [False]


def test_what_is_too_long_to_compare_stands_whole():
    (whole,) = members("\n".join(["x"] * (MOST_LINES + 1)), "y")
    assert (whole.compared, whole.same) == (False, False)
    assert rows(whole)[0] == ("x", "y")
