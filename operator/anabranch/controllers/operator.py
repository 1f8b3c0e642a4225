"""The operator's process: puts its parts together, runs them, and takes them apart in order.

Every process works the wake queue; the leader watches the API server and writes statuses besides. A process that loses
the Lease takes all of it apart and begins again without, so there is one way down, and it is the one that is tested by
every stop: no new work, let go of jobs, show what is done, then stop watching, and give the Lease back last.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import uuid
from typing import TYPE_CHECKING, Any, Final

import kopf
import structlog

from anabranch.consolidation import work
from anabranch.consolidation.services import Services
from anabranch.controllers import looks, watching
from anabranch.controllers.announcer import Announcer
from anabranch.controllers.backlog import Backlog
from anabranch.controllers.bell import Bell
from anabranch.controllers.births import Births
from anabranch.controllers.configmaps import ConfigMapFollower
from anabranch.controllers.configuration import Configuration
from anabranch.controllers.deletions import Deletions
from anabranch.controllers.expiry import Expiry
from anabranch.controllers.guarding import GuardFollower
from anabranch.controllers.health import Health
from anabranch.controllers.homes import Homes
from anabranch.controllers.opening import opened
from anabranch.controllers.projector import Projector
from anabranch.controllers.reach import Reach
from anabranch.controllers.reconciler import Reconciler
from anabranch.controllers.services import controllers
from anabranch.controllers.sweep import Scope, Sweep
from anabranch.controllers.tasks import background, first, signals
from anabranch.controllers.visits import Visits
from anabranch.controllers.wake import Able, WakeQueue, listen
from anabranch.controllers.workers import Workers
from anabranch.identity import Grants
from anabranch.kube.guard import ReviewGuard
from anabranch.kube.leader import Leadership, Pace
from anabranch.model.errors import AnabranchError
from anabranch.model.stores import DEFAULT_STORE
from anabranch.runtime import settle
from anabranch.search import embedding
from anabranch.store import migrate
from anabranch.telemetry import common
from anabranch.telemetry.exporting import exported
from anabranch.telemetry.listener import listening as inner_port
from anabranch.telemetry.of_operator import OPERATOR_SHOWN

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from anabranch.controllers.settings import Settings
    from anabranch.kube.client import KubeClient
    from anabranch.kube.kinds import OwnName
    from anabranch.search.embedding import Embedder
    from anabranch.store.database import Database

_log = structlog.get_logger(__name__)

_GRACE_SECONDS: Final = 5.0
_PATIENCE_LEASES: Final = 2
"""Leases' durations for which a leader may be without Postgres: a failover ends within that, as a rule."""


async def run(settings: Settings, *, stop: asyncio.Event | None = None) -> None:
    """Run the operator until SIGTERM, SIGINT or the event.

    Args:
        settings: Of this process.
        stop: Set to end it from within the process.

    Raises:
        AnabranchError: If it cannot begin: no database, another schema, no API server, a bad configuration.
    """
    stop = stop or asyncio.Event()
    configuration = Configuration.read(settings.config)
    embedder = None if settings.embedder is None else embedding.load(settings.embedder)
    common.describe(schema=migrate.head())
    async with exported("anabranch-operator"), opened(settings) as (db, agents, kube):
        while not stop.is_set():
            process = _Process(
                settings, db=db, agents=agents, kube=kube, configuration=configuration, embedder=embedder
            )
            await process.serve(stop)


