"""A frame is complete with its last byte, and not before."""

import random

import pytest
import zstandard

from anabranch.archive.frame import Frame


@pytest.mark.parametrize("checksum", [True, False])
@pytest.mark.parametrize("content", [b"", b"a", b"ab" * 300_000, b"\0" * 500_000, random.Random(1).randbytes(400_000)])
@pytest.mark.parametrize("piece", [1, 2, 1_000, 1 << 20])
def test_a_frame_is_complete_with_its_last_byte_and_not_before(content, checksum, piece):
    frame = zstandard.ZstdCompressor(write_checksum=checksum).compress(content)
    followed = Frame(frame[:18])
    for at in range(0, len(frame) - 1, piece):
        followed.follow(frame[at : min(at + piece, len(frame) - 1)])
    assert not followed.complete
    followed.follow(frame[-1:])
    assert followed.complete
    followed.follow(b"what comes behind it")
    assert followed.complete


def test_a_frame_that_has_not_begun_is_not_complete():
    assert not Frame(b"").complete
