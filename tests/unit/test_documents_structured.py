"""JSON, YAML and JSON Lines as records, and what is refused."""

from __future__ import annotations

import json

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from anabranch.domain.documents import DocumentFormat, document_format, import_locator, split, split_lines
from anabranch.model.errors import InvalidInputError


def one(path: str, text: str):
    (record,) = split(path, text.encode())
    return record


@pytest.mark.parametrize("path", ["a/b.json", "a/b.yaml", "a/b.yml", "a/b.YAML"])
def test_a_file_is_one_record_under_its_path_without_the_ending(path):
    record = one(path, '{"x": [1, true, null]}')
    assert (record.key, record.content) == ("a/b", {"x": [1, True, None]})


def test_only_the_last_ending_is_dropped():
    assert one("v1.2-notes.json", "1").key == "v1.2-notes"


def test_a_decomposed_file_name_becomes_a_composed_key():
    assert one("cafe\u0301.json", "1").key == "caf\u00e9"


@pytest.mark.parametrize("wrap", [lambda r: {"records": r}, lambda r: r], ids=["records", "bare list"])
@pytest.mark.parametrize("path", ["x.json", "x.yaml"])
def test_a_list_of_stated_records_is_those_records(path, wrap):
    stated = [{"key": "a", "content": 1, "scope": "team/build"}, {"key": "b", "content": None}]
    assert [(r.key, r.content, r.scope) for r in split(path, json.dumps(wrap(stated)).encode())] == [
        ("a", 1, "team/build"),
        ("b", None, None),
    ]


def test_a_list_of_anything_else_is_one_record():
    assert one("x.json", '[{"key": "a"}, 2]').content == [{"key": "a"}, 2]


def test_a_list_named_records_must_hold_records():
    with pytest.raises(InvalidInputError, match=r"x\.json: records\[1\] lacks key or content"):
        list(split("x.json", b'{"records": [{"key": "a", "content": 1}, {"key": "b"}]}'))


@pytest.mark.parametrize(
    ("record", "complaint"),
    [
        ({"key": "a", "content": 1, "scpoe": "x"}, "no member 'scpoe'"),
        ({"key": "", "content": 1}, "key is not a text"),
        ({"key": "a\n", "content": 1}, "control character"),
        ({"key": "a", "content": 1, "scope": "Team"}, "scope 'Team' is no scope"),
        ({"key": "a", "content": 1, "visibility": "secret"}, "visibility is unknown"),
        ({"key": "a", "content": 1, "sources": "https://example.com"}, "sources is not a list"),
        ({"key": "a", "content": 2**53}, r"content is a number beyond 2\^53-1"),
    ],
)
def test_a_stated_record_is_checked_and_the_place_named(record, complaint):
    with pytest.raises(InvalidInputError, match=rf"x\.jsonl:2: {complaint}|x\.jsonl:2: .*{complaint}"):
        list(split("x.jsonl", b"\n" + json.dumps(record).encode()))


def test_a_json_line_is_keyed_by_its_id_else_by_its_number():
    lines = [b'{"id": "alpha"}', b"", b'{"id": 7}', b'{"id": true}', b'"text"', b'{"id": ""}']
    assert [r.key for r in split_lines("m/t.jsonl", lines)] == [f"m/t#{n}" for n in ("alpha", "7", "4", "5", "6")]


def test_json_lines_are_read_as_they_come():
    def endless():
        while True:
            yield b"1\n"

    assert next(split_lines("x.jsonl", endless())).key == "x#1"


@pytest.mark.parametrize(
    "text", ['{"a": 1, "a": 2}', '{"a": NaN}', "[1", '{"a": "\\ud800"}', "", "[" * 100 + "]" * 100]
)
def test_what_is_not_strict_json_is_refused_with_its_path(text):
    with pytest.raises(InvalidInputError, match=r"^x\.json: "):
        list(split("x.json", text.encode()))


