"""The feed as a stream over HTTP: what comes over the wire, for as long as one may see it, and on after every break."""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
import socket
import time
from dataclasses import dataclass
from urllib.parse import urlsplit

import asyncpg
import httpx
import pytest
import uvicorn
from prometheus_client.parser import text_string_to_metric_families
from tests.cluster.places import BASELINE, eventually, finding
from tests.cluster.test_api_outage import Way, way  # noqa: F401  (a fixture)
from tests.cluster.test_outages import restart_postgres
from tests.pace import allowed

from anabranch.api.app import create_app
from anabranch.api.parts import opened
from anabranch.api.serve import Server
from anabranch.api.settings import Settings
from anabranch.cli.main import run
from anabranch.client import AnabranchClient
from anabranch.client.sse import Parser
from anabranch.model.cloudevents import CloudEvent
from anabranch.model.errors import ForbiddenError, GoneError, NotFoundError

pytestmark = pytest.mark.long

STREAM = "text/event-stream"
MANY = 20_000
"""Events: more bytes of them than the sockets of a connection hold."""


@pytest.fixture(scope="module")
async def agent(place):
    return await place.client("agent", "anabranch-agent")


@dataclass
class Flood:
    """A Baseline to whose feed much comes at once."""

    name: str
    line: str
    conn: asyncpg.Connection

    async def come(self):
        async with self.conn.transaction():
            await self.conn.execute(
                "UPDATE line_heads SET event_sequence = event_sequence + $2 WHERE line = $1", self.line, MANY
            )
            await self.conn.execute(
                "INSERT INTO events (line, sequence, event_id, kind, scope, key, generation, published_baseline_id)"
                " SELECT $1, n, 'ev_' || n, 'published', 'shared', repeat('k', 200) || n, 1, 'bl_x'"
                " FROM generate_series(1, $2::bigint) AS n",
                self.line,
                MANY,
            )
        await self.conn.execute("SELECT pg_notify('anabranch', $1)", f"feed {self.line}")


@pytest.fixture
async def flood(place, agent):
    name = f"flood-{secrets.token_hex(4)}"
    place.baseline(name)
    conn = await asyncpg.connect(place.stack.operator_dsn)
    yield Flood(name, (await agent.baseline(place.namespace, name)).line_id, conn)
    await conn.close()


async def publish(place, agent, *findings):
    branch = await place.branch(agent)
    await place.submit(agent, branch, *findings)
    return await place.publication(agent, branch)


def fresh(**options):
    return finding(f"stream/{secrets.token_hex(4)}", secrets.token_hex(4), **options)


def path(place, name=BASELINE):
    return f"/v1/namespaces/{place.namespace}/baselines/{name}/events"


class Raw:
    """A stream as a client of any language sees it; its client may stop to read."""

    def __init__(self, place, account, *, name=BASELINE, url=None, **headers):
        self._parser = Parser()
        self._target = urlsplit(url or place.stack.api_url)
        lines = [
            f"GET {path(place, name)} HTTP/1.1",
            f"Host: {self._target.netloc}",
            f"Authorization: Bearer {place._tokens[account]}",
            f"Accept: {STREAM}",
            *(f"{field.replace('_', '-')}: {value}" for field, value in headers.items()),
        ]
        self._request = "\r\n".join([*lines, "", ""]).encode()
        self.messages = []

    async def __aenter__(self):
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16_384)
        sock.setblocking(False)
        await asyncio.get_running_loop().sock_connect(sock, (self._target.hostname, self._target.port))
        self._reader, self._writer = await asyncio.open_connection(sock=sock, limit=16_384)
        self._writer.write(self._request)
        self.head = (await self._reader.readuntil(b"\r\n\r\n")).decode()
        return self

    async def read(self, until=lambda _: False, within=30.0):
        """Read until a message is what is looked for, or to the end."""
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            async with asyncio.timeout(within):
                while size := int(await self._reader.readuntil(b"\r\n"), 16):
                    body = (await self._reader.readexactly(size + 2))[:-2]
                    found = list(self._parser.feed(body))
                    self.messages += found
                    if any(map(until, found)):
                        return self
        return self

    async def __aexit__(self, *error):
        self._writer.close()
        with contextlib.suppress(ConnectionError):
            await self._writer.wait_closed()

    @property
    def events(self):
        return [CloudEvent.model_validate_json(m.data) for m in self.messages if m.data and m.event != "end"]

    @property
    def end(self):
        return next((json.loads(m.data) for m in self.messages if m.event == "end"), None)


async def ended(place, code):
    """How many streams the API has ended for a reason."""
    async with httpx.AsyncClient(trust_env=False) as client:
        text = (await client.get(f"{place.stack.inner_url('api')}/metrics")).text
    return sum(
        sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == "anabranch_feed_streams_ended_total" and sample.labels["code"] == code
    )


