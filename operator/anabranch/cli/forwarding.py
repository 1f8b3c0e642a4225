"""The API through a person's kubeconfig: its Service's port, forwarded by kubectl for as long as a command runs.

So nobody has to be told an address, and nothing has to be exposed for people. Whoever has the port may be somebody else
once kubectl has ended: so what answers must show the API's own certificate, as it must anywhere else.
"""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
import threading
from dataclasses import dataclass, field, replace
from typing import IO, TYPE_CHECKING, Any, Final

from anabranch.cli.kubectl import error_of
from anabranch.model.errors import AnabranchError, InvalidInputError, UnavailableError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from anabranch.cli.connection import Connection
    from anabranch.cli.kubectl import Kubectl

SERVICE: Final = "anabranch-api"
AUTHORITY: Final = "anabranch-ca"
"""ConfigMap that an installation gives its authority to teams by: the agents of a namespace read it too."""

SECRET: Final = "anabranch-api-tls"  # noqa: S105  (a name)
_ELSE: Final = "Give --url, or set ANABRANCH_URL."
_FORWARDING: Final = re.compile(r"Forwarding from 127\.0\.0\.1:(\d+) ->")
PAUSE: Final = 1.0
"""Seconds before a port is forwarded again: the pod that it led to is gone, and another one may not be ready."""


@contextlib.contextmanager
def reached(connection: Connection) -> Iterator[Connection]:
    """The same connection with an address for the API: the one that it has, else a forwarded port.

    Raises:
        InvalidInputError: If it has none, and the person cannot reach the Service.
    """
    if connection.url is not None:
        yield connection
        return
    namespace = connection.installation
    try:
        spec = json.loads(_of(connection.kubectl, namespace, "get", "service", SERVICE, "--output=json"))["spec"]
    except AnabranchError as error:
        raise InvalidInputError(
            f"The address of the API is not known, and its Service is not to be seen: {error.detail}", hint=_ELSE
        ) from None
    port = next(each for each in spec["ports"] if each["name"] == "api")
    secure = port.get("appProtocol") == "https"
    forward = Forward(connection.kubectl, namespace, port=port["port"], again=secure)
    try:
        scheme = "https" if secure else "http"
        url = f"{scheme}://localhost:{forward.local}"
        yield replace(connection, url=url, authority=_authority(connection, namespace) if secure else None)
    finally:
        forward.end()


@dataclass
class Forward:
    """A local port that leads to the Service, until its end.

    Attributes:
        kubectl: The person's.
        namespace: Of the Service.
        port: Of the Service.
        again: Whether to forward it again when kubectl ends, as it does with the pod that it leads to.

    Raises:
        InvalidInputError: If kubectl does not forward it.
    """

    kubectl: Kubectl
    namespace: str
    port: int
    again: bool
    local: int = field(init=False)
    _process: subprocess.Popen[str] = field(init=False, repr=False)
    _keeper: threading.Thread = field(init=False, repr=False)
    _ended: threading.Event = field(init=False, default_factory=threading.Event)
    _lock: threading.Lock = field(init=False, default_factory=threading.Lock)

    def __post_init__(self) -> None:
        """Begin."""
        self._process = self._start(0)
        words = ""
        for line in _said(self._process):
            if found := _FORWARDING.search(line):
                break
            words += line  # a warning, or why there will be no such line
        else:
            with self._process:
                self._process.kill()
            raise InvalidInputError(
                f"The address of the API is not known, and kubectl does not lead there: {error_of(words).detail}",
                hint=_ELSE,
            )
        self.local = int(found[1])
        self._keeper = threading.Thread(target=self._keep, name="port-forward", daemon=True)
        self._keeper.start()

    def end(self) -> None:
        """Stop."""
        with self._lock:
            self._ended.set()
            self._process.kill()
        self._keeper.join()

    def _keep(self) -> None:
        """Read what kubectl says, or it would stop at a full pipe; and begin again where that is wanted."""
        while True:
            with self._process:
                for _ in _said(self._process):
                    pass
            if not self.again or self._ended.wait(PAUSE):
                return
            with self._lock:
                if self._ended.is_set():
                    return
                self._process = self._start(self.local)

    def _start(self, local: int) -> subprocess.Popen[str]:
        place = f"{local or ''}:{self.port}"
        arguments = ["port-forward", f"service/{SERVICE}", place, f"--namespace={self.namespace}"]
        return subprocess.Popen(  # noqa: S603  (kubectl, found on PATH; no shell)
            [self.kubectl.program, *self.kubectl.options, *arguments, "--address=127.0.0.1"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )


def _said(process: subprocess.Popen[str]) -> IO[str]:
    if process.stdout is None:
        raise UnavailableError("kubectl says nothing.", hint="Try again.")
    return process.stdout


def _authority(connection: Connection, namespace: str) -> str | None:
    """Who signs the API's certificate, as PEM: as far as the person may read it; None: whom this machine trusts."""
    places = [(connection.namespace, "configmap", AUTHORITY), (namespace, "configmap", AUTHORITY)]
    for place, kind, name in [*places, (namespace, "secret", SECRET)]:
        inside = '{{index .data "ca.crt"}}' if kind == "configmap" else '{{index .data "ca.crt" | base64decode}}'
        with contextlib.suppress(AnabranchError):
            return _of(connection.kubectl, place, "get", kind, name, f"--output=go-template={inside}")
    return None


def _of(kubectl: Kubectl, namespace: str, *arguments: Any) -> str:
    return replace(kubectl, namespace=namespace).run(*arguments)
