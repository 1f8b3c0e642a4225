"""Connections that a test cuts as a pulled cable would: without a word to either side. Linux alone."""

from __future__ import annotations

import ctypes
import socket
import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio

_SO_ATTACH_FILTER = 26


def deafen(writer: asyncio.StreamWriter) -> None:
    """Let the kernel drop all that comes for a connection, acknowledgements too, as a cut cable would."""
    drop = ctypes.create_string_buffer(struct.pack("HBBI", 0x06, 0, 0, 0))
    program = struct.pack("HxxxxxxP", 1, ctypes.addressof(drop))
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, program)
