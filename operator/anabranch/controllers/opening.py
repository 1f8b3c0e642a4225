"""What an operator's process stands on, opened in order: its database, that of agents, and the API server."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final

from anabranch.controllers.settings import WORKERS
from anabranch.kube.client import KubeClient
from anabranch.store import migrate
from anabranch.store.database import Database
from anabranch.store.remote import Remote

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from anabranch.controllers.settings import Settings

CONNECTIONS: Final = 20
"""To Postgres at most with the usual number of workers, besides the one that listens and the one for signs of life.
Each further worker has another one: however many of them wait in Postgres, the looks that find new work do not wait for
them."""


@contextlib.asynccontextmanager
async def opened(settings: Settings) -> AsyncIterator[tuple[Database, Database, KubeClient]]:
    """The database, with the schema of this release, that of agents, which may be another one, and the API server."""
    connections = CONNECTIONS + max(0, settings.workers - WORKERS)
    db = await Database.open(settings.dsn, application_name="anabranch-operator", max_size=connections)
    try:
        async with db.connection() as conn:
            await migrate.check(conn)
        async with _agents(settings, db) as agents:
            kube = await KubeClient.open(settings.kubeconfig)
            try:
                yield db, agents, kube
            finally:
                await kube.close()
    finally:
        await db.close()


@contextlib.asynccontextmanager
async def _agents(settings: Settings, own: Database) -> AsyncIterator[Database]:
    """The database of agents, which another store's operator goes to now and then, and need not find there."""
    if settings.agents_dsn is None:
        yield own
        return
    db = await Remote.open(
        settings.agents_dsn, application_name=f"anabranch-operator {settings.store}", min_size=0, max_size=4
    )
    try:
        yield db
    finally:
        await db.close()