class _Process:
    """One life of the operator: from standing for leadership to its loss, or the end."""

    def __init__(  # noqa: PLR0913  (what a process holds)
        self,
        settings: Settings,
        *,
        db: Database,
        agents: Database,
        kube: KubeClient,
        configuration: Configuration,
        embedder: Embedder | None,
    ) -> None:
        self._settings = settings
        self._db = db
        identity = f"{socket.gethostname()}-{uuid.uuid4()}"
        pace = Pace.of(settings.lease_seconds)
        self._reach = Reach(db, patience=_PATIENCE_LEASES * pace.duration)
        self._leadership = Leadership(
            kube,
            namespace=settings.system_namespace,
            name=settings.lease_name,
            identity=identity,
            pace=pace,
            fit=self._reach.lately,
        )
        self._watches = watching.Watches(namespaces=settings.namespaces, silence=settings.watch_pace.silence)
        self._health = Health(db, store=settings.store, leadership=self._leadership, watches=self._watches)
        self._announcer = Announcer(kube, instance=identity)
        # A finding that is refused, or a branch that is denied, is so for good.
        grants = Grants(kube)
        self._status_bell = Bell()
        guard = ReviewGuard(kube)
        self._homes = Homes(kube, own=settings.store, others=settings.stores)
        self._reconciler = Reconciler(
            controllers(
                db,
                kube=kube,
                grants=grants,
                guard=guard,
                models=configuration.models.keys(),
                agents=agents,
                tell=self._announcer.tell,
            ),
            db=db,
            kube=kube,
            changed=self._ring,
            homes=self._homes,
        )
        self._projector = Projector(
            db,
            kube,
            leadership=self._leadership,
            announcer=self._announcer,
            bell=self._status_bell,
            reconciler=self._reconciler,
            store=None if settings.store == DEFAULT_STORE else settings.store,
            homes=self._homes,
        )
        services = Services.of(db, grants, configuration)
        self._workers = Workers(
            db,
            advance=lambda job: work.advance(services, job),
            holder=identity,
            slots=settings.workers,
            changed=self._ring,
        )
        self._queue = WakeQueue(
            [
                Able(self._workers, self._is_able),
                Able(Visits(db, self._reconciler), self._is_able),
                Able(
                    Births(db, kube, announcer=self._announcer, changed=self._ring, store=settings.store),
                    self._is_able,
                ),
                Able(Deletions(db, self._reconciler), self._is_able),
                *looks.of(
                    db,
                    kube,
                    configuration=configuration,
                    embedder=embedder,
                    keep=settings.agent_events,
                    ring=self._ring,
                    agents=agents,
                ),
            ]
        )
        self._guard = GuardFollower(guard, self._reconciler)
        self._sweep = Sweep(
            db,
            kube,
            reconciler=self._reconciler,
            tell=self._announcer.tell,
            scope=Scope(
                namespaces=settings.namespaces,
                system_namespace=settings.system_namespace,
                lease=settings.lease_name,
                trusting=settings.accept_missing,
            ),
        )
        self._expiry = Expiry(
            db,
            kube,
            reconciler=self._reconciler,
            leadership=self._leadership,
            namespaces=settings.namespaces,
        )
        self._config_maps = ConfigMapFollower(kube, self._reconciler, namespaces=settings.namespaces)
        self._registry = watching.registry(
            self._reconciler,
            connection=kube.connection,
            watches=self._watches,
            observe=self._observe,
            forget=self._forget,
        )

    async def serve(self, stop: asyncio.Event) -> None:
        """Work until told to stop, or until leadership is lost."""
        with signals(stop):
            async with (
                inner_port(
                    OPERATOR_SHOWN, self._health, host=self._settings.health_host, port=self._settings.health_port
                ),
                background(self._announcer.run(), name="events") as events,
            ):
                settle()
                async with self._leadership.campaign():
                    await self._campaign(stop, events)
                # Another process leads by now: what is left to be told is no business of a leader's.
                await self._announcer.drain(_GRACE_SECONDS)

    async def _campaign(self, stop: asyncio.Event, events: asyncio.Task[None]) -> None:
        """Work on what is due, and lead as soon as no other process does."""
        queue = listen(self._db, dsn=self._settings.listen_dsn, ring=self._ring)
        async with (
            background(self._queue.run(), name="wake queue") as looking,
            background(queue, name="notifications") as listening,
            background(self._reach.run(), name="signs of life") as asking,
        ):
            tasks = (events, looking, listening, asking)
            await first(stop.wait(), self._leadership.acquired(), tasks=tasks)
            if not stop.is_set():
                await self._lead(stop, tasks)
            await self._workers.stop(_GRACE_SECONDS)
        await self._reconciler.close()

    async def _lead(self, stop: asyncio.Event, tasks: Iterable[asyncio.Task[Any]]) -> None:
        """Watch and write, until told to stop or until leadership is lost."""
        stop_watching = asyncio.Event()
        self._watches.expect()
        async with (
            background(self._projector.run(), name="projector") as projecting,
            background(self._config_maps.run(), name="ConfigMaps") as following,
            background(self._sweep.run(), name="sweep") as sweeping,
            background(self._expiry.run(), name="expiry") as expiring,
            background(self._guard.run(), name="review guard") as guarding,
            background(Backlog(self._db).run(), name="readings") as reading,
        ):
            kopf_tasks = await kopf.spawn_tasks(
                registry=self._registry,
                settings=watching.operator_settings(self._settings.watch_pace),
                clusterwide=not self._settings.namespaces,
                namespaces=self._settings.namespaces,
                stop_flag=stop_watching,
            )
            with signals(stop):  # again: kopf has put its own in their place
                watched = asyncio.create_task(kopf.run_tasks(kopf_tasks, ignored=_NotTheirs()), name="watches")
                try:
                    own = (projecting, following, guarding, sweeping, expiring, reading, watched)
                    await first(stop.wait(), self._leadership.lost(), tasks=(*tasks, *own))
                    await self._workers.stop(_GRACE_SECONDS)
                    with contextlib.suppress(AnabranchError, TimeoutError):
                        async with asyncio.timeout(_GRACE_SECONDS):
                            await self._projector.look()
                finally:
                    stop_watching.set()
                    await watched

    def _observe(self, kind: OwnName, body: Mapping[str, Any]) -> None:
        if self._homes.is_others(kind, body):
            return
        self._projector.observe(kind, body)
        self._config_maps.observe(kind, body)
        self._guard.observe(kind, body)

    def _forget(self, uid: str) -> None:
        self._projector.forget(uid)
        self._config_maps.forget(uid)
        self._guard.forget(uid)

    def _is_able(self) -> bool:
        """Whether the API server is in reach, which is asked for grants, and for what is due."""
        return self._leadership.reached

    def _ring(self) -> None:
        self._status_bell.ring()
        self._queue.ring()


class _NotTheirs(frozenset["asyncio.Task[Any]"]):
    """All tasks of the loop, for kopf, which would take every task that began after it for its own, and end it."""

    def __contains__(self, _task: object) -> bool:
        return True