def test_text_that_is_not_utf8_is_refused_and_a_byte_order_mark_is_not():
    with pytest.raises(InvalidInputError, match=r"x\.md: not UTF-8 at byte 1"):
        list(split("x.md", b"a\xff"))
    assert [r.content for r in split("x.json", b"\xef\xbb\xbf1")] == [1]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2025-03-01", "2025-03-01"),
        ("2025-03-01T10:00:00Z", "2025-03-01T10:00:00Z"),
        ("12:30", "12:30"),
        ("no", "no"),
        ("1_000", "1_000"),
        ("0o17", 15),
        ("0x1F", 31),
        ("-7", -7),
        ("1e3", 1000.0),
        (".5", 0.5),
        ("~", None),
        ("True", True),
        ('"1"', "1"),
        ("!!str 1", "1"),
    ],
)
def test_yaml_scalars_are_read_by_the_core_schema(text, value):
    read = one("x.yaml", f"v: {text}").content["v"]
    assert (read, type(read)) == (value, type(value))


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("v: .nan", "not a finite number"),
        ("v: -.inf", "not a finite number"),
        ("1: x", "a name is not a string"),
        ("a: 1\na: 2", "stands twice"),
        ("v: !!python/object/apply:os.system [true]", "has no JSON value"),
        ("v: !!binary aGk=", "has no JSON value"),
        ("v: !!set {a}", "has no JSON value"),
        ("a: &a [*a]", "contains itself"),
        ("v: 123456789012345678901", "beyond"),
        ("[" * 5000, "nest"),
    ],
)
def test_yaml_that_json_cannot_say_is_refused(text, complaint):
    with pytest.raises(InvalidInputError, match=rf"^x\.yaml.*{complaint}"):
        list(split("x.yaml", text.encode()))


def test_several_yaml_documents_are_one_list_and_empty_ones_are_none():
    assert one("x.yaml", "a: 1\n---\nb: 2\n---\n").content == [{"a": 1}, {"b": 2}]
    assert one("x.yaml", "---\na: 1\n---\n").content == {"a": 1}
    assert list(split("x.yaml", b"# nothing\n---\n")) == []
    stated = b"key: a\ncontent: 1\n---\nkey: b\ncontent: 2\n"
    assert [record.key for record in split("x.yaml", stated)] == ["a", "b"]


def test_aliases_and_merges_are_written_out():
    assert one("x.yaml", "base: &b {x: 1, y: 2}\nc: {<<: *b, y: 3}\nd: *b").content == {
        "base": {"x": 1, "y": 2},
        "c": {"x": 1, "y": 3},
        "d": {"x": 1, "y": 2},
    }


def test_aliases_that_expand_beyond_measure_are_refused_at_once():
    levels = [f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 10)}]" for n in range(1, 30)]
    with pytest.raises(InvalidInputError, match="nodes with its aliases written out"):
        list(split("x.yaml", "\n".join(["l0: &l0 x", *levels]).encode()))


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.text("ab c:#-'\"é\n1.~", max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text("abc", min_size=1, max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(st.dictionaries(st.text("xyz", min_size=1, max_size=3), VALUES, max_size=4))
def test_yaml_and_json_of_one_value_are_one_record(value):
    as_yaml = yaml.safe_dump(value, allow_unicode=True)
    assert one("x.yaml", as_yaml).content == one("x.json", json.dumps(value)).content == value


def test_the_ending_alone_tells_the_format():
    assert document_format("a/B.MD") is DocumentFormat.MARKDOWN
    assert document_format("a.ndjson") is DocumentFormat.JSON_LINES
    assert [document_format(path) for path in ("a.txt", "md", "a.md/x", ".md")] == [None] * 4
    with pytest.raises(InvalidInputError, match=r"a\.txt: no format"):
        list(split("a.txt", b""))


def test_an_import_locator_names_path_and_digest():
    assert import_locator("a/b.md", b"\x01" * 32) == "import:a/b.md@sha256:" + "01" * 32
