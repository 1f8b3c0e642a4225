"""Following a kind of object by name only: that something changed, not what it holds.

The stream asks for metadata, so a large ConfigMap costs as little as a small one, and nothing is kept here. Whoever
follows must look at everything once at each `RESYNC`: changes before it may have been missed.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from anabranch.kube.client import KubeClient
    from anabranch.kube.kinds import Kind

_METADATA: Final = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
_SERVER_SECONDS: Final = 300
_IDLE_SECONDS: Final = 90.0
"""The API server sends a bookmark every minute, so a silence of this length is a dead connection."""


@dataclass(frozen=True)
class Changed:
    """An object was created, changed or deleted; empty names mean any object (see `RESYNC`)."""

    namespace: str
    name: str


RESYNC: Final = Changed("", "")


async def changes(client: KubeClient, kind: Kind, *, namespace: str | None = None) -> AsyncIterator[Changed]:
    """Yield the names of objects as they change, until the stream ends, as it does every few minutes.

    Args:
        client: To the API server.
        kind: Of the objects.
        namespace: None: of all namespaces.

    Raises:
        UnavailableError: If the stream cannot be had, or breaks.
    """
    path = kind.path(namespace=namespace)
    listing = await client.call("GET", path, query={"limit": "1"})
    query = {
        "watch": "true",
        "allowWatchBookmarks": "true",
        "resourceVersion": listing["metadata"]["resourceVersion"],
        "timeoutSeconds": str(_SERVER_SECONDS),
    }
    yield RESYNC
    async with client.connection.stream(path, query=query, accept=_METADATA, idle=_IDLE_SECONDS) as lines:
        async for line in lines:
            event: dict[str, Any] = json.loads(line)
            if event["type"] == "ERROR":
                return  # the version to begin from is too old: the next stream begins with a RESYNC
            if event["type"] != "BOOKMARK":
                metadata = event["object"]["metadata"]
                yield Changed(metadata.get("namespace", ""), metadata["name"])
