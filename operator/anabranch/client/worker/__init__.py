"""The worker side: an agent's run with a file of its own, which works offline and keeps in step with the API."""

from anabranch.client.worker.values import (
    Arrival,
    Conflict,
    Evidence,
    Finding,
    Follow,
    Held,
    LocalCheckpoint,
    LocalRecord,
    Refused,
    ReplicaPurgedError,
    SnapshotIncompleteError,
    Status,
    Submitted,
    Synced,
)
from anabranch.client.worker.worker import Worker

__all__ = [
    "Arrival",
    "Conflict",
    "Evidence",
    "Finding",
    "Follow",
    "Held",
    "LocalCheckpoint",
    "LocalRecord",
    "Refused",
    "ReplicaPurgedError",
    "SnapshotIncompleteError",
    "Status",
    "Submitted",
    "Synced",
    "Worker",
]
