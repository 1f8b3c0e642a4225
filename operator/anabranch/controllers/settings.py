"""What the operator's process is told when it starts."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path  # noqa: TC003  (a dataclass field's type is for readers at run time too)
from typing import Final

from anabranch.manifests import DEFAULT_NAMESPACE, LEASE

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
        lease: Its name.
        config: YAML file of the named sources; None: there are none.
        health_host: Address for /healthz and /readyz.
        health_port: Port; 0: no health endpoint.
        workers: Jobs that this process works on at once.
        accept_missing: Whether all that the cluster lacks was deleted, however much it is.
        agent_events: How long events for agents are kept, whether they were fetched or not.
        watch_pace: Of the watches.
    """

    dsn: str
    listen_dsn: str | None = None
    kubeconfig: str | None = None
    namespaces: tuple[str, ...] = ()
    system_namespace: str = DEFAULT_NAMESPACE
    lease: str = LEASE
    config: Path | None = None
    health_host: str = "127.0.0.1"
    health_port: int = 0
    workers: int = WORKERS
    accept_missing: bool = False
    agent_events: timedelta = timedelta(days=7)
    watch_pace: WatchPace = WatchPace()
