"""A second database beside the stack's: another server, another operator, and an API that knows both."""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

import asyncpg
import pytest
from tests.cluster.places import Place, finding

from anabranch.client import AnabranchClient
from anabranch.devcluster import children, choose, postgres
from anabranch.devcluster.postgres import PostgresServer, with_database
from anabranch.devcluster.stack import ENTRY_POINT, Stack

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

AUTOMATIC = {"review": {"mode": "Automatic"}}
OPERATOR_EAST = "operator-east"
LEASE_EAST = "anabranch-operator-east"
STORES_ROLE = "anabranch-operator-stores"


@dataclass(frozen=True, kw_only=True)
class Stores:
    """A stack with a second database.

    Attributes:
        stack: It; its own database is the default one.
        east: The server of the second.
    """

    stack: Stack
    east: PostgresServer

    def dsn(self, role: str, password: str) -> str:
        return with_database(self.east.dsn, "postgres", user=f"anabranch_{role}", password=password)

    def server(self, store: str) -> PostgresServer:
        return self.east if store == "east" else self.stack.server

    def start_operator(self) -> None:
        """Start the second store's operator unless it runs."""
        self.stack.start_operator(
            OPERATOR_EAST,
            ANABRANCH_STORES="east",
            ANABRANCH_STORE="east",
            ANABRANCH_OPERATOR_DSN=self.dsn("operator", self.stack.secrets.operator_password),
            ANABRANCH_AGENTS_DSN=self.stack.operator_dsn,
        )

    def start_api(self) -> None:
        """Start the API that knows both unless it runs."""
        self.stack.start_api(
            "api-stores",
            ANABRANCH_STORES="east",
            ANABRANCH_STORE_EAST_API_DSN=self.dsn("api", self.stack.secrets.api_password),
        )

    def stop(self, store: str) -> None:
        self.server(store).stop()

    def start(self, store: str) -> None:
        if store == "east":
            postgres.start(self.east.folder, durable=False)
        else:
            choose.postgres_server(self.stack.folder / "postgres", durable=False)

    @contextlib.asynccontextmanager
    async def away(self, store: str):
        """Without one of the databases, and with it again."""
        await asyncio.to_thread(self.stop, store)
        try:
            yield
        finally:
            await asyncio.to_thread(self.start, store)

    async def ask(self, store: str, query: str, *values: object) -> list[asyncpg.Record]:
        """What a database says, as its superuser sees it."""
        conn = await asyncpg.connect(self.east.dsn if store == "east" else self.stack.admin_dsn)
        try:
            return await conn.fetch(query, *values)
        finally:
            await conn.close()

    async def lines(self, store: str) -> set[str]:
        """The names of the Baselines whose lines lie in a database."""
        return {row["name"] for row in await self.ask(store, "SELECT name FROM lines WHERE deleted_at IS NULL")}


class Town(Place):
    """A namespace whose people call the API that knows both databases."""

    async def client(self, name, *grants):
        token = self.account(name, *grants)
        return await self._open.enter_async_context(AnabranchClient(self.stack.url("api-stores"), token=token))

    def get(self, kind, name):
        return json.loads(self.kubectl("get", kind, name, "--output=json"))

    def status(self, kind, name):
        return self.get(kind, name).get("status", {})


@contextlib.contextmanager
def beside(stack: Stack, folder: Path) -> Iterator[Stores]:
    """The stack, told of a second store, with a second operator, and as it was afterwards.

    Args:
        stack: The running stack.
        folder: Where the second server keeps everything.
    """
    if stack.server.folder is None:
        pytest.skip("a Postgres of somebody else is not stopped")
    east = postgres.start(folder, durable=False)
    made = Stores(stack=stack, east=east)
    try:
        subprocess.run(
            children.command(ENTRY_POINT, "migrate", "--roles-from-env"),
            check=True,
            env=children.environment(
                ANABRANCH_MIGRATE_DSN=east.dsn,
                ANABRANCH_MIGRATE_PASSWORD=stack.secrets.migrate_password,
                ANABRANCH_OPERATOR_PASSWORD=stack.secrets.operator_password,
                ANABRANCH_API_PASSWORD=stack.secrets.api_password,
            ),
        )
        stack.cluster.apply(lease_role(stack.namespace))
        stack.stop("operator")
        stack.start_operator(ANABRANCH_STORES="east")
        made.start_operator()
        made.start_api()
        yield made
    finally:
        for process in ("api-stores", OPERATOR_EAST, "operator"):
            stack.stop(process)
        east.stop()
        for what in (f"rolebinding/{STORES_ROLE}", f"role/{STORES_ROLE}", f"lease/{LEASE_EAST}"):
            stack.cluster.kubectl("delete", what, f"--namespace={stack.namespace}", "--ignore-not-found")
        stack.start_operator()


def lease_role(namespace):
    """What the chart gives the operator for each further store: that store's Lease."""
    version, name = "rbac.authorization.k8s.io/v1", STORES_ROLE
    metadata = {"name": name, "namespace": namespace}
    rule = {
        "apiGroups": ["coordination.k8s.io"],
        "resources": ["leases"],
        "resourceNames": [LEASE_EAST],
        "verbs": ["get", "update"],
    }
    subject = {"kind": "ServiceAccount", "name": "anabranch-operator", "namespace": namespace}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name}
    return [
        {"apiVersion": version, "kind": "Role", "metadata": metadata, "rules": [rule]},
        {"apiVersion": version, "kind": "RoleBinding", "metadata": metadata, "roleRef": role, "subjects": [subject]},
    ]


async def published(town, ada, baseline):
    """A finding of a fresh run, published; its branch and its key."""
    branch = await town.branch(ada, baseline=baseline)
    key = f"found/{secrets.token_hex(4)}"
    await town.submit(ada, branch, finding(key, baseline))
    await town.publication(ada, branch)
    assert (await ada.record(town.namespace, baseline, key)).content == baseline
    return branch, key
