"""Stored JSON goes into an answer as it is, and an answer is what its model would have made of it."""

from __future__ import annotations

import pytest

from anabranch.model.answers import PrivatePage, ViewedRecord
from anabranch.model.stored import with_content, with_items

RECORD = {
    "layer": "private",
    "key": "k",
    "revision": "1",
    "scope": "shared",
    "visibility": "private",
    "content": None,
    "content_hash": "sha256:" + "0" * 64,
    "base_revision": "0",
}


@pytest.mark.parametrize("key", ["k", '"content":null', '\\"content":null', "content", '{"content":null}', "\u2028"])
@pytest.mark.parametrize("content", [None, {"content": None}, '"content":null', ["\\"], 1.5])
def test_a_content_takes_its_members_place_and_no_other_whatever_the_key_looks_like(key, content):
    bare = ViewedRecord.model_validate(RECORD | {"key": key})
    whole = ViewedRecord.model_validate(RECORD | {"key": key, "content": content})
    stored = ViewedRecord.model_validate(RECORD | {"content": content}).model_dump_json(include={"content"})
    body = stored.removeprefix('{"content":').removesuffix("}").encode()
    assert with_content(bare, body) == whole.model_dump_json().encode()


@pytest.mark.parametrize("cursor", [None, "abc"])
@pytest.mark.parametrize("items", [[], [b'{"items":[]}'], [b"1", b"[]"]])
def test_items_take_the_place_of_none(items, cursor):
    page = PrivatePage.model_construct(items=(), next_cursor=cursor)
    said = "null" if cursor is None else f'"{cursor}"'
    assert with_items(page, items).decode() == f'{{"items":[{b",".join(items).decode()}],"next_cursor":{said}}}'
