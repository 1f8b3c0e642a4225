"""Cursors: opaque, bound to their list, and good for as long as one of the keys is in use."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.domain.cursor import InvalidCursorError, Sealer
from anabranch.feed.cursor import Position, seal, unseal
from anabranch.model.errors import InvalidInputError

OLD, NEW = b"the old key, kept for a while", b"the new key, which seals from now on"

places = st.lists(st.one_of(st.integers(), st.text(), st.none(), st.booleans()), max_size=4)


@given(purpose=st.text(), place=places)
def test_a_cursor_opens_to_the_place_it_was_sealed_with(purpose, place):
    sealer = Sealer([NEW])
    assert sealer.open(purpose, sealer.seal(purpose, place)) == place


@given(purpose=st.text(), other=st.text(), place=places)
def test_a_cursor_of_one_list_is_refused_by_every_other(purpose, other, place):
    sealer = Sealer([NEW])
    if purpose == other:
        return
    with pytest.raises(InvalidCursorError):
        sealer.open(other, sealer.seal(purpose, place))


def test_a_cursor_hides_the_name_that_it_carries():
    cursor = Sealer([NEW]).seal("branches", ["secret-project"])
    assert b"secret" not in base64.urlsafe_b64decode(cursor + "===")


def test_the_same_place_gives_the_same_cursor_so_that_answers_can_be_compared():
    assert Sealer([NEW]).seal("list", [7]) == Sealer([NEW]).seal("list", [7])


def test_cursors_of_the_old_key_are_accepted_while_it_is_kept_and_new_ones_are_sealed_with_the_first():
    before, during, after = Sealer([OLD]), Sealer([NEW, OLD]), Sealer([NEW])
    old = before.seal("list", ["k"])
    assert during.open("list", old) == ["k"]
    assert after.open("list", during.seal("list", ["k"])) == ["k"]
    with pytest.raises(InvalidCursorError):
        after.open("list", old)


@pytest.mark.parametrize(
    "cursor", ["", "x", "ä", "????", "AAAA", "A" * 3000, "\x00", base64.b64encode(b"x" * 40).decode()]
)
def test_what_was_never_sealed_is_refused(cursor):
    with pytest.raises(InvalidCursorError) as caught:
        Sealer([NEW]).open("list", cursor)
    assert caught.value.status == 422


@given(st.data())
def test_an_altered_cursor_is_refused(data):
    sealer = Sealer([NEW])
    sealed = bytearray(base64.urlsafe_b64decode(sealer.seal("list", [1, "key"]) + "==="))
    place = data.draw(st.integers(0, len(sealed) - 1))
    sealed[place] ^= data.draw(st.integers(1, 255))
    with pytest.raises(InvalidCursorError):
        sealer.open("list", base64.urlsafe_b64encode(sealed).decode().rstrip("="))


@pytest.mark.parametrize("keys", [[], [b""], [NEW, b"short"]])
def test_missing_and_short_keys_are_refused_at_the_start(keys):
    with pytest.raises(InvalidInputError, match="ANABRANCH_CURSOR_KEYS"):
        Sealer(keys)


def test_a_feed_cursor_tells_its_epoch_and_belongs_to_one_line():
    sealer = Sealer([NEW])
    cursor = seal(sealer, "ln_a", Position(epoch=2, sequence=41))
    assert unseal(sealer, "ln_a", cursor) == Position(epoch=2, sequence=41)
    with pytest.raises(InvalidCursorError):
        unseal(sealer, "ln_b", cursor)
