"""Ports of the loopback address, chosen once for each folder, so that any number of clusters run side by side."""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import urllib.request
from typing import TYPE_CHECKING, TypeVar

from anabranch.devcluster.errors import PortTakenError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

Started = TypeVar("Started")

ATTEMPTS = 3


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
        sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in names]
        return {name: opened.getsockname()[1] for name, opened in zip(names, sockets, strict=True)}


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
