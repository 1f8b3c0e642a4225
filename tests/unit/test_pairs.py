"""Pairs come out in order, whether they fit in memory or not."""

import hashlib

import pytest

from anabranch.store import pairs


def made(count):
    return [
        (hashlib.sha256(b"%d" % number).digest(), hashlib.sha256(b"-%d" % number).digest()) for number in range(count)
    ]


@pytest.mark.parametrize("block", [64, 192, 16 << 10])
@pytest.mark.parametrize("count", [0, 1, 3_000])
def test_pairs_come_out_in_order(monkeypatch, block, count):
    monkeypatch.setattr(pairs, "_BLOCK_BYTES", block)
    given = made(count)
    with pairs.SortedPairs() as sorter:
        sorter.extend(given[: count // 2])
        sorter.extend(given[count // 2 :])
        assert list(sorter) == sorted(given)


def test_a_pair_that_comes_twice_comes_out_twice(monkeypatch):
    monkeypatch.setattr(pairs, "_BLOCK_BYTES", 64)
    with pairs.SortedPairs() as sorter:
        sorter.extend(made(2) + made(2))
        assert list(sorter) == sorted(made(2) * 2)
