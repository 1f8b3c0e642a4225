"""Many connections that listen, and note when each probe arrived at each of them.

A process of its own, the same for every side: what it costs, it costs both. On each connection it sends what it was
given, and of what comes it looks only for the end of a line that has the number of a probe. Times are of the machine's
monotonic clock, which the publisher's process shares.

    python -m benchmarks.listeners FOLDER     # says "ready" when each has heard something; ends with its input
"""

from __future__ import annotations

import asyncio
import functools
import gc
import json
import re
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import uvloop

from anabranch.devcluster import children

if TYPE_CHECKING:
    from collections.abc import Sequence

PROBE = "probe/{:06}"
_PROBE = re.compile(rb"probe/([0-9]{6})")
_AT_ONCE = 50


class Listeners:
    """The process; made by `listening`."""

    def __init__(self, folder: Path, process: asyncio.subprocess.Process) -> None:
        self._folder = folder
        self._process = process

    async def arrivals(self) -> dict[int, list[float]]:
        """End it; when each probe arrived, in seconds of the monotonic clock.

        Raises:
            RuntimeError: If a connection broke.
        """
        _, err = await self._process.communicate(b"end\n")
        if self._process.returncode:
            raise RuntimeError(f"The listeners failed: {err.decode(errors='replace')[-2_000:]}")
        found = json.loads((self._folder / "arrivals.json").read_text())
        return {int(number): times for number, times in found.items()}


async def listening(folder: Path, *, port: int, greetings: Sequence[bytes], heard: bytes) -> Listeners:
    """Connect to a port; returns when every connection listens.

    Args:
        folder: For what the process is to read; made here.
        port: Of the server.
        greetings: What each connection sends.
        heard: What it is sent when it listens.
    """
    _write(folder, {"port": port, "heard": heard.decode(), "greetings": [one.decode() for one in greetings]})
    process = await asyncio.create_subprocess_exec(
        *children.command("benchmarks.listeners", folder),
        env=children.environment(),
        cwd=Path(__file__).parents[1],
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    if process.stdout is None or await process.stdout.readline() != b"ready\n":
        _, err = await process.communicate()
        raise RuntimeError(f"Not all listen: {err.decode(errors='replace')[-2_000:]}")
    return Listeners(folder, process)


def _write(folder: Path, plan: dict[str, Any]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "plan.json").write_text(json.dumps(plan))


class _Listener(asyncio.Protocol):
    def __init__(self, greeting: bytes, heard: bytes, arrivals: dict[int, list[float]]) -> None:
        self._greeting = greeting
        self._heard = heard
        self._arrivals = arrivals
        self._rest = b""
        self.listens: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.is_over = False

    def connection_made(self, transport: Any) -> None:
        transport.write(self._greeting)

    def data_received(self, data: bytes) -> None:
        whole, newline, rest = (self._rest + data).rpartition(b"\n")
        if not newline:
            self._rest = rest
            return
        self._rest = rest
        if not self.listens.done():
            if self._heard in whole:
                self.listens.set_result(None)
            elif b"-ERR" in whole or b"problem+json" in whole:
                self.listens.set_exception(RuntimeError(whole.decode(errors="replace")))
            return
        now = time.monotonic()
        for number in {int(one) for one in _PROBE.findall(whole)}:
            self._arrivals.setdefault(number, []).append(now)

    def connection_lost(self, exc: Exception | None) -> None:
        error = ConnectionError(f"the server hung up: {exc}")
        if not self.listens.done():
            self.listens.set_exception(error)
        elif not self.is_over:
            print(error, file=sys.stderr)
            raise SystemExit(1)


def _same(listener: _Listener) -> _Listener:
    return listener


async def _run(folder: Path) -> None:
    plan = json.loads((folder / "plan.json").read_text())
    arrivals: dict[int, list[float]] = {}
    loop = asyncio.get_running_loop()
    made: list[_Listener] = []
    for begin in range(0, len(plan["greetings"]), _AT_ONCE):
        some = [
            _Listener(greeting.encode(), plan["heard"].encode(), arrivals)
            for greeting in plan["greetings"][begin : begin + _AT_ONCE]
        ]
        for one in some:
            await loop.create_connection(functools.partial(_same, one), "127.0.0.1", plan["port"])
        await asyncio.gather(*(one.listens for one in some))
        made += some
    gc.collect()
    gc.freeze()
    gc.disable()
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    for one in made:
        one.is_over = True
    (folder / "arrivals.json").write_text(json.dumps(arrivals))


if __name__ == "__main__":
    uvloop.run(_run(Path(sys.argv[1])))
