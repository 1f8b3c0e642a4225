"""Finalizers: put on and taken off one at a time, so that those of others stay, and ours alone is ours."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from anabranch.kube.client import FIELD_MANAGER, JSON_PATCH
from anabranch.kube.errors import ObjectRefusedError, StaleObjectError

if TYPE_CHECKING:
    from anabranch.kube.client import KubeClient
    from anabranch.kube.kinds import Kind


async def set_finalizer(  # noqa: PLR0913  (which object, and what of it)
    client: KubeClient, kind: Kind, *, namespace: str, name: str, uid: str, finalizer: str, present: bool
) -> bool:
    """Have an object carry a finalizer, or not; whether anything had to be written.

    An object of another uid, or that is gone, is left alone: there is nothing to hold or to let go.

    Args:
        client: To the API server.
        kind: Of the object.
        namespace: Of the object.
        name: Of the object.
        uid: Of the object.
        finalizer: With our domain in front.
        present: Whether it is to be there.

    Raises:
        StaleObjectError: If the object changed between reading and writing.
        UnavailableError: If the API server cannot be reached.
    """
    found = await client.find(kind, namespace=namespace, name=name)
    if found is None or found["metadata"]["uid"] != uid:
        return False
    metadata = found["metadata"]
    before = metadata.get("finalizers") or []
    if (finalizer in before) == present:
        return False
    after = [*before, finalizer] if present else [other for other in before if other != finalizer]
    patch: list[dict[str, Any]] = [
        {"op": "test", "path": "/metadata/uid", "value": uid},
        {"op": "test", "path": "/metadata/resourceVersion", "value": metadata["resourceVersion"]},
        {"op": "add", "path": "/metadata/finalizers", "value": after},
    ]
    try:
        await client.call(
            "PATCH",
            kind.path(namespace=namespace, name=name),
            query={"fieldManager": FIELD_MANAGER},
            body=patch,
            content_type=JSON_PATCH,
        )
    except ObjectRefusedError as error:
        # A test that fails is answered as a value that is refused.
        raise StaleObjectError(
            f"{kind.name} {namespace}/{name} changed meanwhile: {error.detail}", hint="Read it again, then repeat."
        ) from error
    return True
