"""Which cluster and which Postgres to use: what the caller names, else what the machine has, else one made here."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

from anabranch.devcluster import binaries, controlplane, folders, kind, postgres
from anabranch.devcluster.cluster import Cluster, Kind
from anabranch.devcluster.errors import DevclusterError
from anabranch.devcluster.postgres import PostgresServer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from anabranch.devcluster.folders import Say

KUBECONFIG = "ANABRANCH_KUBECONFIG"
"""Names the kubeconfig of a cluster to use: an admin's, since custom resources and roles are installed there."""

CLUSTER = "ANABRANCH_CLUSTER"
"""Decides between ``kind`` and ``local`` where no cluster is named; unset, it is kind where docker answers."""

DSN = "ANABRANCH_DSN"
"""Names a Postgres to use: as a user who may create roles and databases."""


def cluster_kind(environment: Mapping[str, str] = os.environ) -> Kind:
    """Which cluster :func:`cluster` would take.

    Raises:
        DevclusterError: ``ANABRANCH_CLUSTER`` asks for something that there is not.
    """
    if environment.get(KUBECONFIG):
        return "given"
    wish = environment.get(CLUSTER)
    if wish not in (None, "", "kind", "local"):
        raise DevclusterError(f"{CLUSTER} is {wish!r}.", hint="Set it to kind or local, or not at all.")
    if wish == "local":
        return "local"
    if kind.available():
        return "kind"
    if wish == "kind":
        raise DevclusterError(
            f"{CLUSTER} asks for kind, which this machine cannot make.",
            hint="Install kind and start docker, or unset it to use the local control plane.",
        )
    return "local"


def cluster(folder: Path, *, durable: bool = False, audit: bool = False, say: Say = folders.silent) -> Cluster:
    """Starts, or finds, the cluster to use.

    Args:
        folder: Where a cluster that is made here keeps everything; it also decides which one that is.
        durable: Whether the data of a local control plane must survive the end of the machine.
        audit: Whether a local control plane logs each request.
        say: Takes progress.

    Raises:
        DevclusterError: The cluster that is named does not answer, or the one that is made here did not start.
    """
    which = cluster_kind()
    if which == "given":
        return _given(Path(os.environ[KUBECONFIG]).expanduser(), say)
    if which == "kind":
        return kind.up(folder, _kind_name(folder), say=say)
    return controlplane.up(folder, durable=durable, audit=audit, say=say)


def remove_cluster(folder: Path, cluster: Cluster) -> None:
    """Deletes a cluster that :func:`cluster` made; one that belongs to someone else stays."""
    if cluster.kind == "kind":
        kind.down(_kind_name(folder))
    elif cluster.kind == "local":
        controlplane.down(folder)


def postgres_server(
    folder: Path, *, durable: bool, settings: Mapping[str, str] | None = None, say: Say = folders.silent
) -> PostgresServer:
    """Starts, or finds, the Postgres to use.

    Args:
        folder: Where a server that is started here keeps everything.
        durable: Whether the data of one that is started here must survive the end of the machine.
        settings: Further ones of a server that is started here, by name.
        say: Takes progress.
    """
    if dsn := os.environ.get(DSN):
        say(f"using the Postgres of {DSN}")
        return PostgresServer(dsn=dsn)
    return postgres.start(folder, durable=durable, settings=settings, say=say)


def _given(kubeconfig: Path, say: Say) -> Cluster:
    if not kubeconfig.is_file():
        raise DevclusterError(f"{KUBECONFIG} names {kubeconfig}, which is no file.")
    found = Cluster(kind="given", kubeconfig=kubeconfig, kubectl_path=binaries.kubectl(say))
    found.kubectl("get", "--raw=/readyz", timeout=20)
    say(f"using the cluster of {KUBECONFIG}")
    return found


def _kind_name(folder: Path) -> str:
    """The name of a folder's kind cluster, unlike any other folder's."""
    return f"anabranch-{hashlib.sha256(os.fsencode(folder.resolve())).hexdigest()[:8]}"
