"""How a process reaches the API server, and who it is there.

The address, the certificate authority and the credentials come from ``KUBECONFIG``, from the pod's ServiceAccount, or
from ``~/.kube/config``, in that order, all read by the kubernetes library. Tokens are short-lived and rotate in their
file while the process runs, so the file is read again every minute, and at once when the API server answers 401.

This is the only module that imports the kubernetes library, whose import takes more than a second: commands that do
not talk to the API server must not import this one.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self
from urllib.parse import urlencode, urlsplit

import aiohttp
from kubernetes.aio import config
from kubernetes.aio.client import Configuration
from kubernetes.aio.client.rest import RESTClientObject
from kubernetes.aio.config.config_exception import ConfigException

from anabranch.model.errors import UnavailableError

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Mapping

_kubernetes_config: Any = config  # its functions have no types

REREAD_SECONDS: Final = 60.0
"""How old a token may grow in memory before its file is read again; kubelet rotates it at 80 % of its life."""

TIMEOUT_SECONDS: Final = 10.0
CONNECT_SECONDS: Final = 3.0
_DEFAULT_KUBECONFIG: Final = str(Path("~/.kube/config").expanduser())
_BEARER: Final = "BearerToken"
_UNREACHABLE_HINT: Final = "Check the API server, and the address in the kubeconfig; the call may be made again."


@dataclass(frozen=True)
class Answer:
    """An HTTP answer of the API server, read to its end."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Connection:
    """A pool of connections to one API server, as one account. Made by `open`, ended by `close`."""

    def __init__(self, configuration: Any, loader: Any = None) -> None:
        self._configuration = configuration
        self._loader = loader
        self._loaded_at = asyncio.get_running_loop().time()
        self._rest: Any = RESTClientObject(configuration)

    @classmethod
    async def open(cls, kubeconfig: str | None = None) -> Self:
        """Read the configuration. No request is made yet.

        Args:
            kubeconfig: Path, or several joined as in ``KUBECONFIG``; None: the usual places.

        Raises:
            UnavailableError: If no configuration is found, or it cannot be read.
        """
        configuration = Configuration()
        loader = None
        kubeconfig = kubeconfig or os.environ.get("KUBECONFIG")
        try:
            if not kubeconfig and "KUBERNETES_SERVICE_HOST" in os.environ:
                _kubernetes_config.load_incluster_config(client_configuration=configuration)
            else:
                loader = await _kubernetes_config.load_kube_config(
                    config_file=kubeconfig or _DEFAULT_KUBECONFIG,
                    client_configuration=configuration,
                    persist_config=False,
                )
        except (ConfigException, OSError, TypeError, ValueError) as error:
            raise UnavailableError(
                f"No usable Kubernetes configuration: {error}.",
                hint="Set KUBECONFIG to a kubeconfig file, or run in a pod with a ServiceAccount.",
            ) from error
        # Proxies of the environment are for servers elsewhere, and Go clients never use them for the loopback address.
        configuration.client_session_kwargs = {"trust_env": not _is_loopback(configuration.host)}
        return cls(configuration, loader)

    @property
    def server(self) -> str:
        """The API server's base URL, without a trailing slash."""
        return str(self._configuration.host).rstrip("/")

    @property
    def ssl(self) -> ssl.SSLContext:
        """Trusts the cluster's authority, and carries the client certificate where there is one."""
        context: ssl.SSLContext = self._rest.ssl_context
        return context

    async def authorization(self) -> str | None:
        """The ``Authorization`` header as of now; None where a client certificate, or nothing, identifies us."""
        if asyncio.get_running_loop().time() - self._loaded_at > REREAD_SECONDS:
            await self._reload()
        header: str | None = await self._configuration.get_api_key_with_prefix(_BEARER)
        return header

    async def send(  # noqa: PLR0913  (all but the request line by keyword)
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        content_type: str = "application/json",
        timeout: float | None = None,  # noqa: ASYNC109  (it bounds the whole exchange, a second attempt included)
    ) -> Answer:
        """Make one request, and one more with a token read anew if the first is answered 401.

        Args:
            method: GET, POST, PUT, PATCH or DELETE.
            path: Absolute path on the server, already percent-encoded.
            query: Query parameters.
            body: A JSON value.
            content_type: Of the body; tells the kind of a patch.
            timeout: Seconds for all of it; None: 10.

        Raises:
            UnavailableError: If there is no answer in time.
        """
        timeout = TIMEOUT_SECONDS if timeout is None else timeout
        url = f"{self.server}{path}" + (f"?{urlencode(query)}" if query else "")
        try:
            async with asyncio.timeout(timeout):
                answer = await self._exchange(method, url, body=body, content_type=content_type)
                if answer.status == 401 and await self._reload():
                    answer = await self._exchange(method, url, body=body, content_type=content_type)
                return answer
        except TimeoutError as error:
            raise UnavailableError(
                f"The API server gave no answer to {method} {path} within {timeout:g} s.", hint=_UNREACHABLE_HINT
            ) from error
        except (aiohttp.ClientError, OSError) as error:
            raise self._unreachable(error) from error

    @contextlib.asynccontextmanager
    async def stream(
        self, path: str, *, query: Mapping[str, str], accept: str, idle: float
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """Make a GET request whose answer is read line by line while it is still being written.

        Args:
            path: Absolute path on the server, already percent-encoded.
            query: Query parameters.
            accept: The media type wanted.
            idle: Seconds without a byte after which the connection counts as broken.

        Raises:
            UnavailableError: If there is no answer, another one than 200, or the connection breaks.
        """
        limits = aiohttp.ClientTimeout(sock_connect=CONNECT_SECONDS, sock_read=idle)
        url = f"{self.server}{path}?{urlencode(query)}"
        try:
            answer = await self._rest.request(
                "GET", url, headers=await self._headers(accept=accept), _request_timeout=limits
            )
            response: aiohttp.ClientResponse = answer.response
            async with response:
                if response.status != 200:
                    raise UnavailableError(f"GET {path} was answered with {response.status}.", hint=_UNREACHABLE_HINT)
                yield aiter(response.content)
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise self._unreachable(error) from error

    def session(self, *middlewares: aiohttp.ClientMiddlewareType) -> aiohttp.ClientSession:
        """A session of its own for another library, with this connection's trust; it adds no credentials.

        Args:
            middlewares: What each request passes through; the caller's way to add `authorization`.
        """
        connector = aiohttp.TCPConnector(limit=0, ssl=self.ssl)
        trust_env = not _is_loopback(self.server)
        return aiohttp.ClientSession(connector=connector, middlewares=middlewares, trust_env=trust_env)

    async def close(self) -> None:
        """Close every connection."""
        await self._rest.close()

    async def _exchange(self, method: str, url: str, *, body: Any, content_type: str) -> Answer:
        headers = await self._headers(accept="application/json", content_type=content_type)
        limits = aiohttp.ClientTimeout(sock_connect=CONNECT_SECONDS)
        response = await self._rest.request(method, url, headers=headers, body=body, _request_timeout=limits)
        return Answer(response.status, response.headers, await response.read())

    async def _headers(self, *, accept: str, content_type: str = "application/json") -> dict[str, str]:
        headers = {"Accept": accept, "Content-Type": content_type, "User-Agent": "anabranch"}
        if (authorization := await self.authorization()) is not None:
            headers["Authorization"] = authorization
        return headers

    def _unreachable(self, error: Exception) -> UnavailableError:
        return UnavailableError(
            f"The API server at {self.server} cannot be reached: {type(error).__name__} {error}.",
            hint=_UNREACHABLE_HINT,
        )

    async def _reload(self) -> bool:
        """Read the credentials anew; whether there was a file to read them from.

        The in-cluster loader has a clock of its own, and reads its file again when the token is next asked for.
        """
        if self._loader is None:
            return False
        self._loaded_at = asyncio.get_running_loop().time()
        await self._loader.load_and_set(self._configuration)
        return True


def _is_loopback(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
