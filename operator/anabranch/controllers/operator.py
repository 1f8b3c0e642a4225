"""The operator's process: puts its parts together, runs them, and takes them apart in order.

Every process works the wake queue; the leader watches the API server and writes statuses besides. A process that loses
the Lease takes all of it apart and begins again without, so there is one way down, and it is the one that is tested by
every stop: no new work, let go of jobs, show what is done, then stop watching, and give the Lease back last.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
import threading
import uuid
from typing import TYPE_CHECKING, Any, Final

import kopf
import structlog
import yaml

from anabranch.baselines import retention
from anabranch.branches import following, presence
from anabranch.consolidation import deriving, retracting, schedule, work
from anabranch.consolidation.services import Services
from anabranch.consolidation.sources import SourcesConfig
from anabranch.controllers import watching
from anabranch.controllers.afterwards import Afterwards
from anabranch.controllers.announcer import Announcer
from anabranch.controllers.backlog import Backlog
from anabranch.controllers.bell import Bell
from anabranch.controllers.births import Births
from anabranch.controllers.configmaps import ConfigMapFollower
from anabranch.controllers.deletions import Deletions
from anabranch.controllers.expiry import Expiry
from anabranch.controllers.guarding import GuardFollower
from anabranch.controllers.health import Health
from anabranch.controllers.paused import Paused
from anabranch.controllers.projector import Projector
from anabranch.controllers.reconciler import Reconciler
from anabranch.controllers.services import controllers
from anabranch.controllers.settings import WORKERS
from anabranch.controllers.sweep import Scope, Sweep
from anabranch.controllers.visits import Visits
from anabranch.controllers.wake import Chore, Seldom, WakeQueue, listen
from anabranch.controllers.workers import Workers
from anabranch.identity import Grants
from anabranch.kube.client import KubeClient
from anabranch.kube.guard import ReviewGuard
from anabranch.kube.leader import Leadership
from anabranch.memory import expiry, outbox
from anabranch.model.errors import AnabranchError, InvalidInputError
from anabranch.quality import counting
from anabranch.search import indexing
from anabranch.store import migrate
from anabranch.store.database import Database
from anabranch.telemetry import common
from anabranch.telemetry.listener import listening as inner_port
from anabranch.telemetry.of_operator import OPERATOR_SHOWN

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine, Iterable, Iterator, Mapping

    from anabranch.controllers.settings import Settings
    from anabranch.kube.kinds import OwnName

_log = structlog.get_logger(__name__)

_GRACE_SECONDS: Final = 5.0
CONNECTIONS: Final = 20
"""To Postgres at most with the usual number of workers, besides the one that listens. Each further worker has another
one: however many of them wait in Postgres, the looks that find new work do not wait for them."""

_AT_ONCE: Final = 100
_NOTICES_SECONDS: Final = 0.25
"""Between two looks for notices, which are told the cheaper, the more there are."""

_EXPIRY_SECONDS: Final = 60.0


async def run(settings: Settings, *, stop: asyncio.Event | None = None) -> None:
    """Run the operator until SIGTERM, SIGINT or the event.

    Args:
        settings: Of this process.
        stop: Set to end it from within the process.

    Raises:
        AnabranchError: If it cannot begin: no database, another schema, no API server, a bad configuration.
    """
    stop = stop or asyncio.Event()
    sources = _sources(settings)
    common.describe(schema=migrate.head())
    async with _opened(settings) as (db, kube):
        while not stop.is_set():
            process = _Process(settings, db=db, kube=kube, sources=sources)
            await process.serve(stop)


class _Process:
    """One life of the operator: from standing for leadership to its loss, or the end."""

    def __init__(self, settings: Settings, *, db: Database, kube: KubeClient, sources: SourcesConfig) -> None:
        self._settings = settings
        self._db = db
        identity = f"{socket.gethostname()}-{uuid.uuid4()}"
        self._leadership = Leadership(kube, namespace=settings.system_namespace, name=settings.lease, identity=identity)
        self._watches = watching.Watches(namespaces=settings.namespaces, silence=settings.watch_pace.silence)
        self._health = Health(db, leadership=self._leadership, watches=self._watches)
        self._announcer = Announcer(kube, instance=identity)
        # A finding that is refused, or a branch that is denied, is so for good.
        grants = Grants(kube, sure=True)
        self._status_bell = Bell()
        guard = ReviewGuard(kube)
        self._reconciler = Reconciler(
            controllers(db, kube=kube, grants=grants, guard=guard, tell=self._announcer.tell),
            db=db,
            kube=kube,
            changed=self._ring,
        )
        self._projector = Projector(
            db,
            kube,
            leadership=self._leadership,
            announcer=self._announcer,
            bell=self._status_bell,
            reconciler=self._reconciler,
        )
        services = Services.of(db, grants, sources)
        self._workers = Workers(
            db,
            advance=lambda job: work.advance(services, job),
            holder=identity,
            slots=settings.workers,
            changed=self._ring,
        )
        self._queue = WakeQueue(
            [
                self._workers,
                Visits(db, self._reconciler),
                Births(db, kube, announcer=self._announcer, changed=self._ring),
                Chore("batches", self._make_jobs),
                Paused(db),
                Chore("retention", self._retain),
                Chore("leases of agents", lambda: presence.settle(db)),
                Chore("places in the feed", lambda: following.show(db)),
                Seldom("notices for agents", lambda: outbox.drain(db), rest_seconds=_NOTICES_SECONDS),
                Seldom(
                    "old events of agents",
                    lambda: expiry.turn(db, keep=settings.agent_events),
                    rest_seconds=_EXPIRY_SECONDS,
                ),
                Chore("retractions", lambda: retracting.turn(db)),
                Afterwards(db, "index", indexing.turn),
                Afterwards(db, "derivations", deriving.turn),
                Afterwards(db, "quality", counting.turn),
                Deletions(db, self._reconciler),
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
                lease=settings.lease,
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
        with _signals(stop):
            async with (
                inner_port(
                    OPERATOR_SHOWN, self._health, host=self._settings.health_host, port=self._settings.health_port
                ),
                _background(self._announcer.run(), name="events") as events,
            ):
                async with self._leadership.campaign():
                    await self._campaign(stop, events)
                # Another process leads by now: what is left to be told is no business of a leader's.
                await self._announcer.drain(_GRACE_SECONDS)

    async def _campaign(self, stop: asyncio.Event, events: asyncio.Task[None]) -> None:
        """Work on what is due, and lead as soon as no other process does."""
        queue = listen(self._db, dsn=self._settings.listen_dsn, ring=self._ring)
        async with (
            _background(self._queue.run(), name="wake queue") as looking,
            _background(queue, name="notifications") as listening,
        ):
            await _first(stop.wait(), self._leadership.acquired(), tasks=(events, looking, listening))
            if not stop.is_set():
                await self._lead(stop, (events, looking, listening))
            await self._workers.stop(_GRACE_SECONDS)
        await self._reconciler.close()

    async def _lead(self, stop: asyncio.Event, tasks: Iterable[asyncio.Task[Any]]) -> None:
        """Watch and write, until told to stop or until leadership is lost."""
        stop_watching = asyncio.Event()
        self._watches.expect()
        async with (
            _background(self._projector.run(), name="projector") as projecting,
            _background(self._config_maps.run(), name="ConfigMaps") as following,
            _background(self._sweep.run(), name="sweep") as sweeping,
            _background(self._expiry.run(), name="expiry") as expiring,
            _background(self._guard.run(), name="review guard") as guarding,
            _background(Backlog(self._db).run(), name="readings") as reading,
        ):
            kopf_tasks = await kopf.spawn_tasks(
                registry=self._registry,
                settings=watching.operator_settings(self._settings.watch_pace),
                clusterwide=not self._settings.namespaces,
                namespaces=self._settings.namespaces,
                stop_flag=stop_watching,
            )
            with _signals(stop):  # again: kopf has put its own in their place
                watched = asyncio.create_task(kopf.run_tasks(kopf_tasks, ignored=_NotTheirs()), name="watches")
                try:
                    own = (projecting, following, guarding, sweeping, expiring, reading, watched)
                    await _first(stop.wait(), self._leadership.lost(), tasks=(*tasks, *own))
                    await self._workers.stop(_GRACE_SECONDS)
                    with contextlib.suppress(AnabranchError):
                        await self._projector.look()
                finally:
                    stop_watching.set()
                    await watched

    async def _make_jobs(self) -> bool:
        made = await schedule.make_jobs(self._db, limit=_AT_ONCE)
        if made:
            self._ring()
        return made == _AT_ONCE

    async def _retain(self) -> bool:
        return await retention.turn(self._db)

    def _observe(self, kind: OwnName, body: Mapping[str, Any]) -> None:
        self._projector.observe(kind, body)
        self._config_maps.observe(kind, body)
        self._guard.observe(kind, body)

    def _forget(self, uid: str) -> None:
        self._projector.forget(uid)
        self._config_maps.forget(uid)
        self._guard.forget(uid)

    def _ring(self) -> None:
        self._status_bell.ring()
        self._queue.ring()


class _NotTheirs(frozenset["asyncio.Task[Any]"]):
    """All tasks of the loop, for kopf, which would take every task that began after it for its own, and end it."""

    def __contains__(self, _task: object) -> bool:
        return True


@contextlib.asynccontextmanager
async def _opened(settings: Settings) -> AsyncIterator[tuple[Database, KubeClient]]:
    """The database, with the schema of this release, and the API server."""
    connections = CONNECTIONS + max(0, settings.workers - WORKERS)
    db = await Database.open(settings.dsn, application_name="anabranch-operator", max_size=connections)
    try:
        async with db.connection() as conn:
            await migrate.check(conn)
        kube = await KubeClient.open(settings.kubeconfig)
        try:
            yield db, kube
        finally:
            await kube.close()
    finally:
        await db.close()


def _sources(settings: Settings) -> SourcesConfig:
    if settings.config is None:
        return SourcesConfig()
    try:
        document = yaml.safe_load(settings.config.read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError) as error:
        raise InvalidInputError(
            f"The configuration {settings.config} cannot be read: {error}.", hint="Mend the file, or leave it out."
        ) from error
    return SourcesConfig.parse(document)


@contextlib.contextmanager
def _signals(stop: asyncio.Event) -> Iterator[None]:
    """Let SIGTERM and SIGINT set an event, where this loop runs in the main thread."""
    loop = asyncio.get_running_loop()
    # In another thread, as tests have it, whoever runs the loop there has the event.
    numbers = (signal.SIGTERM, signal.SIGINT) if threading.current_thread() is threading.main_thread() else ()
    for number in numbers:
        loop.add_signal_handler(number, stop.set)
    try:
        yield
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)


@contextlib.asynccontextmanager
async def _background(coroutine: Coroutine[Any, Any, None], *, name: str) -> AsyncIterator[asyncio.Task[None]]:
    """Run something while the block runs."""
    task = asyncio.create_task(coroutine, name=name)
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.wait({task})


async def _first(*waits: Coroutine[Any, Any, Any], tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Wait until one of the waits is over; a task that ends before that raises what ended it.

    Raises:
        Exception: Of the task that ended.
        RuntimeError: If a task ended without one, though none is meant to.
    """
    own = [asyncio.ensure_future(wait) for wait in waits]
    try:
        done, _ = await asyncio.wait({*own, *tasks}, return_when=asyncio.FIRST_COMPLETED)
        for task in done.difference(own):
            task.result()
            raise RuntimeError(f"{task.get_name()} ended by itself")
    finally:
        for wait in own:
            wait.cancel()
        await asyncio.gather(*own, return_exceptions=True)
