"""Ten thousand who open streams and say nothing more, on a real process: others are served, and it ends well.

So many connections are more than the process takes as streams: those it refuses stay open, too, as a client's pool
leaves them.
"""

from __future__ import annotations

import asyncio
import resource
import time
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import httpx
import psutil
import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.cluster.places import BASELINE, eventually
from tests.pace import allowed

from anabranch.client import AnabranchClient
from anabranch.feed.live import FOLLOWERS, FOLLOWERS_OF_ONE

API = "api-idle"
CONNECTIONS = 10_000
AT_ONCE = 64
STREAM_BYTES = 96 << 10
"""Of a stream that has nothing to say, with its connection: far more than it takes."""

pytestmark = [pytest.mark.outages, pytest.mark.timeout(600)]


@dataclass
class Crowd:
    """Connections that one caller has opened for streams.

    Attributes:
        streams: How many are streams.
        refused: How many were told to come back later, by what they were told.
    """

    host: str
    port: int
    head: bytes
    streams: int = 0
    refused: set[bytes] = field(default_factory=set)
    _writers: list[asyncio.StreamWriter] = field(default_factory=list)

    async def come(self, count: int) -> None:
        """Open so many."""
        left = iter(range(count))

        async def some() -> None:
            for _ in left:
                reader, writer = await asyncio.open_connection(self.host, self.port)
                self._writers.append(writer)
                writer.write(self.head)
                head = await reader.readuntil(b"\r\n\r\n")
                if head.startswith(b"HTTP/1.1 200 "):
                    self.streams += 1
                else:
                    self.refused.add(head.partition(b"\r\n")[0])

        await asyncio.gather(*(some() for _ in range(AT_ONCE)))

    async def go(self) -> None:
        """Close them all."""
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()
        await asyncio.sleep(0)


@pytest.fixture
def files():
    """Room for so many connections in this process, and in those that it starts."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = CONNECTIONS + 2_000
    if before[1] not in (-1, resource.RLIM_INFINITY) and before[1] < needed:
        pytest.skip(f"this machine allows {before[1]} open files, {needed} are needed: raise `ulimit -Hn`")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(before[0], needed), before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.fixture
async def api(place, files):
    """A replica of its own, as its address and its process."""
    await asyncio.to_thread(place.stack.start_api, API)
    port = urlsplit(place.stack.url(API)).port
    owner = next(each for each in psutil.net_connections("tcp") if each.status == "LISTEN" and each.laddr.port == port)
    yield place.stack.url(API), psutil.Process(owner.pid)
    await asyncio.to_thread(place.stack.stop, API)


async def followers(place) -> float:
    async with httpx.AsyncClient() as client:
        text = (await client.get(f"{place.stack.inner_url(API)}/metrics")).text
    families = {family.name: family for family in text_string_to_metric_families(text)}
    return families["anabranch_feed_followers"].samples[0].value


async def test_ten_thousand_idle_streams_leave_room_for_others_and_nothing_behind(place, api):
    url, process = api
    address = urlsplit(url)
    path = f"/v1/namespaces/{place.namespace}/baselines/{BASELINE}/events"

    def crowd(name: str) -> Crowd:
        token = place.account(name, "anabranch-agent")
        head = f"GET {path} HTTP/1.1\r\nHost: x\r\nAccept: text/event-stream\r\nAuthorization: Bearer {token}\r\n\r\n"
        return Crowd(address.hostname, address.port, head.encode())

    token = place.account("writer", "anabranch-agent")
    peaks = []
    async with AnabranchClient(url, token=token) as writer:
        branch = await place.branch(writer)
        idle = process.memory_info().rss
        for turn in range(2):
            one, other = crowd("one"), crowd("other")
            try:
                await one.come(CONNECTIONS // 2)
                await other.come(CONNECTIONS // 2)
                assert (one.streams, other.streams) == (FOLLOWERS_OF_ONE, FOLLOWERS - FOLLOWERS_OF_ONE)
                assert one.refused == other.refused == {b"HTTP/1.1 503 Service Unavailable"}
                assert await followers(place) == FOLLOWERS

                waited = []
                for number in range(20):
                    began = time.monotonic()
                    async with httpx.AsyncClient(timeout=allowed(5)) as prober:
                        for probe in (f"{place.stack.inner_url(API)}/readyz", f"{url}/healthz"):
                            assert (await prober.get(probe)).status_code == 200
                    await writer.put_private(place.namespace, branch.name, f"note-{turn}-{number}", {"n": number})
                    waited.append(time.monotonic() - began)
                peak = process.memory_info().rss
                assert max(waited) < allowed(5)
                assert peak - idle < FOLLOWERS * STREAM_BYTES + (CONNECTIONS - FOLLOWERS) * STREAM_BYTES // 2
            finally:
                await asyncio.gather(one.go(), other.go())

            async def gone() -> bool:
                return await followers(place) == 0 and process.num_fds() < 500

            await eventually(gone, within=allowed(60))
            peaks.append(peak)
    first, second = peaks
    assert second < first * 1.1, "what a round has taken serves the next one"
