"""Two operators, two replicas of the API, Postgres and the API server, each reached over a wire that can fail.

The processes are the real ones, started as an installation starts them. Who stands by for them here is what a kubelet
is there: what has ended is started again, and so is what says for too long that it is dead.
"""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import itertools
import json
import os
import shutil
import subprocess
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import asyncpg
import httpx
from tests.chaos import clocks
from tests.chaos.service import Service
from tests.chaos.wires import Wire
from tests.cluster.test_operator_killed import Crossing

from anabranch import manifests
from anabranch.devcluster import assembly, choose, controlplane
from anabranch.devcluster.accounts import Account
from anabranch.devcluster.errors import DevclusterError
from anabranch.devcluster.ports import as_client
from anabranch.devcluster.postgres import with_database
from anabranch.devcluster.processes import Processes
from anabranch.devcluster.stack import TEMPORARY

if TYPE_CHECKING:
    import random
    from collections.abc import AsyncIterator

    import psutil

    from anabranch.devcluster.stack import Stack

OPERATORS: Final = ("operator-1", "operator-2")
APIS: Final = ("api-1", "api-2")
PROCESSES: Final = OPERATORS + APIS
TARGETS: Final = ("postgres", "kubernetes")
WORKERS: Final = 6

SETTINGS: Final = {
    # What is committed must survive the end of any process. It need not survive the machine's, so nothing is synced.
    "synchronous_commit": "on",
    "max_wal_size": "96MB",
    "min_wal_size": "32MB",
    "restart_after_crash": "on",
}
DISK_BYTES: Final = 640 << 20
"""Of the file system that is Postgres' own, where this process may mount one: filling it up hurts nobody else."""

DEAD_SECONDS: Final = 30.0
"""For how long a process may say that it is dead before it is started anew, as probes every ten seconds would."""


