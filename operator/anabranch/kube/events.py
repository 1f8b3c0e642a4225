"""Kubernetes Events (``events.k8s.io/v1``): what happened to an object, as ``kubectl describe`` shows it.

An Event's name is made from what it tells, so telling it twice, by two processes or after a restart, makes one Event:
the second creation meets the first. Events live for an hour in most clusters; they inform people, and nothing in this
system reads them.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Literal

from anabranch.kube.errors import AlreadyExistsError
from anabranch.kube.kinds import EVENT

if TYPE_CHECKING:
    from anabranch.kube.client import KubeClient
    from anabranch.kube.kinds import Kind

CONTROLLER: Final = "anabranch.dev/operator"
_NOTE_BYTES: Final = 1_000
"""The API takes 1,024 bytes; the rest is for the ellipsis."""


@dataclass(frozen=True)
class ObjectRef:
    """The object that an Event is about."""

    kind: Kind
    namespace: str
    name: str
    uid: str


@dataclass(frozen=True)
class Occurrence:
    """Something that happened once.

    Attributes:
        reason: CamelCase, such as ``Published``.
        note: One sentence for people; cut at 1,000 bytes.
        key: Tells this occurrence from others of the same object and reason, such as a generation.
        type: ``Warning`` for what somebody should look at.
    """

    reason: str
    note: str
    key: str
    type: Literal["Normal", "Warning"] = "Normal"


async def emit(client: KubeClient, about: ObjectRef, occurrence: Occurrence, *, instance: str) -> bool:
    """Create the Event of an occurrence, unless there is one; whether it was created now.

    Args:
        client: To the API server.
        about: The object concerned; the Event stands in its namespace.
        occurrence: What happened.
        instance: This process, as ``reportingInstance``.
    """
    now = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
    told = hashlib.sha256(f"{about.uid} {occurrence.reason} {occurrence.key}".encode()).hexdigest()[:16]
    body: dict[str, Any] = {
        "metadata": {"name": f"{about.name[:200].rstrip('.-')}.{told}"},
        "eventTime": now,
        "reportingController": CONTROLLER,
        "reportingInstance": instance[:128],
        "action": "Reconcile",
        "reason": occurrence.reason,
        "type": occurrence.type,
        "note": _cut(occurrence.note),
        "regarding": {
            "apiVersion": about.kind.api_version,
            "kind": about.kind.name,
            "namespace": about.namespace,
            "name": about.name,
            "uid": about.uid,
        },
    }
    try:
        await client.create(EVENT, body, namespace=about.namespace)
    except AlreadyExistsError:
        return False
    return True


def _cut(note: str) -> str:
    encoded = note.encode()
    return note if len(encoded) <= _NOTE_BYTES else encoded[:_NOTE_BYTES].decode(errors="ignore") + "…"
