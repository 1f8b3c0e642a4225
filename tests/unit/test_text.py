"""Keys and scopes: what a name may be."""

from __future__ import annotations

import pytest

from anabranch.model.errors import InvalidInputError
from anabranch.model.text import check_key, check_scope


@pytest.mark.parametrize("key", ["a", "runbooks/build#cache", "ключ", "a" * 512, "é" * 256, "a b", "\u00e9"])
def test_a_key_of_up_to_512_bytes_is_kept_as_it_is(key):
    assert check_key(key) == key


@pytest.mark.parametrize(
    ("key", "complaint"),
    [
        ("", "1 to 512 bytes"),
        (None, "1 to 512 bytes"),
        (b"a", "1 to 512 bytes"),
        ("a" * 513, "513 bytes, the limit is 512"),
        ("é" * 257, "514 bytes, the limit is 512"),
        ("e\u0301", "NFC"),
        ("a\x00", "control character"),
        ("a\x7f", "control character"),
        ("a\x85", "control character"),
        ("a\ud800", "lone surrogate"),
    ],
)
def test_any_other_key_is_refused_with_field_and_limit(key, complaint):
    with pytest.raises(InvalidInputError, match=rf"^changes\[0\]\.key .*{complaint}") as caught:
        check_key(key, field="changes[0].key")
    assert caught.value.hint


@pytest.mark.parametrize("scope", ["shared", "team/build", "a", "0/b-c_d.e", "a" * 64])
def test_a_scope_is_segments_joined_by_slashes(scope):
    assert check_scope(scope) == scope


@pytest.mark.parametrize(
    "scope", ["", "Shared", "team/", "/team", "a//b", "-a", "a/.b", "a b", "é", "a\n", None, 5, "a" * 65]
)
def test_any_other_scope_is_refused(scope):
    with pytest.raises(InvalidInputError, match=r"^scope ") as caught:
        check_scope(scope)
    assert caught.value.hint
