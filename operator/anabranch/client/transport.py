"""Requests that are tried again where that is safe, with the token of this moment, and errors that say what to do."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import ipaddress
import random
import ssl
from typing import TYPE_CHECKING, Any, Final, Literal, Self, TypeVar
from urllib.parse import quote, urlsplit

import httpx
from pydantic import BaseModel, ValidationError

from anabranch import __version__
from anabranch.client.errors import error_of
from anabranch.client.traced import name_span
from anabranch.domain.backoff import delay
from anabranch.model.errors import AnabranchError, UnauthenticatedError, UnavailableError
from anabranch.model.misfits import misfits, told

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, AsyncIterator, Callable, Generator, Mapping
    from pathlib import Path
    from types import TracebackType

M = TypeVar("M", bound=BaseModel)

PROTOCOL: Final = "1"
"""What is spoken; an API that does not speak it says so."""

ATTEMPTS: Final = 6
_FIRST_PAUSE: Final = 0.2
_LONGEST_PAUSE: Final = 5.0


class _Bearer(httpx.Auth):
    """The token, or what its file holds at the time: kubelet replaces it while the process runs."""

    def __init__(self, token: str | None, token_file: Path | None) -> None:
        self._token = token
        self._file = token_file

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        token = self._token
        if token is None and self._file is not None:
            try:
                token = self._file.read_text(encoding="ascii").strip()
            except (OSError, UnicodeDecodeError) as error:
                raise UnauthenticatedError(
                    f"The token file cannot be read: {error}.", hint="Check its path, or pass another."
                ) from error
        if token:
            request.headers["Authorization"] = f"Bearer {token}"
        yield request


class Transport:
    """One pool of connections to one API, as one identity.

    Args:
        url: Of the API, without a path.
        token: Shown as it is.
        token_file: Read anew for each request.
        timeout: Seconds to wait for a connection, and between two pieces of an answer.
        authority: Who signs the API's certificate, as PEM; None: whoever this machine, or SSL_CERT_FILE, trusts.
        through: What carries the requests in the place of sockets: an application in this process, which is asked once.
    """

    def __init__(  # noqa: PLR0913  (all but the address by keyword)
        self,
        url: str,
        *,
        token: str | None = None,
        token_file: Path | None = None,
        timeout: float = 30.0,
        authority: str | None = None,
        through: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._attempts = ATTEMPTS if through is None else 1
        self._http = httpx.AsyncClient(
            base_url=url.rstrip("/"),
            transport=through,
            auth=_Bearer(token, token_file),
            timeout=timeout,
            headers={"User-Agent": f"anabranch/{__version__}", "Anabranch-Protocol": PROTOCOL},
            event_hooks={"request": [name_span]},
            # SSL_CERT_FILE counts in any case: a port may be forwarded to the API.
            verify=_trust(url, authority) if through is None else False,
            trust_env=not is_loopback(url),  # a proxy of the environment is for servers elsewhere
        )
        self._timeout = timeout

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def send(  # noqa: PLR0913  (all but the request line by keyword)
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: bytes | Callable[[], AsyncIterable[bytes]] | None = None,
        headers: Mapping[str, str] | None = None,
        repeatable: bool = True,
        wait: float = 0.0,
    ) -> httpx.Response:
        """Make a request, and again after a pause while the API is away.

        Args:
            method: Of HTTP.
            path: Below the URL, percent-encoded (see `path`).
            query: Query parameters; those that are None are left out.
            body: Bytes, or a function that begins them anew for each attempt.
            headers: Beside those that every request has.
            repeatable: Whether doing it twice is doing it once. If not, it is repeated only when it was never sent.
            wait: Seconds that the API was asked to wait before it answers.

        Raises:
            AnabranchError: What the API answered, or `UnavailableError` if it did not.
        """
        sent = {name: value for name, value in (query or {}).items() if value is not None}
        content_headers = dict(headers or {})
        if isinstance(body, bytes):
            content_headers["Content-Digest"] = content_digest(body)
        for attempt in range(1, self._attempts + 1):
            last = attempt == self._attempts
            try:
                response = await self._http.request(
                    method,
                    path,
                    params=sent or None,
                    content=body() if callable(body) else body,
                    headers=content_headers,
                    timeout=httpx.Timeout(self._timeout, read=self._timeout + wait),
                )
            except httpx.TransportError as error:
                never_sent = isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout)
                if last or not (repeatable or never_sent):
                    raise UnavailableError(
                        f"The API at {self._http.base_url} cannot be reached: {str(error) or type(error).__name__}.",
                        hint="Check the address and that the API runs, then try again.",
                    ) from error
            else:
                if response.is_success or response.status_code == httpx.codes.NOT_MODIFIED:
                    return response
                problem = error_of(response)
                if last or not repeatable or response.status_code not in {502, 503, 504}:
                    raise problem
            await asyncio.sleep(pause(attempt))
        raise AssertionError("the last attempt returns or raises")

    @contextlib.asynccontextmanager
    async def stream(
        self, path: str, *, query: Mapping[str, Any], headers: Mapping[str, str], idle: float
    ) -> AsyncIterator[httpx.Response]:
        """GET what goes on and on, once; for the length of a block.

        Args:
            path: Below the URL, percent-encoded.
            query: Query parameters; those that are None are left out.
            headers: Beside those that every request has.
            idle: Seconds to wait for the next piece.

        Raises:
            AnabranchError: What the API answered, or `UnavailableError` if it did not, or breaks off.
        """
        sent = {name: value for name, value in query.items() if value is not None}
        timeout = httpx.Timeout(self._timeout, read=idle)
        try:
            async with self._http.stream("GET", path, params=sent or None, headers=headers, timeout=timeout) as answer:
                if not answer.is_success:
                    await answer.aread()
                    raise error_of(answer)
                yield answer
        except httpx.TransportError as error:
            raise UnavailableError(
                f"The API at {self._http.base_url} broke off, or cannot be reached: "
                f"{str(error) or type(error).__name__}.",
                hint="Go on after the last cursor.",
            ) from error

    async def get(self, kind: type[M], path: str, *, query: Mapping[str, Any] | None = None, wait: float = 0.0) -> M:
        """GET one object."""
        return parse(kind, await self.send("GET", path, query=query, wait=wait))

    async def pages(self, kind: type[M], path: str, *, query: Mapping[str, Any] | None = None) -> AsyncIterator[M]:
        """GET every page of a list."""
        cursor: str | None = None
        while True:
            page = await self.get(kind, path, query={**(query or {}), "cursor": cursor})
            yield page
            cursor = getattr(page, "next_cursor", None)
            if cursor is None:
                return


def parse(kind: type[M], response: httpx.Response, *, extra: Literal["ignore", "allow"] = "ignore") -> M:
    """An answer as a model; members that a newer API has added are left out, unless members of any name are allowed.

    Raises:
        AnabranchError: If the answer is none that this release knows.
    """
    try:
        return kind.model_validate_json(response.content, extra=extra)
    except ValidationError as error:
        raise AnabranchError(
            f"{response.request.url} was answered with what is no {kind.__name__}: {told(misfits(error.errors()))}",
            hint="Use a client of the API's release, and check that nothing stands between them.",
        ) from error


def path(*parts: str | int) -> str:
    """A path below ``/v1/namespaces`` of parts that are encoded whole, slashes too."""
    return "/v1/namespaces/" + "/".join(map(_encoded, parts))


def content_digest(body: bytes) -> str:
    """The value of a ``Content-Digest`` header (RFC 9530)."""
    return f"sha-256=:{base64.b64encode(hashlib.sha256(body).digest()).decode()}:"


def _encoded(part: str | int) -> str:
    text = quote(str(part), safe="")
    # As segments of their own these two would be taken for steps up the path.
    return text.replace(".", "%2E") if text in {".", ".."} else text


def _trust(url: str, authority: str | None) -> ssl.SSLContext:
    """Whose certificates count: nobody's where no TLS is spoken, for to read authorities takes tens of milliseconds."""
    if authority is not None:
        return ssl.create_default_context(cadata=authority)
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if urlsplit(url).scheme == "http" else httpx.create_ssl_context()


def pause(attempt: int) -> float:
    """Seconds to wait before another attempt."""
    chance = random.random()  # noqa: S311  (it spreads retries, it keeps no secret)
    return delay(attempt, chance=chance, base=_FIRST_PAUSE, limit=_LONGEST_PAUSE)


def is_loopback(url: str) -> bool:
    """Whether a URL leads to this machine."""
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
