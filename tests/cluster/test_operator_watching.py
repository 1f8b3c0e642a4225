"""Watches that stall, break, or hang for good: the operator begins them anew, or says that it is dead.

Between operator and API server stands a proxy, so that watches fail while all else, the Lease among it, goes on.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time

import aiohttp
import pytest
from aiohttp import web
from tests.cluster.places import Place, eventually
from tests.pace import allowed

from anabranch.controllers.operator import run
from anabranch.controllers.settings import Settings, WatchPace
from anabranch.devcluster.ports import free
from anabranch.kube.connection import Connection

PACE = WatchPace(server=60, idle=2.0, silence=5.0)


class Proxy:
    """Passes requests on as the cluster's admin; watches only as it is told.

    Attributes:
        watches: How many were begun.
    """

    def __init__(self, connection: Connection) -> None:
        self._upstream = connection.server
        self._session = connection.session()
        self._open: dict[asyncio.Event, asyncio.Transport] = {}
        self._hanging = False
        self.watches = 0

    @contextlib.asynccontextmanager
    async def served(self):
        """Its address, while the block runs."""
        app = web.Application(client_max_size=2**24)
        app.router.add_route("*", "/{path:.*}", self._handle)
        runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=0.1)
        await runner.setup()
        try:
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            yield f"http://127.0.0.1:{runner.addresses[0][1]}"
        finally:
            await runner.cleanup()
            await self._session.close()

    def stall(self) -> None:
        """Nothing more comes of the watches that there are, though they stay open."""
        for stalled in self._open:
            stalled.set()

    def cut(self) -> None:
        """The watches that there are break."""
        for transport in self._open.values():
            transport.abort()

    def hang(self, *, hanging: bool) -> None:
        """No watch is answered, neither those that there are nor new ones; or they are again."""
        self._hanging = hanging
        if hanging:
            self.stall()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        watch = request.query.get("watch") == "true"
        if watch and self._hanging:
            await asyncio.sleep(60)
        headers = {name: request.headers[name] for name in ("Accept", "Content-Type") if name in request.headers}
        url = f"{self._upstream}{request.raw_path}"
        async with self._session.request(
            request.method, url, data=await request.read() or None, headers=headers, timeout=aiohttp.ClientTimeout()
        ) as answer:
            response = web.StreamResponse(status=answer.status, headers={"Content-Type": answer.content_type})
            await response.prepare(request)
            stalled = asyncio.Event()
            if watch:
                self.watches += 1
                self._open[stalled] = request.transport
            try:
                async for chunk in answer.content.iter_any():
                    if stalled.is_set():
                        await asyncio.sleep(60)
                    await response.write(chunk)
            finally:
                self._open.pop(stalled, None)
        return response


@pytest.fixture(scope="module")
async def proxy(stack):
    """The proxy, with the stack's only operator behind it; the ordinary one is back afterwards."""
    stack.stop("operator")
    try:
        async with proxied(stack) as proxy:
            yield proxy
    finally:
        await asyncio.to_thread(stack.start_operator)


@contextlib.asynccontextmanager
async def proxied(stack):
    connection = await Connection.open(str(stack.cluster.kubeconfig))
    proxy, stop = Proxy(connection), asyncio.Event()
    async with proxy.served() as address:
        kubeconfig = stack.folder / "proxied-kubeconfig"
        cluster = {"name": "proxied", "cluster": {"server": address}}
        context = {"name": "proxied", "context": {"cluster": "proxied", "user": ""}}
        kubeconfig.write_text(
            json.dumps({"kind": "Config", "clusters": [cluster], "contexts": [context], "current-context": "proxied"})
        )
        proxy.health = f"http://127.0.0.1:{(port := free(['http'])['http'])}"
        settings = Settings(
            dsn=stack.operator_dsn,
            kubeconfig=str(kubeconfig),
            system_namespace=stack.namespace,
            health_port=port,
            watch_pace=PACE,
        )
        operator = asyncio.create_task(run(settings, stop=stop))
        try:
            await eventually(lambda: answer(proxy, "/readyz", 200))
            yield proxy
        finally:
            stop.set()
            await operator
            kubeconfig.unlink()
    await connection.close()


@pytest.fixture(scope="module")
async def place(stack, proxy):
    place = Place(stack)
    await asyncio.to_thread(stack.make_namespace, place.namespace)
    await asyncio.to_thread(place.baseline)
    await asyncio.to_thread(place.account, "scout", "anabranch-agent")
    yield place
    await asyncio.to_thread(place.kubectl, "delete", "namespace", place.namespace, "--wait=false", scoped=False)


async def answer(proxy, path, status):
    """The body of a health answer of this status; None where there is another one, or none."""
    with contextlib.suppress(aiohttp.ClientError):
        async with aiohttp.ClientSession() as session, session.get(f"{proxy.health}{path}") as found:
            return await found.json() if found.status == status else None


async def forks(place, name):
    """How long it takes until a Branch that is applied now is forked."""
    began = time.monotonic()
    spec = {"baselineRef": {"name": "facts"}, "agent": {"serviceAccountName": "scout"}}
    await asyncio.to_thread(place.apply, "Branch", name, spec)
    wait = ("wait", "--for=condition=Ready", f"branch/{name}", "--timeout=60s")
    await asyncio.to_thread(place.kubectl, *wait)
    return time.monotonic() - began


async def test_watches_that_stall_are_begun_anew(proxy, place):
    assert await forks(place, "before") < allowed(5)
    proxy.stall()
    assert await forks(place, "stalled") < allowed(PACE.idle + 10)
    assert await eventually(lambda: answer(proxy, "/healthz", 200), within=allowed(PACE.idle))


async def test_watches_that_break_are_begun_anew(proxy, place):
    begun = proxy.watches
    proxy.cut()
    assert await forks(place, "cut") < allowed(PACE.idle + 10)
    assert proxy.watches > begun


async def test_an_operator_whose_watches_hang_for_good_is_dead_until_they_are_answered(proxy, place):
    proxy.hang(hanging=True)
    try:
        dead = await eventually(lambda: answer(proxy, "/healthz", 503), within=allowed(PACE.silence + 10))
        assert dead["leading"]
        assert "silent" in dead["wrong"]["watches"]
    finally:
        proxy.hang(hanging=False)
    assert await eventually(lambda: answer(proxy, "/healthz", 200), within=allowed(PACE.idle + 20))
    await forks(place, "answered")