class Stage:
    """A running installation under control; made by `set_up`.

    Attributes:
        stack: What runs beside the processes.
        service: The agents' way to the API.
        wires: From each process to each of `TARGETS`.
        down: Processes that nobody is to start at the moment.
        paused: Processes that are stopped at the moment.
        code: The source root that each process runs; none, or None: this one.
        starts: How often each process was started.
        primary: The Postgres server of the moment.
        promotions: How often a standby was made to take the primary's place.
        clocks: Whether processes have clocks that can be set.
    """

    def __init__(self, stack: Stack, chance: random.Random) -> None:
        self.stack = stack
        self.service = Service(lambda: [self._port(name) for name in APIS if name not in self.paused], chance)
        self.wires = {
            (name, target): Wire(f"{name} to {target}", self._postgres if target == "postgres" else self._kubernetes)
            for name in PROCESSES
            for target in TARGETS
        }
        self.down: set[str] = set()
        self.paused: set[str] = set()
        self.code: dict[str, Path | None] = {}
        self.primary = stack.server
        self.promotions = 0
        self.clocks = False
        self.starts = dict.fromkeys(PROCESSES, 0)
        self._starting = {name: threading.Lock() for name in PROCESSES}
        self._dead_since: dict[str, float] = {}
        self._keeper: asyncio.Task[None] | None = None

    @contextlib.asynccontextmanager
    async def kube(self) -> AsyncIterator[httpx.AsyncClient]:
        """The API server as its admin, past every wire; a kubectl for each call would take the processor of others."""
        folder = self.stack.folder / "cluster"
        url = f"https://127.0.0.1:{controlplane.api_port(folder)}"
        trust = as_client(folder / "pki", "admin")
        async with httpx.AsyncClient(base_url=url, verify=trust, timeout=20, trust_env=False) as client:
            yield client

    async def open(self) -> None:
        """Put the processes behind their wires, and begin to stand by for them."""
        self.clocks = await asyncio.to_thread(clocks.make, self.stack.folder)
        await self.service.open()
        for wire in self.wires.values():
            await wire.open()
        for name in ("operator", "api"):
            await asyncio.to_thread(self.stack.stop, name)
        await self.start_all()
        async with self.admin() as conn:
            crossing = Crossing(conn)
            await crossing.remove()
            await crossing.install()
        self._keeper = asyncio.create_task(self._keep())

    async def close(self) -> None:
        if self._keeper:
            self._keeper.cancel()
            await asyncio.gather(self._keeper, return_exceptions=True)
        for name in PROCESSES:
            self.resume(name)
        await self.service.close()
        for wire in self.wires.values():
            await wire.close()
        if self.primary.folder != self.stack.server.folder:  # the stack knows of the first one only
            await asyncio.to_thread(self.primary.stop)

    # Processes.

    async def start_all(self) -> None:
        """Start what does not run."""
        await asyncio.gather(*(asyncio.to_thread(self._start, name) for name in PROCESSES))

    async def run_code(self, code: Path | None, *names: str) -> None:
        """Let processes run another copy of the package, and the others this one."""
        wanted = {name: code if name in names else None for name in PROCESSES}
        other = [name for name in PROCESSES if wanted[name] != self.code.get(name)]
        self.down.update(other)
        self.code = wanted
        await asyncio.gather(*(asyncio.to_thread(self.stack.kill, name) for name in other))
        await self.start_all()
        self.down.clear()

    def process(self, name: str) -> psutil.Process | None:
        return Processes(self.stack.folder).running(name)

    def pause(self, name: str) -> None:
        """Stop a process where it stands: it does not know that time goes by."""
        if process := self.process(name):
            process.suspend()
            self.paused.add(name)

    def resume(self, name: str) -> None:
        if (process := self.process(name)) and name in self.paused:
            process.resume()
        self.paused.discard(name)

    def _start(self, name: str) -> None:
        """Start a process unless it runs; who stands by may be at it already."""
        with self._starting[name]:
            if not self.process(name):
                self.starts[name] += 1
                self._serve(name)

    def _serve(self, name: str) -> None:
        """Start a process behind its wires, and wait until it is ready."""
        account = manifests.OPERATOR_ACCOUNT if name in OPERATORS else manifests.API_ACCOUNT
        more = {"KUBECONFIG": str(self._kubeconfig(name, account)), **clocks.environment(self.stack.folder, name)}
        if code := self.code.get(name):
            more["PYTHONPATH"] = str(code)
        wire = self.wires[name, "postgres"].port
        if name in OPERATORS:
            dsn = _through(self.stack.operator_dsn, wire)
            self.stack.start_operator(name, workers=WORKERS, ANABRANCH_OPERATOR_DSN=dsn, **more)
        else:
            self.stack.start_api(name, ANABRANCH_API_DSN=_through(self.stack.api_dsn, wire), **more)

    def _kubeconfig(self, name: str, account: str) -> Path:
        folder = self.stack.folder / "accounts"
        own = Account(namespace=self.stack.namespace, name=account, folder=folder)
        config = json.loads(own.kubeconfig.read_text())
        config["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{self.wires[name, 'kubernetes'].port}"
        path = folder / f"{name}.kubeconfig"
        path.touch(mode=0o600)
        path.write_text(json.dumps(config))
        return path

    async def _keep(self) -> None:
        """Start what has ended, and end what says for too long that it is dead."""
        starting: dict[str, asyncio.Task[None]] = {}
        for look in itertools.count():
            for name in PROCESSES:
                if name in self.down or (name in starting and not starting[name].done()):
                    continue
                if not self.process(name):
                    self.paused.discard(name)
                    self._dead_since.pop(name, None)
                    starting[name] = asyncio.create_task(self._start_again(name))
                elif look % 4 == 0 and name not in self.paused and await asyncio.to_thread(self._is_dead, name):
                    await asyncio.to_thread(self.stack.kill, name)
            await asyncio.sleep(0.5)

    async def _start_again(self, name: str) -> None:
        with contextlib.suppress(DevclusterError, OSError):  # it is tried again
            await asyncio.to_thread(self._start, name)

    def _is_dead(self, name: str) -> bool:
        with contextlib.suppress(OSError, http.client.HTTPException):
            inner = http.client.HTTPConnection(urlsplit(self.stack.inner_url(name)).netloc, timeout=5)
            with contextlib.closing(inner):
                inner.request("GET", "/healthz")
                if inner.getresponse().status == http.HTTPStatus.OK:
                    self._dead_since.pop(name, None)
                    return False
        return time.monotonic() - self._dead_since.setdefault(name, time.monotonic()) > DEAD_SECONDS

    # Postgres and the control plane.

    @property
    def database(self) -> Path:
        """The folder of the first server, in which those are that came after it."""
        return self.stack.folder / "postgres"

    @contextlib.asynccontextmanager
    async def admin(self) -> AsyncIterator[asyncpg.Connection]:
        """A connection of somebody who may do anything, past every wire."""
        dsn = with_database(self.primary.dsn, self.stack.secrets.database)
        conn = await asyncpg.connect(dsn, timeout=5)
        try:
            yield conn
        finally:
            with contextlib.suppress(OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
                await conn.close(timeout=2)

    def start_postgres(self) -> None:
        if self.primary.folder:
            choose.postgres_server(self.primary.folder, durable=False, settings=SETTINGS)

    def start_control_plane(self) -> None:
        controlplane.up(self.stack.folder / "cluster")

    def control_plane(self) -> Processes:
        return Processes(self.stack.folder / "cluster")

    # For wires and the service.

    def _port(self, name: str) -> int:
        return int(json.loads((self.stack.folder / f"{name}-ports.json").read_text())["http"])

    def _postgres(self) -> int:
        return urlsplit(self.primary.dsn).port or 5432

    def _kubernetes(self) -> int:
        return controlplane.api_port(self.stack.folder / "cluster")

    async def heal(self) -> None:
        """Take away whatever stands in anybody's way, and wait until all are ready again."""
        for wire in self.wires.values():
            wire.heal()
        self.down.clear()
        for name in PROCESSES:
            self.resume(name)
            clocks.put(self.stack.folder, name, 0)
        await asyncio.to_thread(self.start_postgres)
        await asyncio.to_thread(self.start_control_plane)
        await self.start_all()


def set_up(folder: Path) -> Stack:
    """Start a stack whose Postgres keeps what it has committed, on a file system of its own where that can be had."""
    database = folder / "postgres"
    database.mkdir(parents=True)
    mount(database)
    choose.postgres_server(database, durable=False, settings=SETTINGS)
    return assembly.up(folder, options=assembly.Options(owner=TEMPORARY))


MOUNT: Final = "anabranch-chaos"


def mount(folder: Path) -> bool:
    """Give a folder a small file system of its own, if this process may."""
    if os.geteuid() != 0 or shutil.which("mount") is None:
        return False
    options = f"size={DISK_BYTES},mode=0711"
    return subprocess.run(["mount", "-t", "tmpfs", "-o", options, MOUNT, folder], check=False).returncode == 0


def is_mounted(folder: Path) -> bool:
    return os.geteuid() == 0 and os.path.ismount(folder)


def unmount_left() -> None:
    """Take away the file systems of runs that were killed: their folders were emptied then."""
    for line in Path("/proc/self/mounts").read_text().splitlines() if Path("/proc/self/mounts").exists() else []:
        source, folder, *_ = line.split()
        if source == MOUNT and not any(Path(folder).iterdir()):
            unmount(Path(folder))


def unmount(folder: Path) -> None:
    if is_mounted(folder):
        subprocess.run(["umount", folder], check=False)


def _through(dsn: str, port: int) -> str:
    """The same address by way of another port."""
    parts = urlsplit(dsn)
    return parts._replace(netloc=f"{parts.netloc.rpartition(':')[0]}:{port}").geturl()
