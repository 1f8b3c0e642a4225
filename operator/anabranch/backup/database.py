"""Backups of the database as a whole: by an object that CloudNativePG acts on.

One such backup holds every line, so lines that are due at about the same time share one: its name tells in which
stretch of time it was ordered, and whoever comes second finds it there. What of a line it holds follows from when it
was ordered: all that was published before. Clocks of the cluster and of the database may differ a little, so the last
minute before counts as not in it.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, Literal

from anabranch.backup.target import TargetError
from anabranch.kube.errors import AlreadyExistsError
from anabranch.kube.kinds import Kind

if TYPE_CHECKING:
    from anabranch.backup.config import DatabaseTarget
    from anabranch.kube.client import KubeClient

BACKUP: Final = Kind("postgresql.cnpg.io", "v1", "Backup", "backups")

SKEW: Final = timedelta(minutes=1)
"""By how much the cluster's clock may be ahead of the database's."""

_SHORTEST: Final = timedelta(minutes=1)
_LONGEST: Final = timedelta(minutes=10)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ordered:
    """A backup of the database that was ordered.

    Attributes:
        place: Namespace and name of its object.
        taken_at: When it was ordered, by the cluster's clock.
        state: Where it is.
        error: Why it failed.
    """

    place: str
    taken_at: datetime
    state: Literal["running", "completed", "failed"]
    error: str = ""


async def order(  # noqa: PLR0913  (what is ordered, and how often)
    kube: KubeClient, *, name: str, target: DatabaseTarget, max_age: timedelta, attempt: int, now: datetime
) -> Ordered:
    """Order a backup of the database, or find the one that was ordered in the same stretch of time.

    Args:
        kube: The API server.
        name: Of the target.
        target: Its entry.
        max_age: How old a backup may be; a stretch is an eighth of it, ten minutes at most.
        attempt: Tries that have failed: each orders another one.
        now: The time.

    Raises:
        TargetError: If the API server refuses: the kind is not there, or the account may not.
        UnavailableError: If it cannot be reached.
    """
    stretch = min(max(max_age / 8, _SHORTEST), _LONGEST)
    number = int(now.timestamp() // stretch.total_seconds())
    wanted = f"anabranch-{name}-{int(stretch.total_seconds())}-{number}{f'-{attempt}' if attempt else ''}"
    found = await kube.find(BACKUP, namespace=target.namespace, name=wanted)
    if found is None:
        try:
            found = await kube.create(BACKUP, _body(wanted, target), namespace=target.namespace)
        except AlreadyExistsError:
            found = await kube.get(BACKUP, namespace=target.namespace, name=wanted)
    return _read(found)


def _body(name: str, target: DatabaseTarget) -> dict[str, Any]:
    spec: dict[str, Any] = {"cluster": {"name": target.cluster}, "method": target.method}
    if target.plugin:
        spec["pluginConfiguration"] = {"name": target.plugin}
    return {
        "apiVersion": BACKUP.api_version,
        "kind": BACKUP.name,
        "metadata": {
            "name": name,
            "namespace": target.namespace,
            "labels": {"app.kubernetes.io/managed-by": "anabranch"},
        },
        "spec": spec,
    }


def _read(body: dict[str, Any]) -> Ordered:
    metadata, status = body["metadata"], body.get("status") or {}
    phase = status.get("phase", "")
    state: Literal["running", "completed", "failed"] = "running"
    if phase == "completed":
        state = "completed"
    elif phase in {"failed", "walArchivingFailing"}:
        state = "failed"
    return Ordered(
        place=f"{metadata['namespace']}/{metadata['name']}",
        taken_at=datetime.fromisoformat(metadata["creationTimestamp"]).astimezone(UTC),
        state=state,
        error=str(status.get("error", phase)),
    )


def failed(ordered: Ordered) -> TargetError:
    """The error of a backup that CloudNativePG could not make."""
    return TargetError(
        f"The Backup {ordered.place} has failed: {ordered.error}.",
        hint="See its status, and the Cluster's settings for backups.",
    )
