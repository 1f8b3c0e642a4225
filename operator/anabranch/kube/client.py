"""The Kubernetes API as this system uses it: objects are plain JSON values, errors are this system's errors.

The generated model classes are left aside: they triple the cost of a call and add nothing to objects whose schema is
ours. Every call has a timeout, and none is retried here, since only the caller knows whether to ask again.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, Self

from anabranch.kube.errors import (
    AlreadyExistsError,
    ChangedObjectError,
    ObjectNotFoundError,
    ObjectRefusedError,
    RightMissingError,
    StaleObjectError,
)
from anabranch.model.errors import AnabranchError, UnavailableError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from anabranch.kube.connection import Connection
    from anabranch.kube.kinds import Kind

FIELD_MANAGER: Final = "anabranch"
JSON_PATCH: Final = "application/json-patch+json"
_PAGE: Final = 500
_MEND: Final = "Mend the named field."
_REFUSALS: Final[dict[int, tuple[type[AnabranchError], str, str]]] = {
    400: (ObjectRefusedError, "{message}", _MEND),
    401: (
        RightMissingError,
        "The API server does not accept this process' credentials for {call}.",
        "Renew its token, or the kubeconfig it was started with.",
    ),
    403: (RightMissingError, "{message}", "Apply the roles that `anabranch manifests` prints."),
    404: (ObjectNotFoundError, "{call}: {message}", "Check the name, and that the kind is installed."),
    409: (StaleObjectError, "{message}", "Read the object again, then repeat the change."),
    410: (ObjectNotFoundError, "{call}: {message}", "Read the list again from its beginning."),
    413: (ObjectRefusedError, "{message}", "Shorten the object."),
    422: (ObjectRefusedError, "{message}", _MEND),
}
"""What each HTTP status of the API server means here."""

_LATER: Final = (UnavailableError, "{call} was answered with {status}: {message}", "Try again in a moment.")


class KubeClient:
    """Reads and writes Kubernetes objects over one connection.

    Every method raises `UnavailableError` when the API server cannot be reached or is overloaded, and its subclass
    `RightMissingError` when it refuses this process' own account.
    """

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    @classmethod
    async def open(cls, kubeconfig: str | None = None) -> Self:
        """Connect as the kubeconfig, or the usual places, say: see `Connection.open`."""
        from anabranch.kube.connection import Connection  # noqa: PLC0415  (the kubernetes library takes 1.5 s to import)

        return cls(await Connection.open(kubeconfig))

    async def close(self) -> None:
        """Close the connection."""
        await self.connection.close()

    async def get(self, kind: Kind, *, namespace: str | None = None, name: str) -> dict[str, Any]:
        """One object.

        Raises:
            ObjectNotFoundError: If it is not there.
        """
        return await self.call("GET", kind.path(namespace=namespace, name=name))

    async def find(self, kind: Kind, *, namespace: str | None = None, name: str) -> dict[str, Any] | None:
        """One object, or None if it is not there."""
        try:
            return await self.get(kind, namespace=namespace, name=name)
        except ObjectNotFoundError:
            return None

    async def items(
        self, kind: Kind, *, namespace: str | None = None, label_selector: str = ""
    ) -> AsyncIterator[dict[str, Any]]:
        """Every object of a kind, read by pages of 500; in one namespace, or in all."""
        query = {"limit": str(_PAGE)} | ({"labelSelector": label_selector} if label_selector else {})
        while True:
            page = await self.call("GET", kind.path(namespace=namespace), query=query)
            for item in page.get("items", ()):
                yield item
            if not (token := page.get("metadata", {}).get("continue")):
                return
            query["continue"] = token

    async def create(self, kind: Kind, body: dict[str, Any], *, namespace: str | None = None) -> dict[str, Any]:
        """Create an object, and return it as the API server keeps it.

        Raises:
            AlreadyExistsError: If there is one of that name.
            ObjectRefusedError: If the schema or an admission policy refuses it.
            ObjectNotFoundError: If its namespace is not there.
        """
        whole = {"apiVersion": kind.api_version, "kind": kind.name, **body}
        return await self.call(
            "POST", kind.path(namespace=namespace), query={"fieldManager": FIELD_MANAGER}, body=whole
        )

    async def replace(self, kind: Kind, body: dict[str, Any], *, namespace: str | None = None) -> dict[str, Any]:
        """Replace an object by one read before and changed.

        Raises:
            StaleObjectError: If it was written in between: its resourceVersion differs.
            ObjectNotFoundError: If it is gone.
        """
        return await self.call("PUT", kind.path(namespace=namespace, name=body["metadata"]["name"]), body=body)

    async def delete(self, kind: Kind, *, namespace: str, name: str, uid: str, resource_version: str) -> bool:
        """Delete an object, provided that it is the one of that uid and has not changed since it was read.

        What it owns is collected afterwards.

        Returns:
            Whether it is gone; if not, a finalizer keeps it for a while.

        Raises:
            ObjectNotFoundError: If there is no object of that name.
            StaleObjectError: If it changed, or is another one.
        """
        options = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {"uid": uid, "resourceVersion": resource_version},
            "propagationPolicy": "Background",
        }
        answer = await self.call("DELETE", kind.path(namespace=namespace, name=name), body=options)
        return answer.get("kind") == "Status"

    async def write_status(  # noqa: PLR0913  (all but the kind by keyword)
        self,
        kind: Kind,
        *,
        namespace: str,
        name: str,
        uid: str,
        status: dict[str, Any],
        whole: bool = True,
        version: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109  (see Connection.send)
    ) -> dict[str, Any]:
        """Write a status, provided that the object is the one of that uid.

        It is a JSON patch that tests the uid. A merge patch cannot: what it says of metadata is ignored on ``/status``,
        so that the status could reach a namesake that was created since.

        Args:
            kind: Of the object.
            namespace: Of the object.
            name: Of the object.
            uid: Of the object.
            status: The members to write.
            whole: Whether they are the whole status; if not, the members that are not named stay.
            version: ``metadata.resourceVersion`` that the object is to have still; None: whichever.
            timeout: Seconds; None: the usual.

        Raises:
            ObjectNotFoundError: If there is no object of that name.
            StaleObjectError: If the object of that name has another uid.
            ChangedObjectError: If it has another version.
            ObjectRefusedError: If the status does not fit its schema.
        """
        values = {"/status": status} if whole else {f"/status/{member}": value for member, value in status.items()}
        patch: list[dict[str, Any]] = [{"op": "test", "path": "/metadata/uid", "value": uid}]
        if version is not None:
            patch.append({"op": "test", "path": "/metadata/resourceVersion", "value": version})
        patch += [{"op": "add", "path": path, "value": value} for path, value in values.items()]
        try:
            return await self.call(
                "PATCH",
                kind.path(namespace=namespace, name=name, subresource="status"),
                query={"fieldManager": FIELD_MANAGER},
                body=patch,
                content_type=JSON_PATCH,
                timeout=timeout,
            )
        except ObjectRefusedError:
            # A test that fails and a value that is refused are answered alike.
            found = await self.get(kind, namespace=namespace, name=name)
            if found["metadata"]["uid"] == uid and version not in {None, found["metadata"]["resourceVersion"]}:
                raise ChangedObjectError(
                    f"{kind.name} {namespace}/{name} was changed since it was read.", hint="Read it again."
                ) from None
            if found["metadata"]["uid"] == uid:
                raise
            raise StaleObjectError(
                f"{kind.name} {namespace}/{name} has the uid {found['metadata']['uid']}, not {uid}.",
                hint="It was deleted and made again: forget the old one.",
            ) from None

    async def check_ready(self) -> None:
        """Make sure that the API server that answers has read all that it decides by.

        One that has just started serves before it knows every role and binding, and says no for lack of them.

        Raises:
            UnavailableError: If it says that it is not ready.
        """
        answer = await self.connection.send("GET", "/readyz")
        if answer.status >= 500:  # a cluster may keep the path from ordinary accounts, which tells nothing
            raise UnavailableError("The API server is not ready yet.", hint="Try again in a moment.")

    async def call(  # noqa: PLR0913  (all but the request line by keyword)
        self,
        method: str,
        path: str,
        *,
        query: dict[str, str] | None = None,
        body: Any = None,
        content_type: str = "application/json",
        timeout: float | None = None,  # noqa: ASYNC109  (see Connection.send)
    ) -> dict[str, Any]:
        """Make one call, and return the JSON object that answers it.

        Raises:
            AnabranchError: The one that the API server's refusal stands for (see `anabranch.kube.errors`).
        """
        answer = await self.connection.send(
            method, path, query=query, body=body, content_type=content_type, timeout=timeout
        )
        try:
            value = json.loads(answer.body)
        except ValueError:
            value = None  # a proxy or an overloaded server answers with text
        if answer.status >= 300 or not isinstance(value, dict):
            raise _refusal(method, path, answer.status, value if isinstance(value, dict) else {})
        return value


def _refusal(method: str, path: str, status: int, body: dict[str, Any]) -> AnabranchError:
    """The error that a Kubernetes ``Status`` object stands for."""
    message = str(body.get("message") or f"status {status}").rstrip(".") + "."
    call = f"{method} {path}"
    if status == 409 and body.get("reason") == "AlreadyExists":
        return AlreadyExistsError(message, hint="Take another name, or use the one that is there.")
    causes = {cause.get("reason") for cause in (body.get("details") or {}).get("causes") or ()}
    if status == 403 and "NamespaceTerminating" in causes:
        return ObjectNotFoundError(message, hint="Its namespace is going away: there is nothing left to do.")
    if status == 404 and not (body.get("details") or {}).get("name"):
        # An absent object is named; an absent kind is not, and must not be taken for the absence of all its objects.
        return UnavailableError(f"{call}: {message}", hint="Install the definitions that `anabranch manifests` prints.")
    error, detail, hint = _REFUSALS.get(status, _LATER)
    return error(detail.format(call=call, status=status, message=message), hint=hint)
