"""From a publication to its delivery to a thousand followers, next to NATS JetStream with a thousand consumers.

Ours: one process of the API with 1,000 streams over HTTP, of 50 agents with a token each, whose grants are asked about
again every three seconds meanwhile. A publication is one changed record in a transaction of the store; the operator's
notification follows it as in production. The event that arrives is made from the committed row, sealed cursor included.
The peer: one nats-server with a stream on disk and 1,000 push consumers, each of a connection of its own, as clients
make ordered ones: in memory, without acknowledgements. Its message is as long as our event. It authenticates nobody.

Both clocks run from the moment when the publisher knows that it is published (the commit, JetStream's acknowledgement)
to when a line with the probe has arrived at a connection. The same process listens to either, by the same few lines
(`benchmarks.listeners`): so NATS is not burdened with its Python client, which takes longer than the server.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import secrets
import statistics
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import nats
from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy, StorageType, StreamConfig

from anabranch.devcluster import children
from anabranch.devcluster.ports import free
from anabranch.devcluster.processes import Processes, Program
from anabranch.feed.waking import topic
from benchmarks import listeners, serving, stage
from benchmarks.listeners import PROBE
from benchmarks.measure import Row, interleaved

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

    import psutil

    from benchmarks.serving import Servers
    from benchmarks.stage import Line, Stage

NAME: Final = "following"
FOLLOWERS: Final = 1_000
AGENTS: Final = 50
PAUSE_SECONDS: Final = 0.15
"""Between two publications: each is a look of its own, and nobody is measured at the limit of the machine."""

MESSAGE_BYTES: Final = 800
"""About as much as an event of ours, with its envelope and its cursor."""


async def run(stage: Stage, *, quick: bool) -> list[Row]:
    """Measure."""
    followers, probes = (50, 10) if quick else (FOLLOWERS, 100)
    line = await stage.new_line(1_000)
    numbers = iter(range(1, 1_000_000))
    tails: dict[str, list[list[float]]] = {"ours": [], "peer": []}
    memory: dict[str, list[float]] = {"ours": [], "peer": []}

    async with serving.opened(stage, agents=min(AGENTS, followers)) as servers, _nats(stage.folder / "nats") as peer:
        api = await servers.api(line.dsn)
        streams = await streams_of(servers, line, followers)
        consumers = [
            f'CONNECT {{"verbose":false,"pedantic":false}}\r\nSUB followers.{n} 1\r\nPING\r\n'.encode()
            for n in range(followers)
        ]
        await peer.consume(followers)

        async def measured(side: str) -> float:
            if side == "ours":
                port, greetings, heard, publish = api, streams, b"event: bookmark", publishing(line)
                process = Processes(servers.folder).running("api")
            else:
                port, greetings, heard, publish = peer.port, consumers, b"PONG", peer.publish
                process = Processes(peer.folder).running("nats")
            if process is None:
                raise RuntimeError(f"the server has ended: {side}")
            some = Listening(port=port, greetings=greetings, heard=heard, process=process)
            quantiles, kib = await delivered(stage.folder, some, publish, [next(numbers) for _ in range(probes)])
            memory[side].append(kib)
            tails[side].append(quantiles)
            return tails[side][-1][98]

        compared = await interleaved(lambda: measured("ours"), lambda: measured("peer"))
    kib = max(memory["ours"])
    return [
        Row(
            name=NAME,
            work=f"publication to delivery, {followers:,} followers by SSE, {AGENTS} identities, grants asked again",
            peer=f"NATS JetStream, {followers:,} push consumers",
            bar="p99 ≤ 2x; ≤ 64 KiB a follower",
            ratio=compared.ratio,
            spread=compared.spread,
            reached=compared.ratio <= 2 and kib <= 64,
            figures={
                "kib_a_follower": round(kib, 1),
                "peer_kib_a_consumer": round(max(memory["peer"]), 1),
                **{
                    f"{side}_ms_p{percent}": float(f"{statistics.median(one[percent - 1] for one in found):.3g}")
                    for side, found in tails.items()
                    for percent in (50, 99)
                },
            },
        )
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Listening:
    """Who is to listen.

    Attributes:
        port: Of the server.
        greetings: What each connection sends.
        heard: What it is sent when it listens.
        process: The server's.
    """

    port: int
    greetings: Sequence[bytes]
    heard: bytes
    process: psutil.Process


async def delivered(
    folder: Path, some: Listening, publish: Callable[[int], Awaitable[float]], numbers: Sequence[int]
) -> tuple[list[float], float]:
    """Publish probes to listeners.

    Args:
        folder: For their process.
        some: The listeners.
        publish: Publishes a probe; gives when it was published.
        numbers: Of the probes.

    Returns:
        Each hundredth of the milliseconds until one was delivered, and the server's KiB for each listener.
    """
    before = some.process.memory_info().rss
    listening = await listeners.listening(
        folder / "listeners", port=some.port, greetings=some.greetings, heard=some.heard
    )
    kib = (some.process.memory_info().rss - before) / len(some.greetings) / 1024
    sent = {}
    for number in numbers:
        sent[number] = await publish(number)
        await asyncio.sleep(PAUSE_SECONDS)
    await asyncio.sleep(1)
    arrivals = await listening.arrivals()
    taken = [(at - published) * 1_000 for number, published in sent.items() for at in arrivals.get(number, ())]
    if len(taken) != len(some.greetings) * len(numbers):
        raise RuntimeError(f"{len(taken)} deliveries of {len(some.greetings) * len(numbers)}")
    return statistics.quantiles(taken, n=100), kib


async def streams_of(servers: Servers, line: Line, followers: int) -> list[bytes]:
    """What so many followers of a line send to the API: the agents' in turn."""
    path = f"/v1/namespaces/{serving.NAMESPACE}/baselines/{await serving.name_of(line)}/events?generation=head"
    return [
        agent.request("GET", path).replace(b"Accept: */*", b"Accept: text/event-stream")
        for agent in itertools.islice(itertools.cycle(servers.agents), followers)
    ]


