"""Sends prepared requests over keep-alive connections and tells how long each took.

A process of its own, the same for every side: what it costs, it costs both. It does no more than a client must: every
request is a piece of bytes that was made before the clock starts, and of an answer only the status and the length are
looked at.

    python -m benchmarks.load FOLDER      # of a `Load`; prints a `Result` as JSON
"""

from __future__ import annotations

import asyncio
import gc
import json
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import uvloop

from anabranch.devcluster import children

if TYPE_CHECKING:
    from collections.abc import Sequence

PLAN = "plan.json"
REQUESTS = "requests.bin"


@dataclass(frozen=True, slots=True)
class Result:
    """What a load met with.

    Attributes:
        rate: Requests a second.
        p50: Milliseconds from a request's first byte to its answer's last one, the median.
        p99: Likewise, of the slowest hundredth the fastest.
    """

    rate: float
    p50: float
    p99: float


async def send(folder: Path, *, port: int, connections: Sequence[Sequence[bytes]], warm: int = 0) -> Result:
    """Send requests, one after the other on each connection, from a process of its own.

    Args:
        folder: For what the process is to read; made here.
        port: Of the server.
        connections: The requests of each connection.
        warm: How many of each connection go before the clock starts.

    Raises:
        RuntimeError: If a request is not answered with success; with its answer.
    """
    _write(folder, port=port, connections=connections, warm=warm)
    child = await asyncio.create_subprocess_exec(
        *children.command("benchmarks.load", folder),
        env=children.environment(),
        cwd=Path(__file__).parents[1],
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await child.communicate()
    if child.returncode:
        raise RuntimeError(f"The load failed: {err.decode(errors='replace')[-2_000:]}")
    return Result(**json.loads(out))


def _write(folder: Path, *, port: int, connections: Sequence[Sequence[bytes]], warm: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    plan = {"port": port, "warm": warm, "sizes": [[len(one) for one in requests] for requests in connections]}
    (folder / PLAN).write_text(json.dumps(plan))
    (folder / REQUESTS).write_bytes(b"".join(one for requests in connections for one in requests))


class _Connection(asyncio.Protocol):
    """One connection: sends a request, waits for the whole answer, sends the next."""

    _transport: asyncio.Transport

    def __init__(self) -> None:
        self._buffer = b""
        self._began = 0.0
        self._requests: list[bytes] = []
        self._done: asyncio.Future[None] | None = None
        self.times: list[float] = []

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        if self._done is not None and not self._done.done():
            self._done.set_exception(exc or ConnectionError("the server hung up"))

    def begin(self, requests: list[bytes]) -> asyncio.Future[None]:
        """Send these; the future is done when the last one is answered."""
        self._requests = requests[::-1]
        self.times = []
        self._done = asyncio.get_running_loop().create_future()
        self._next()
        return self._done

    def _next(self) -> None:
        if self._requests:
            self._began = time.perf_counter()
            self._transport.write(self._requests.pop())
        elif self._done is not None:
            self._done.set_result(None)

    def data_received(self, data: bytes) -> None:
        buffer = self._buffer + data if self._buffer else data
        end = buffer.find(b"\r\n\r\n")
        if end < 0 or len(buffer) < end + 4 + _length(buffer[:end]):
            self._buffer = buffer
            return
        self._buffer = b""
        self.times.append(time.perf_counter() - self._began)
        if buffer[9:10] != b"2":
            error = RuntimeError(buffer.decode(errors="replace")[:1_000])
            if self._done is not None and not self._done.done():
                self._done.set_exception(error)
            return
        self._next()


def _length(head: bytes) -> int:
    _, _, rest = head.lower().partition(b"\r\ncontent-length:")
    return int(rest.partition(b"\r\n")[0] or 0)


async def _run(folder: Path) -> Result:
    plan = json.loads((folder / PLAN).read_text())
    body, at = (folder / REQUESTS).read_bytes(), 0
    connections: list[list[bytes]] = []
    for sizes in plan["sizes"]:
        requests = []
        for size in sizes:
            requests.append(body[at : at + size])
            at += size
        connections.append(requests)
    del body
    gc.collect()
    gc.freeze()
    gc.disable()
    loop = asyncio.get_running_loop()
    opened = [(await loop.create_connection(_Connection, "127.0.0.1", plan["port"]))[1] for _ in connections]
    warm = plan["warm"]
    await asyncio.gather(*(one.begin(requests[:warm]) for one, requests in zip(opened, connections, strict=True)))
    began = time.perf_counter()
    await asyncio.gather(*(one.begin(requests[warm:]) for one, requests in zip(opened, connections, strict=True)))
    took = time.perf_counter() - began
    times = sorted(each for one in opened for each in one.times)
    return Result(
        rate=len(times) / took,
        p50=1e3 * times[len(times) // 2],
        p99=1e3 * times[min(len(times) * 99 // 100, len(times) - 1)],
    )


if __name__ == "__main__":
    print(json.dumps(asdict(uvloop.run(_run(Path(sys.argv[1]))))))
