"""The running whole: a cluster, Postgres, the operator and the API, for `make demo`, `make dev` and the cluster tests.

Operator and API are processes of their own, each with its own ServiceAccount and its own database role, as in a real
installation: what one of them may not do there fails here.
"""

from __future__ import annotations

import contextlib
import json
import secrets
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from http.client import HTTPException
from pathlib import Path
from typing import TYPE_CHECKING

from anabranch import manifests
from anabranch.devcluster import accounts, children, choose, databases, ephemeral, folders, installation
from anabranch.devcluster.cluster import Cluster
from anabranch.devcluster.ports import answers, start_on
from anabranch.devcluster.postgres import PostgresServer, with_database
from anabranch.devcluster.processes import Processes, Program, stop_all
from anabranch.store.migrate import API_ROLE, MIGRATE_ROLE, OPERATOR_ROLE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anabranch.devcluster.folders import Say

ROLES = (MIGRATE_ROLE, OPERATOR_ROLE, API_ROLE)
ENTRY_POINT = "anabranch.cli.main"
TEMPORARY = "temporary"
"""The owner of every stack that ends with its run: what a killed one left behind, the next takes over and deletes."""

STATE = "stack.json"
GRACE = 15.0
"""Seconds that operator and API have to finish what they do."""

MOMENT = 5.0
"""Seconds that one which runs has to become ready."""

DRAIN = "0.3"
"""Seconds that the API stays after it was told to end: nobody here balances between several."""


@dataclass(frozen=True, kw_only=True)
class Secrets:
    """What is drawn once for a stack."""

    database: str = field(default_factory=lambda: f"anabranch_{secrets.token_hex(4)}")
    migrate_password: str = field(default_factory=lambda: secrets.token_urlsafe(24), repr=False)
    operator_password: str = field(default_factory=lambda: secrets.token_urlsafe(24), repr=False)
    api_password: str = field(default_factory=lambda: secrets.token_urlsafe(24), repr=False)
    cursor_key: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)