async def test_a_stream_looks_as_its_page_says(place, agent):
    here = (await agent.events(place.namespace, BASELINE, limit=1_000)).cursor
    async with Raw(place, "agent", Last_Event_ID=here) as raw:
        assert f"content-type: {STREAM}" in raw.head
        await raw.read(lambda message: message.event == "bookmark")
        assert [(message.data, bool(message.last_id)) for message in raw.messages] == [("", True)]
        change = fresh()
        publication = await publish(place, agent, change)
        await raw.read(lambda message: message.data)
    message, event = raw.messages[-1], raw.events[0]
    assert (message.event, event.type, event.subject) == ("dev.anabranch.record.published", message.event, change.key)
    assert event.source == path(place).removesuffix("/events")
    assert (event.data.generation, event.data.event_id) == (publication.generation, event.id)
    page = await agent.events(place.namespace, BASELINE, after=here)
    assert page.events == (event.data,)
    assert page.cursor == message.last_id, "a cursor of either is one of the other"


async def test_what_is_wrong_is_a_problem_before_a_stream_begins(place, agent):
    place.account("nobody")
    for account, query, status, code in (
        ("nobody", {}, 404, "NotFound"),
        ("agent", {"after": "made up"}, 422, "InvalidCursor"),
        ("agent", {"wait": "3"}, 422, "InvalidInput"),
        ("agent", {"limit": "3"}, 422, "InvalidInput"),
    ):
        client = await place.client(account)
        answer = await place.raw(client, "GET", path(place), params=query, headers={"Accept": STREAM})
        assert (answer.status_code, answer.json()["code"]) == (status, code)
    answer = await place.raw(None, "GET", path(place), headers={"Accept": STREAM})
    assert answer.status_code == 401


async def revoke(place, account):
    bindings = place.stack.cluster.get("rolebindings", "--namespace", place.namespace)["items"]
    mine = [one["metadata"]["name"] for one in bindings if one["subjects"][0]["name"] == account]
    await asyncio.to_thread(place.kubectl, "delete", "rolebinding", *mine)


async def test_a_deleted_role_binding_ends_a_running_stream_within_five_seconds(place, agent):
    place.account("revoked", "get baselines", "watch baselines/events", "read scopes")
    async with Raw(place, "revoked") as raw:
        await raw.read(lambda message: message.event == "bookmark")
        await revoke(place, "revoked")
        began = time.monotonic()
        await raw.read()
    assert time.monotonic() - began < allowed(5)
    assert (raw.end["reason"], raw.end["status"]) == ("not_found", 404)
    await publish(place, agent, fresh())
    with pytest.raises((ForbiddenError, NotFoundError)):
        await anext((await place.client("revoked")).follow(place.namespace, BASELINE))


async def test_a_deleted_role_binding_ends_a_replay_too(place, flood):
    place.account("replaying", "get baselines", "watch baselines/events", "read scopes")
    await flood.come()
    async with Raw(place, "replaying", name=flood.name) as raw:
        await raw.read(lambda message: message.data)
        await revoke(place, "replaying")
        await asyncio.sleep(5)  # it does not read meanwhile: what it still gets was on its way before
        await raw.read()
    assert 0 < raw.events[-1].data.sequence < MANY


async def test_a_follower_that_does_not_read_is_let_go_and_then_gets_all_that_it_missed(place, agent, flood):
    before = await ended(place, "SlowConsumer")
    found = []
    async with contextlib.aclosing(agent.follow(place.namespace, flood.name)) as items:
        assert (await anext(items)).event is None, "it is live"
        await flood.come()

        async def let_go():
            return await ended(place, "SlowConsumer") > before

        await eventually(let_go)  # it does something else meanwhile
        async for item in items:
            if item.event is not None:
                found.append(item.event.sequence)
            if found and found[-1] == MANY:
                break
    assert found == list(range(1, MANY + 1))


class Following:
    """A client that follows and notes what comes."""

    def __init__(self, client, place, *, name=BASELINE, **options):
        self.keys, self.cursor = [], None
        self._items = client.follow(place.namespace, name, generation="head", **options)
        self._is_live = asyncio.Event()
        self.task = asyncio.create_task(self._note())

    async def _note(self):
        async with contextlib.aclosing(self._items) as items:
            async for item in items:
                self.cursor = item.cursor
                self._is_live.set()
                if item.event is not None:
                    self.keys.append(item.event.key)

    async def live(self):
        await asyncio.wait_for(self._is_live.wait(), 60)
        return self

    async def has(self, key):
        async def look():
            assert not self.task.done(), self.task
            return key in self.keys

        await eventually(look)

    async def stop(self):
        self.task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self.task


async def test_a_follower_gets_everything_once_whatever_goes_away(place, agent):
    """The API dies and is upgraded, the operator and Postgres are restarted, the network goes: nobody helps it."""
    stack = place.stack
    network = Way(stack.api_url)
    await network.open()

    async def cut():
        network.cut()
        await asyncio.sleep(1)
        await network.open()

    async def again(end, name, start):
        await asyncio.to_thread(end, name)
        await asyncio.to_thread(start, name)

    async with AnabranchClient(f"http://127.0.0.1:{network.port}", token=place._tokens["agent"]) as client:
        following = await Following(client, place).live()
        wanted = []
        for away in (
            lambda: again(stack.kill, "api", stack.start_api),
            lambda: again(stack.stop, "api", stack.start_api),
            lambda: again(stack.stop, "operator", stack.start_operator),
            lambda: asyncio.to_thread(restart_postgres, stack),
            cut,
        ):
            going = asyncio.create_task(away())
            change = fresh()
            wanted.append(change.key)
            await going
            await publish(place, agent, change)
            await following.has(change.key)
        await following.stop()
    network.cut()
    assert following.keys == wanted