def publishing(line: Line) -> Callable[[int], Awaitable[float]]:
    """Publishes a probe; gives when it was published."""

    async def publish(number: int) -> float:
        await line.write([stage.new_version(PROBE.format(number), stage.content(line.chance))])
        published = time.monotonic()
        line.db.notify(topic(line.line))
        return published

    return publish


class _Nats:
    """A nats-server with one stream."""

    def __init__(self, folder: Path, port: int, connection: nats.NATS) -> None:
        self.folder = folder
        self.port = port
        self._connection = connection
        self._stream = connection.jetstream()

    async def consume(self, followers: int) -> None:
        """Make the stream, and its consumers."""
        await self._stream.add_stream(StreamConfig(name="feed", subjects=["feed"], storage=StorageType.FILE))
        for number in range(followers):
            await self._stream.add_consumer(
                "feed",
                ConsumerConfig(
                    name=f"follower-{number}",
                    deliver_subject=f"followers.{number}",
                    deliver_policy=DeliverPolicy.NEW,
                    ack_policy=AckPolicy.NONE,
                    mem_storage=True,
                    num_replicas=1,
                    inactive_threshold=3_600,
                ),
            )

    async def publish(self, number: int) -> float:
        """Publish a probe; gives when it was published."""
        event = {"key": PROBE.format(number), "content": ""}
        event["content"] = secrets.token_hex((MESSAGE_BYTES - len(json.dumps(event))) // 2)
        await self._stream.publish("feed", json.dumps(event).encode())
        return time.monotonic()


@contextlib.asynccontextmanager
async def _nats(folder: Path) -> AsyncIterator[_Nats]:
    port = free(["nats"])["nats"]
    processes = Processes(folder)
    _start(processes, folder, port)
    try:
        connection = await nats.connect(f"nats://127.0.0.1:{port}", reconnect_time_wait=0.1, error_cb=_passes)
        try:
            yield _Nats(folder, port, connection)
        finally:
            await connection.close()
    finally:
        processes.stop("nats")


async def _passes(_: Exception) -> None:
    """It is tried again until the server is up."""


def _start(processes: Processes, folder: Path, port: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    program = Path(sys.executable).with_name("nats-server")  # the package installs it as a script
    arguments = ["--addr=127.0.0.1", f"--port={port}", "--jetstream", f"--store_dir={folder / 'data'}"]
    processes.start("nats", Program([str(program), *arguments], env=children.environment()))