@dataclass(frozen=True, kw_only=True)
class Stack:
    """A running stack; get one with :func:`anabranch.devcluster.assembly.up`.

    Attributes:
        folder: Where it keeps everything.
        cluster: Its cluster, as the admin.
        server: Its Postgres server.
        namespace: The system namespace.
        owner: Whose it is.
        secrets: What was drawn for it.
    """

    folder: Path
    cluster: Cluster
    server: PostgresServer
    namespace: str
    owner: str
    secrets: Secrets = field(repr=False)

    @property
    def audience(self) -> str:
        """What tokens for its API carry."""
        return manifests.default_audience(self.namespace)

    @property
    def api_url(self) -> str:
        """Where its API listens."""
        return self.url("api")

    @property
    def admin_dsn(self) -> str:
        """Its database, as the server's superuser."""
        return with_database(self.server.dsn, self.secrets.database)

    @property
    def operator_dsn(self) -> str:
        """Its database, as the operator."""
        return self._dsn(OPERATOR_ROLE, self.secrets.operator_password)

    @property
    def api_dsn(self) -> str:
        """Its database, as the API."""
        return self._dsn(API_ROLE, self.secrets.api_password)

    def url(self, name: str) -> str:
        """Where an API of that name listens."""
        return f"http://127.0.0.1:{json.loads(self._ports(name).read_text())['http']}"

    def inner_url(self, name: str) -> str:
        """Where a process of that name tells of itself: metrics and health."""
        return f"http://127.0.0.1:{json.loads(self._ports(name).read_text())['inner']}"

    def log(self, name: str) -> Path:
        """The log of a process."""
        return self._processes.log(name)

    def token(self, namespace: str, name: str) -> str:
        """A token of a ServiceAccount for this stack's API."""
        return accounts.mint(self.cluster, namespace=namespace, name=name, audience=self.audience).value

    def make_namespace(self, name: str) -> None:
        """Makes a namespace that goes with the stack."""
        installation.make_namespace(self.cluster, name, owner=self.owner)

    def start(self) -> None:
        """Starts operator and API unless they run, side by side, and waits until both are ready."""
        with ThreadPoolExecutor() as executor:
            for started in [executor.submit(self.start_operator), executor.submit(self.start_api)]:
                started.result()

    def start_operator(
        self,
        name: str = "operator",
        *,
        workers: int = 4,
        namespaces: Sequence[str] = (),
        options: Sequence[str] = (),
        **more: str,
    ) -> None:
        """Starts an operator unless it runs, and waits until it is ready; another name starts another one.

        Args:
            name: Of the process.
            workers: Jobs that it works on at once.
            namespaces: Those that it serves; none: all.
            options: More of its command line.
            more: Of its environment.
        """
        environment = {
            "ANABRANCH_OPERATOR_DSN": self.operator_dsn,
            "ANABRANCH_CONFIG": str(self.folder / "config.yaml"),
            "KUBECONFIG": str(self._account(manifests.OPERATOR_ACCOUNT).kubeconfig),
            **more,
        }
        arguments = ["operator", "--health-host=127.0.0.1", "--health-port={inner}", f"--workers={workers}"]
        arguments += [*(f"--namespace={namespace}" for namespace in namespaces), *options]
        self._serve(name, arguments, environment)

    def start_api(self, name: str = "api", **more: str) -> None:
        """Starts an API unless it runs, and waits until it is ready; another name starts another replica.

        Args:
            name: Of the process.
            more: Of its environment.
        """
        environment = {
            "ANABRANCH_API_DSN": self.api_dsn,
            "ANABRANCH_AUDIENCE": self.audience,
            "ANABRANCH_CURSOR_KEYS": self.secrets.cursor_key,
            "ANABRANCH_DRAIN_SECONDS": DRAIN,
            "KUBECONFIG": str(self._account(manifests.API_ACCOUNT).kubeconfig),
            **more,
        }
        self._serve(name, ["api", "--host=127.0.0.1", "--port={http}", "--health-port={inner}"], environment)

    def stop(self, name: str) -> None:
        """Ends an operator or an API, as an upgrade does."""
        self._processes.stop(name)

    def kill(self, name: str) -> None:
        """Ends an operator or an API without a warning, as a crash does."""
        if process := self._processes.running(name):
            process.kill()
        self._processes.stop(name)

    def down(self, *, say: Say = folders.silent) -> None:
        """Ends everything and deletes what was made: on a cluster or a server of someone else, only that."""
        if self.cluster.kind == "given":
            say("deleting what was made on the cluster")  # while the operator runs: its finalizers would hold it
            installation.delete_namespaces(self.cluster, owner=self.owner, but=self.namespace)
        stop_all(self.folder)
        if self.cluster.kind == "given":
            others = manifests.install(namespace=self.namespace)
            installation.uninstall(self.cluster, owner=self.owner, definitions=manifests.crds(), others=others)
        if self.server.folder is None:
            databases.blocking(databases.leave(self.server.dsn, ROLES, owner=self.owner))
        choose.remove_cluster(self.folder / "cluster", self.cluster)
        ephemeral.clear(self.folder)

    def save(self) -> None:
        """Writes down what :func:`load` reads."""
        accounts.replace(self.folder / STATE, json.dumps(asdict(self), default=str, indent=1))

    def _serve(self, name: str, arguments: list[str], environment: dict[str, str]) -> None:
        """Starts a process that answers on a port of its own, and waits for its readiness.

        One that runs and does not become ready is started anew: its code may be older than the schema by now.
        """

        def start(ports: dict[str, int]) -> None:
            url = f"http://127.0.0.1:{ports['inner']}/readyz"
            if self._processes.running(name) and not _becomes_ready(url):
                self.stop(name)
            command = children.command(ENTRY_POINT, *(argument.format(**ports) for argument in arguments))
            env = children.environment(ANABRANCH_SYSTEM_NAMESPACE=self.namespace, **environment)
            self._processes.start(name, Program(command, env=env, grace=GRACE))
            self._processes.wait(f"the {name}", lambda: answers(url), name)

        start_on(self._ports(name), ("http", "inner"), start, undo=lambda: self.stop(name))

    def _ports(self, name: str) -> Path:
        return self.folder / f"{name}-ports.json"

    def _account(self, name: str) -> accounts.Account:
        return accounts.Account(namespace=self.namespace, name=name, folder=self.folder / "accounts")

    def _dsn(self, role: str, password: str) -> str:
        return with_database(self.server.dsn, self.secrets.database, user=role, password=password)

    @property
    def _processes(self) -> Processes:
        return Processes(self.folder)


def load(folder: Path) -> Stack | None:
    """The stack of a folder, whether it runs or not; None where there is none."""
    try:
        saved = json.loads((folder / STATE).read_text())
    except FileNotFoundError:
        return None
    cluster, server = saved["cluster"], saved["server"]
    return Stack(
        folder=Path(saved["folder"]),
        cluster=Cluster.restore(cluster),
        server=PostgresServer(dsn=server["dsn"], folder=Path(server["folder"]) if server["folder"] else None),
        namespace=saved["namespace"],
        owner=saved["owner"],
        secrets=Secrets(**saved["secrets"]),
    )


def _becomes_ready(url: str) -> bool:
    """Whether a server says that it is ready, now or in a moment: an operator that begins to lead is not at first."""
    until = time.monotonic() + MOMENT
    while True:
        with contextlib.suppress(OSError, HTTPException):
            if answers(url):
                return True
        if time.monotonic() >= until:
            return False
        time.sleep(0.1)
