"""Free ports of the loopback address, so that any number of clusters run side by side."""

from __future__ import annotations

import contextlib
import socket


def free_ports(*names: str) -> dict[str, int]:
    """Distinct ports that are free now, one for each name.

    Another program may take one before it is used; who uses it says so (:class:`PortTakenError`), and asks again.
    """
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in names]
        return {name: opened.getsockname()[1] for name, opened in zip(names, sockets, strict=True)}
