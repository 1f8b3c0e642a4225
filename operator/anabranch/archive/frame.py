"""Whether the last byte of a zstd frame has come.

The decoder hands out what it has and does not tell that something is missing: a frame without its last block ends
early, one without its checksum is not checked. So its blocks are followed here, by their headers alone (RFC 8878,
3.1.1).
"""

from __future__ import annotations

from typing import Final

import zstandard

_BLOCK_HEADER: Final = 3
_CHECKSUM: Final = 4
_RLE: Final = 1


class Frame:
    """Follows one frame; what comes behind it is left to the decoder.

    Args:
        start: Its first bytes, at least those of its header; empty: a frame that has not begun.
    """

    def __init__(self, start: bytes) -> None:
        self.complete = False
        self._pass = zstandard.frame_header_size(start) if start else 0
        self._checksum = bool(start) and zstandard.get_frame_parameters(start).has_checksum
        self._header = b""
        self._last = False

    def follow(self, data: bytes) -> None:
        """Take its next bytes, from the first one on."""
        at = 0
        while at < len(data) and not self.complete:
            if self._pass:
                step = min(self._pass, len(data) - at)
                self._pass -= step
            else:
                step = min(_BLOCK_HEADER - len(self._header), len(data) - at)
                self._header += data[at : at + step]
                if len(self._header) == _BLOCK_HEADER:
                    self._begin_block()
            at += step
            self.complete = self._last and not self._pass

    def _begin_block(self) -> None:
        header = int.from_bytes(self._header, "little")
        self._header = b""
        self._last = bool(header & 1)
        self._pass = 1 if header >> 1 & 3 == _RLE else header >> 3
        if self._last and self._checksum:
            self._pass += _CHECKSUM
