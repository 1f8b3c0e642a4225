"""What people read: tables, YAML, and what has changed of a record."""

import json

import click
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from anabranch.cli import contents
from anabranch.cli.output import as_yaml, cell, condition, exact_json, show, table, take, visible

TEXTS = st.lists(st.text(st.characters(exclude_categories=["C", "Z"]), max_size=8), max_size=12)


def plain(lines):
    return [click.unstyle(line) for line in lines]


def test_columns_stand_below_upper_case_headings_three_spaces_apart():
    assert table(["name", "phase"], [["a", "Active"], ["longer", ""]]).splitlines() == [
        "NAME     PHASE",
        "a        Active",
        "longer",
    ]


def test_an_empty_table_says_so():
    assert table(["name"], []) == "Nothing found."


@pytest.mark.parametrize(
    ("value", "shown"),
    [(None, ""), (True, "yes"), (False, "no"), (0, "0"), ("a\nb", "a b"), (["é"], '["é"]'), ({"a": 1}, '{"a": 1}')],
)
def test_a_cell_is_one_line(value, shown):
    assert cell(value) == shown


def test_a_column_is_a_dotted_path_or_a_function():
    row = {"status": {"current": {"generation": 3}}}
    assert take(row, "status.current.generation") == 3
    assert take(row, "status.head.generation") is None
    assert take(row, len) == 1


def test_a_condition_shows_its_reason_where_it_is_not_true():
    ready = condition("Ready")
    conditions = [{"type": "Ready", "status": "False", "reason": "ArchiveMissing"}]
    assert ready({"status": {"conditions": conditions}}) == "no (ArchiveMissing)"
    assert ready({"status": {"conditions": [{**conditions[0], "status": "True"}]}}) == "yes"
    assert ready({}) is None


@pytest.mark.parametrize("output", ["json", "yaml"])
def test_programs_get_back_exactly_what_there_was(output, capsys):
    value = [{"text": "two\nlines", "n": 1, "odd": "\x1b[2J\u202e no: yes"}]
    show(value, output)
    out = capsys.readouterr().out
    assert (json.loads(out) if output == "json" else yaml.safe_load(out)) == value


HIDING = [chr(code) for code in range(0x10000) if visible(chr(code)) != chr(code)]


@pytest.mark.parametrize("output", ["json", "yaml"])
def test_what_programs_get_repaints_no_terminal_on_its_way(output, capsys):
    value = {f"{at}: \\{hiding}x\n- y\n": [hiding, f"a {hiding} b"] for at, hiding in enumerate(HIDING)}
    show(value, output)
    out = capsys.readouterr().out
    assert not set(out) & set(HIDING)
    assert (json.loads(out) if output == "json" else yaml.safe_load(out)) == value


@given(
    st.dictionaries(
        st.text(max_size=8), st.text(st.sampled_from([*HIDING, *"\\\"'\n :-#é日"]), max_size=12), max_size=4
    )
)
def test_whatever_hides_wherever_programs_get_back_what_there_was(value):
    assert json.loads(exact_json(value)) == value
    assert yaml.safe_load(as_yaml(value, exact=True)) == value


def test_a_text_of_several_lines_is_a_block():
    assert as_yaml({"title": "A", "text": "one\ntwo"}) == "title: A\ntext: |-\n  one\n  two\n"


def test_no_record_can_move_a_reviewers_cursor_or_turn_their_text():
    hostile = "fine\x1b[2K\x1b[1A\x9b2Jpass\u202eword\u2066\u200b\ufeff\x7f"
    assert visible(hostile) == ("fine\\u001b[2K\\u001b[1A\\u009b2Jpass\\u202eword\\u2066\\u200b\\ufeff\\u007f")
    for content in (hostile, {"text": hostile}, [hostile]):
        for line in contents.lines_of(content, [f"https://x/{hostile}"]):
            assert not set(line) & set("\x1b\x9b\u202e\u2066")
    assert visible("plain é 日本 👩\u200d💻\ttab\nline") == "plain é 日本 👩\u200d💻\ttab\nline"


def test_people_do_not_see_raw_control_characters_in_yaml_either(capsys):
    show({"content": "a\u202eb"}, "table")
    assert capsys.readouterr().out == "content: a\\u202eb\n"


def test_a_record_reads_as_text_or_yaml_with_its_sources_below():
    assert contents.lines_of("one\ntwo", ["https://x"]) == ["one", "two", "source https://x"]
    assert contents.lines_of({"a": "x"}) == ["a: x"]
    assert contents.lines_of(5) == ["5"]
    assert contents.lines_of(None) == ["null"]


@given(TEXTS, TEXTS)
def test_a_diff_has_both_sides_whole(before, after):
    lines = plain(contents.diff(before, after, context=None))
    assert [line[2:] for line in lines if line[0] in " -"] == before
    assert [line[2:] for line in lines if line[0] in " +"] == after


def test_lines_far_from_a_change_are_left_out_and_counted():
    before = [str(n) for n in range(20)]
    lines = plain(contents.diff(before, [*before[:10], "new", *before[10:]]))
    assert lines == ["  … 8 lines", "  8", "  9", "+ new", "  10", "  11", "  … 8 lines"]


def test_within_a_changed_line_the_words_that_differ_stand_out():
    old, new = contents.diff(["pin Rust 1.84 now"], ["pin Rust 1.85 now"])
    assert click.style("84", fg="red", reverse=True) in old
    assert click.style("85", fg="green", reverse=True) in new
    assert click.style("pin Rust 1.", fg="red") in old


def test_a_record_with_too_many_lines_is_not_compared():
    assert list(contents.diff(["x"] * 3000, ["y"])) == ["  3000 lines before, 1 after: too many to compare here"]
