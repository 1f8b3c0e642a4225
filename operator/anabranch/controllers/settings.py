"""What the operator's process is told when it starts."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path  # noqa: TC003  (a dataclass field's type is for readers at run time too)
from typing import Final

from anabranch.kube.leader import DEFAULT_PACE
from anabranch.manifests import DEFAULT_NAMESPACE, LEASE
from anabranch.model.stores import DEFAULT_STORE

WORKERS: Final = 4
"""Jobs that a process works on at once, unless it is told otherwise."""


@dataclass(frozen=True, kw_only=True)
class WatchPace:
    """Seconds: how long a watch lasts, may be silent, and may be away.

    Attributes:
        server: After which the API server ends a watch, so that another one begins.
        idle: Without an event or a bookmark, of which one comes each minute, after which a watch counts as broken.
        silence: Without an answer to a list or a watch after which the process counts as dead.
    """

    server: int = 120
    idle: float = 70.0
    silence: float = 300.0


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings of one operator process.

    Attributes:
        dsn: Of Postgres, as the role of the operator.
        listen_dsn: A direct way to Postgres for LISTEN, where `dsn` goes through a transaction pooler.
        kubeconfig: Path; None: ``KUBECONFIG``, the pod's ServiceAccount, or ``~/.kube/config``.
        namespaces: Those served; empty: all. A database belongs to one installation, whichever namespaces it serves.
        system_namespace: Where the Lease of the leader stands.
        lease: Its name; None: that of the store.
        config: YAML file of what the operator names (see `Configuration`); None: nothing.
        health_host: Address for /healthz and /readyz.
        health_port: Port; 0: no health endpoint.
        lease_seconds: How long the Lease holds that its leader does not renew.
        workers: Jobs that this process works on at once.
        accept_missing: Whether all that the cluster lacks was deleted, however much it is.
        agent_events: How long events for agents are kept, whether they were fetched or not.
        embedder: Makes vectors for searches by meaning (see `anabranch.search.embedding.load`); None: nobody does.
        watch_pace: Of the watches.
        store: Which of the installation's databases this is the operator of.
        stores: Those besides the default one.
        agents_dsn: Of the default one, where agents are; None: this is it.
    """

    dsn: str
    listen_dsn: str | None = None
    kubeconfig: str | None = None
    namespaces: tuple[str, ...] = ()
    system_namespace: str = DEFAULT_NAMESPACE
    lease: str | None = None
    lease_seconds: int = DEFAULT_PACE.duration
    config: Path | None = None
    health_host: str = "127.0.0.1"
    health_port: int = 0
    workers: int = WORKERS
    accept_missing: bool = False
    agent_events: timedelta = timedelta(days=7)
    embedder: str | None = None
    watch_pace: WatchPace = WatchPace()
    store: str = DEFAULT_STORE
    stores: tuple[str, ...] = ()
    agents_dsn: str | None = None

    @property
    def lease_name(self) -> str:
        """Of the Lease: each store has a leader of its own."""
        return self.lease or (LEASE if self.store == DEFAULT_STORE else f"{LEASE}-{self.store}")
