"""Ports of the loopback address, chosen once for each folder, so that any number of clusters run side by side."""

from __future__ import annotations

import contextlib
import json
import secrets
import socket
import ssl
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from anabranch.devcluster.errors import PortTakenError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Started = TypeVar("Started")

ATTEMPTS = 3

FIRST, LAST = 15_000, 29_999
"""The ports to choose from: below those of outgoing connections, and below those that a node gives to Services."""

OUTGOING: Final = Path("/proc/sys/net/ipv4/ip_local_port_range")
"""Where Linux says which ports it gives to outgoing connections."""

TRIES: Final = 100


def start_on(
    file: Path, names: Sequence[str], start: Callable[[dict[str, int]], Started], *, undo: Callable[[], None]
) -> Started:
    """Starts servers on the ports that a file remembers, and on others where another program has taken one.

    A port that was free when it was chosen may be taken when it is used, or when its server starts again a week later.

    Args:
        file: Where the choice is kept.
        names: What the ports are for.
        start: Starts the servers, given the port of each name.
        undo: Stops those that did start, before another attempt.

    Raises:
        PortTakenError: It happened three times.
    """
    attempts = 0
    while True:
        if not file.exists() or json.loads(file.read_text()).keys() != set(names):
            file.write_text(json.dumps(free(names)))
        try:
            return start(json.loads(file.read_text()))
        except PortTakenError:
            undo()
            file.unlink()
            attempts += 1
            if attempts == ATTEMPTS:
                raise


def free(names: Sequence[str]) -> dict[str, int]:
    """Distinct ports that are free now, one for each name."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(_opened()) for _ in names]
        return {name: opened.getsockname()[1] for name, opened in zip(names, sockets, strict=True)}


def _opened() -> socket.socket:
    """A socket on a port that the system gives to no outgoing connection.

    One that it may give is taken as soon as its server restarts: by any client, even by one that calls that very port
    again and again meanwhile, and is at last connected with itself.
    """
    last = LAST
    with contextlib.suppress(OSError, ValueError):
        last = min(last, int(OUTGOING.read_text().split()[0]) - 1)
    for _ in range(TRIES if last >= FIRST else 0):
        with contextlib.suppress(OSError):
            return socket.create_server(("127.0.0.1", FIRST + secrets.randbelow(last - FIRST + 1)))
    return socket.create_server(("127.0.0.1", 0))


def answers(url: str, *, context: ssl.SSLContext | None = None) -> bool:
    """Whether a GET, made without any proxy, answers 200; with ``https``, whom it trusts and who it is."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context))
    opener.addheaders = [("User-Agent", "anabranch-devcluster")]
    with opener.open(url, timeout=5) as answer:
        return bool(answer.status == 200)


def as_client(certificates: Path, name: str) -> ssl.SSLContext:
    """For requests to an API server as one of its clients.

    Args:
        certificates: The folder of :mod:`~anabranch.devcluster.pki`.
        name: The client's certificate there.
    """
    context = ssl.create_default_context(cafile=certificates / "ca.crt")
    context.load_cert_chain(certificates / f"{name}.crt", certificates / f"{name}.key")
    return context
