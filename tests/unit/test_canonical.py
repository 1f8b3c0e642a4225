"""Canonical bytes: the fast encoder and the reference agree, and what cannot be read back is refused."""

from __future__ import annotations

import json
import math
import time

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from anabranch.model.canonical import canonical_bytes, check_json, content_hash, parse_canonical, parse_json
from anabranch.model.errors import InvalidInputError

# Names beyond the basic plane sort by UTF-16 code units before U+E000 to U+FFFF, and by code points after them.
NAMES = st.text(max_size=4) | st.sampled_from(["\U0001f600", "\ufb33", "\ue000", "\u20ac", "a"])
SCALARS = st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.text(max_size=12)
FLOATS = st.floats(allow_nan=False, allow_infinity=False)


def values(scalars):
    return st.recursive(
        scalars, lambda v: st.lists(v, max_size=4) | st.dictionaries(NAMES, v, max_size=4), max_leaves=20
    )


@given(values(SCALARS | FLOATS))
def test_canonical_bytes_are_those_of_the_reference(value):
    assert canonical_bytes(value) == rfc8785.dumps(value)


@given(values(SCALARS | FLOATS))
def test_what_is_checked_reads_back_to_the_same_bytes(value):
    try:
        check_json(value)
    except InvalidInputError:
        return
    assert canonical_bytes(parse_json(canonical_bytes(value))) == canonical_bytes(value)


@pytest.mark.parametrize(
    "value",
    [math.nan, math.inf, 2**53, -(2**53), "\ud800", {"\ud800": 1}, {1: 2}, {"a": 1, None: 2}, {1, 2}, b"a", [[2**60]]],
    ids=repr,
)
def test_what_has_no_canonical_form_is_refused(value):
    with pytest.raises(InvalidInputError, match="no canonical JSON form"):
        canonical_bytes(value)


def test_a_value_that_contains_itself_is_refused():
    value: list = []
    value.append(value)
    with pytest.raises(InvalidInputError, match="no canonical JSON form"):
        canonical_bytes(value)


@pytest.mark.parametrize("value", [1e20, -1e16, 2.0**53, 2**53, 10**400, math.nan, -math.inf], ids=str)
def test_a_number_that_could_not_be_read_back_is_refused(value):
    with pytest.raises(InvalidInputError, match=r"\$\.a is (a number beyond|not a finite)"):
        check_json({"a": value})


@pytest.mark.parametrize("value", [1e21, 1.5, 2.0**53 - 1, 5e-324, -0.0], ids=str)
def test_other_floats_are_accepted(value):
    check_json(value)


def test_depth_is_bounded_at_64():
    deepest = json.loads("[" * 64 + "1" + "]" * 64)
    check_json(deepest)
    with pytest.raises(InvalidInputError, match="nested deeper than 64"):
        check_json([deepest])


def test_the_hash_is_over_the_canonical_bytes():
    assert content_hash({"b": 1, "a": 1.0}) == content_hash({"a": 1, "b": 1})
    # echo -n '{"a":1,"b":1}' | sha256sum
    assert content_hash({"a": 1, "b": 1}) == "sha256:4dad51ac41eb73862fce375fae85ba13711fd19f1b26d8e4b1f9fa405c3d5adf"


@given(values(SCALARS | st.floats(-1e9, 1e9)), st.booleans())
def test_a_text_and_its_form_are_parsed_together_as_apart(value, canonical):
    raw = canonical_bytes(value) if canonical else json.dumps(value, indent=1).encode()
    assert parse_canonical(raw) == (parse_json(raw), canonical_bytes(value))


@pytest.mark.parametrize(
    "raw",
    [
        b'{"a":1,"a":1}',
        b'{"a":{"b":1,"b":2}}',
        b"NaN",
        b"[Infinity]",
        b'"\\ud800"',
        b'"\xed\xa0\x80"',
        b"9007199254740992",
        b"1e400",
        b"[" * 66 + b"]" * 66,
        b"[" * 100_000,
        b'{"a":1',
        b"",
        b"\xff",
    ],
    ids=lambda raw: ascii(raw[:20]),
)
def test_what_parsing_refuses_is_refused_with_its_form_asked_for_too(raw):
    with pytest.raises(InvalidInputError) as apart:
        parse_json(raw)
    with pytest.raises(InvalidInputError) as together:
        parse_canonical(raw)
    assert str(together.value) == str(apart.value)


def test_the_deepest_value_that_is_taken_is_taken_with_its_form():
    raw = b"[" * 65 + b"]" * 65
    assert parse_canonical(raw) == (parse_json(raw), raw)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-32", "utf-8-sig"])
def test_json_in_another_encoding_than_utf8_is_refused(encoding):
    for parse in (parse_json, parse_canonical):
        with pytest.raises(InvalidInputError, match="not JSON"):
            parse('{"a":1}'.encode(encoding))


def test_a_long_name_is_not_copied_for_each_value_below_it():
    raw = b'{"%b":[%b1.5]}' % (b"n" * (1 << 20), b"[]," * 20_000)
    began = time.process_time()
    parse_json(raw)
    assert time.process_time() - began < 2, "it would be 20 gigabytes"


def test_a_fault_is_told_with_its_place_however_deep_it_is():
    with pytest.raises(InvalidInputError, match=r"^\$\.a\[1\]\.b\.c has a lone surrogate"):
        check_json({"a": [1, {"b": {"c": "\ud800"}}]})
    with pytest.raises(InvalidInputError, match=r"^content\.a is a set, which JSON lacks"):
        check_json({"a": set()}, path="content")
