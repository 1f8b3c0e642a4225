"""The real API on a port, before the test's database, in a world without a cluster.

Who shows the token ``NAME`` is the ServiceAccount of that name, and holds the grants that the world gives. A Branch
that is created is reconciled at once, as the operator would.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import secrets
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
import uvicorn
from tests.store.world import AGENTS, World

from anabranch.api import parts as api_parts
from anabranch.api.app import create_app
from anabranch.api.measured import Measured
from anabranch.api.settings import Settings
from anabranch.branches import reconcile as branch_resources
from anabranch.client import AnabranchClient
from anabranch.identity import Caller, Grants
from anabranch.kube.errors import AlreadyExistsError
from anabranch.model.crd import BranchResource
from anabranch.model.errors import UnauthenticatedError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from fastapi import FastAPI

    from anabranch.identity import Grant
    from anabranch.store.database import Database


@functools.cache
def _app() -> FastAPI:
    """The application, made once: that takes longer than most tests."""
    return create_app()


class Identity:
    """Tokens are names."""

    def __init__(self, *_: Any, **__: Any) -> None:
        self.known = True

    async def authenticate(self, token: str, **_: Any) -> Caller:
        if not token or not self.known:
            raise UnauthenticatedError("The token is not known.", hint="Show another.")
        return Caller.for_service_account(AGENTS, token)


class Asked(Grants):
    """What the world allows, asked as the API asks."""

    def __init__(self, world: World) -> None:
        self._world = world

    async def allowed(self, caller: Caller, grant: Grant, *, name: str = "", **_: Any) -> bool:
        return await self._world.permissions.allowed(caller, grant, name=name)

    async def scopes(self, caller: Caller, grant: Grant, *, namespace: str, scopes: Any, **_: Any) -> list[str]:
        return await self._world.permissions.scopes(caller, grant, namespace=namespace, scopes=scopes)


class Resources:
    """Where Branches are created, with the operator behind it."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._branches: dict[str, dict[str, Any]] = {}

    async def create(self, _kind: Any, body: dict[str, Any], *, namespace: str) -> dict[str, Any]:
        name = body["metadata"]["name"]
        if name in self._branches:
            raise AlreadyExistsError(f"There is a Branch {name}.")
        metadata = {"namespace": namespace, "name": name, "uid": f"uid-of-{name}", "generation": 1}
        self._branches[name] = {"metadata": metadata, "spec": body["spec"]}
        await self.reconcile(name)
        return self._branches[name]

    async def change(self, name: str, **spec: Any) -> None:
        """Change a Branch's spec, as somebody with kubectl."""
        resource = self._branches[name]
        resource["spec"] = {**resource["spec"], **spec}
        resource["metadata"]["generation"] += 1
        await self.reconcile(name)

    async def reconcile(self, name: str) -> None:
        await branch_resources.reconcile(
            self._world.db, BranchResource.parse(self._branches[name]), grants=self._world.permissions
        )

    async def call(self, *_: Any, **__: Any) -> None:
        """Say, as an API server, that it is there."""

    async def close(self) -> None:
        pass


@dataclass
class Served:
    """An API that runs, and the world behind it.

    Attributes:
        world: Baselines, agents, the operator.
        resources: The Branches.
        parts: Of the API.
        port: Where it listens.
    """

    world: World
    resources: Resources
    parts: api_parts.Parts
    port: int = 0
    _server: uvicorn.Server | None = None
    _task: asyncio.Task[None] | None = None
    _open: contextlib.AsyncExitStack = field(default_factory=contextlib.AsyncExitStack)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def start(self) -> None:
        """Serve, at the same port as before."""
        app = _app()
        app.state.parts = self.parts
        self._server = uvicorn.Server(
            uvicorn.Config(Measured(app), host="127.0.0.1", port=self.port, log_config=None, lifespan="off")
        )
        self._task = asyncio.create_task(self._server._serve())
        while not self._server.started:  # noqa: ASYNC110  (uvicorn tells it by a flag)
            await asyncio.sleep(0.005)
        self.port = self._server.servers[0].sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Be away."""
        self._server.should_exit = self._server.force_exit = True
        await self._task

    async def client(self, name: str = "ada") -> AnabranchClient:
        """A client as a ServiceAccount."""
        return await self._open.enter_async_context(AnabranchClient(self.url, token=name))


@contextlib.asynccontextmanager
async def serving(db: Database, api_dsn: str, *, cursor_key: bytes = b"") -> AsyncIterator[Served]:
    """Serve a world on a database.

    Args:
        db: As the operator sees it.
        api_dsn: As the API does.
        cursor_key: What cursors are sealed with; one of its own if none is given.
    """
    world = World(db)
    resources = Resources(world)

    async def opened(*_: Any) -> Resources:
        return resources

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(api_parts.KubeClient, "open", opened)
        patch.setattr(api_parts, "Grants", lambda _kube: Asked(world))
        patch.setattr(api_parts, "Identity", Identity)
        settings = Settings(dsn=api_dsn, audience="tests", cursor_keys=(cursor_key or secrets.token_bytes(16),))
        async with api_parts.opened(settings) as parts:
            served = Served(world, resources, parts)
            await served.start()
            try:
                yield served
            finally:
                await served._open.aclose()
                parts.stores.end()
                await served.stop()
