"""Segments of the index, and the scores that are computed from them."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.domain import bm25, postings


def segment(*documents: str) -> postings.Segment:
    made = postings.Segment()
    for place, document in enumerate(documents):
        assert made.add(document.split()) == place
    return made


def told(entry: int) -> tuple[int, int, int]:
    """Document, count, and length, as the index reads an entry."""
    return entry >> 16, entry >> 8 & 255, round(bm25.length(entry & 255))


def test_an_entry_tells_document_count_and_length():
    made = segment("a b a", "b", "c " * 7 + "a")
    assert {one.word: [told(entry) for entry in one.entries] for one in made.postings()} == {
        "a": [(0, 2, 3), (2, 1, 8)],
        "b": [(0, 1, 3), (1, 1, 1)],
        "c": [(2, 7, 8)],
    }
    assert (len(made), made.words) == (3, 12)
    assert all(one.dense is None and one.documents == len(one.entries) for one in made.postings())


def test_the_last_document_of_a_full_segment_still_fits_a_postgres_integer():
    made = postings.Segment()
    made._documents = postings.DOCUMENTS - 1
    assert not made.full
    made.add(["word"] * 1_000)
    assert made.full
    (one,) = made.postings()
    assert one.entries[0] < 1 << 31
    assert told(one.entries[0])[:2] == (postings.DOCUMENTS - 1, bm25.MOST)


def test_a_frequent_word_has_its_counts_in_bytes_and_lists_the_documents_that_it_tells_most_about(monkeypatch):
    monkeypatch.setattr(postings, "_DENSE_FROM", 100)
    monkeypatch.setattr(postings, "_CHAMPIONS", 2)
    made = segment(*(f"the {'the ' * (place == 7)}{'long ' * (place % 3)}w{place}" for place in range(100)), "rare")
    of = {one.word: one for one in made.postings()}
    assert (of["rare"].dense, of["the"].documents) == (None, 100)
    assert of["the"].dense == bytes([1] * 7 + [2] + [1] * 92 + [0])
    assert [told(entry)[0] for entry in of["the"].entries] == [7, 0]


@given(st.integers(1, 100_000))
def test_a_length_in_a_byte_is_right_up_to_two_percent(words):
    kept = bm25.length(bm25.code(words))
    assert 0 <= bm25.code(words) <= 255
    if words < 60_000:
        assert abs(kept - words) / words < 0.022
    if words <= 22:
        assert round(kept) == words


def test_a_word_weighs_more_the_rarer_it_is_and_never_nothing():
    weights = [bm25.weight(having, documents=100) for having in (0, 1, 50, 99, 100, 200)]
    assert weights == sorted(weights, reverse=True)
    assert weights[-1] > 0
    assert bm25.weight(0, documents=0) > 0


@pytest.mark.parametrize("counts", [{"a": 1}, {"a": 3, "b": 1}, {"a": 300, "b": 0}])
def test_a_score_is_bm25s(counts):
    scale = bm25.Scale({word: bm25.weight(4, documents=50) for word in counts}, mean=10.0)
    idf = math.log(1 + (50 - 4 + 0.5) / 4.5)
    expected = sum(
        idf * min(count, 255) * 2.2 / (min(count, 255) + 1.2 * (0.25 + 0.75 * 16 / 10)) for count in counts.values()
    )
    assert scale.score(counts, words=16) == pytest.approx(expected)