async def test_replicas_bring_the_same_and_take_each_others_cursors(place, agent):
    await asyncio.to_thread(place.stack.start_api, "replica")
    try:
        async with AnabranchClient(place.stack.url("replica"), token=place._tokens["agent"]) as other:
            here, there = await Following(agent, place).live(), await Following(other, place).live()
            one, two = fresh(), fresh()
            await publish(place, agent, one)
            await there.has(one.key)
            await here.has(one.key)
            cursor = here.cursor
            await publish(place, agent, two)
            await there.has(two.key)
            assert here.keys + [two.key] * (two.key not in here.keys) == there.keys
            page = await other.events(place.namespace, BASELINE, after=cursor)
            assert [event.key for event in page.events] == [two.key]
            async with Raw(place, "agent", url=place.stack.url("replica")) as leaving:
                await leaving.read(lambda message: message.event == "bookmark")
                ending = asyncio.create_task(asyncio.to_thread(place.stack.stop, "replica"))
                await leaving.read()
            assert leaving.end["reason"] == "ending"
            await ending
            await here.stop()
            await there.stop()
    finally:
        await asyncio.to_thread(place.stack.stop, "replica")


async def test_a_follower_that_stayed_away_too_long_is_led_back(place, agent, flood):
    start = (await agent.events(place.namespace, flood.name)).cursor
    await flood.come()
    await flood.conn.execute("DELETE FROM events WHERE line = $1 AND sequence <= 9", flood.line)
    await flood.conn.execute("UPDATE line_heads SET event_floor = 9 WHERE line = $1", flood.line)
    with pytest.raises(GoneError) as caught:
        await anext(agent.follow(place.namespace, flood.name, after=start))
    lost = caught.value.extra
    assert (caught.value.code, lost["floor"], lost["snapshot"]["generation"]) == ("CursorExpired", 9, 1)
    async with contextlib.aclosing(agent.follow(place.namespace, flood.name, after=lost["cursor"])) as items:
        assert (await anext(items)).event is None


async def test_a_follower_behind_what_lets_no_stream_through_polls(place, agent):
    following = await Following(agent, place, poll=True).live()
    change = fresh()
    await publish(place, agent, change)
    await following.has(change.key)
    await following.stop()


async def test_streams_end_while_grants_cannot_be_asked_and_say_so(place, agent, way):  # noqa: F811
    if place.stack.cluster.kind == "given":
        pytest.skip("the certificate of a given cluster may not name the loopback address")
    settings = Settings(
        dsn=place.stack.api_dsn,
        audience=place.stack.audience,
        cursor_keys=(b"a key of this test alone",),
        kubeconfig=str(way.kubeconfig),
    )
    async with opened(settings) as parts:
        config = uvicorn.Config(create_app(parts), port=0, lifespan="off", log_config=None, access_log=False)
        server = Server(config, parts, drain=0)
        serving = asyncio.create_task(server.serve())

        async def started():
            return server.started

        await eventually(started)
        port = server.servers[0].sockets[0].getsockname()[1]
        async with Raw(place, "agent", url=f"http://127.0.0.1:{port}") as raw:
            await raw.read(lambda message: message.event == "bookmark")
            way.cut()
            began = time.monotonic()
            await raw.read()
        assert time.monotonic() - began < allowed(8)
        assert (raw.end["reason"], raw.end["status"]) == ("grants_unverifiable", 503)
        server.should_exit = True
        await serving


@pytest.fixture
async def two(place, agent):
    """Two events at least."""
    return await publish(place, agent, fresh(), fresh())


@pytest.mark.usefixtures("two")
def test_people_follow_by_a_command(place, monkeypatch, capsys):
    place.account("watcher", "anabranch-viewer")
    monkeypatch.setenv("ANABRANCH_URL", place.stack.api_url)
    monkeypatch.setenv("ANABRANCH_TOKEN", place._tokens["watcher"])
    follow = ["feed", "follow", BASELINE, "--namespace", place.namespace, "--all", "--count=2"]
    assert run([*follow, "--output=json"]) == 0
    first, second = map(json.loads, capsys.readouterr().out.splitlines())
    assert (first["event"]["sequence"], second["event"]["sequence"]) == (1, 2)
    assert (
        run(["feed", "follow", BASELINE, "--namespace", place.namespace, "--after", first["cursor"], "--count=1"]) == 0
    )
    heading, line = capsys.readouterr().out.splitlines()
    assert heading.split()[-1] == "KEY"
    assert line.split()[-1] == second["event"]["key"]
