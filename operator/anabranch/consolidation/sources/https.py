"""``https://…``: a page of a configured host that answers 200 to whoever asks.

The operator sits where an agent cannot reach, so fetching what an agent names must not become a way in: only
configured hosts, only https, no redirect to another host, and never a private address unless the configuration says
so. The address is looked up once, checked, and connected to as checked: a name that changes its mind in between
changes nothing.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from typing import TYPE_CHECKING, Final
from urllib.parse import urljoin, urlsplit

import httpx

from anabranch.consolidation.sources.addresses import is_public
from anabranch.consolidation.sources.check import Found, UnreachableSourceError
from anabranch.telemetry import tracing

if TYPE_CHECKING:
    from collections.abc import Mapping

    from anabranch.consolidation.sources.check import Citation
    from anabranch.consolidation.sources.config import HttpSource
    from anabranch.model.locators import Locator

_REDIRECTS: Final = 3
_BYTES: Final = 8 << 20
_TIMEOUT: Final = httpx.Timeout(10.0, connect=5.0)
_HEADERS: Final = {"User-Agent": "anabranch-source-check", "Accept": "*/*", "Accept-Encoding": "identity"}


class HttpsResolver:
    """Looks pages up on the configured hosts.

    Args:
        sources: By name; a locator's host and port must be one of theirs.
    """

    def __init__(self, sources: Mapping[str, HttpSource]) -> None:
        self._hosts = {_with_port(source.host): source for source in sources.values()}
        self._contexts: dict[str | None, ssl.SSLContext] = {}

    async def __call__(self, citation: Citation, locator: Locator) -> Found:  # noqa: ARG002  (the same for every agent)
        """Fetch the page, and follow redirects that stay on its host."""
        url = locator.parts["url"]
        for _ in range(1 + _REDIRECTS):
            found = await self._get(url)
            if isinstance(found, Found):
                return found
            if _authority(found) != _authority(url):
                return Found(verified=False, detail="it redirects to another host; cite that one, if it is configured")
            url = found
        return Found(verified=False, detail=f"it redirects more than {_REDIRECTS} times")

    async def _get(self, url: str) -> Found | str:
        """What one request finds, or the address that it redirects to."""
        source = self._hosts.get(_authority(url) or "")
        if source is None or (parts := urlsplit(url)).username is not None:
            return Found(verified=False, detail="its host is not one that findings may cite")
        host, port = _split_port(_authority(url) or "")
        address = await _resolve(host, port, allow_private=source.allow_private)
        if address is None:
            return Found(verified=False, detail="its host has no address that may be reached")
        try:
            target = httpx.URL(url).copy_with(host=address, port=port, fragment=None)
        except httpx.InvalidURL:
            return Found(verified=False, detail="its address is not one that can be asked for")
        extensions = {"sni_hostname": host, "timeout": _TIMEOUT.as_dict()}
        request = httpx.Request("GET", target, headers=_HEADERS | {"Host": parts.netloc}, extensions=extensions)
        try:
            # By the transport, and not by a client, which would make a request of each redirect, whatever it says.
            with tracing.span("ask for page", kind="client") as span:
                span.describe({"server.address": host, "http.request.method": "GET"})
                async with httpx.AsyncHTTPTransport(verify=self._context(source.ca_file)) as transport:
                    response = await transport.handle_async_request(request)
                    span.describe({"http.response.status_code": response.status_code})
                    return await _judge(response, url)
        except httpx.HTTPError as error:
            raise UnreachableSourceError(f"{host} could not be asked: {error}.", hint="It is tried again.") from None

    def _context(self, ca_file: str | None) -> ssl.SSLContext:
        if ca_file not in self._contexts:
            self._contexts[ca_file] = ssl.create_default_context(cafile=ca_file)
        return self._contexts[ca_file]


async def _judge(response: httpx.Response, url: str) -> Found | str:
    if response.has_redirect_location:
        try:
            return urljoin(url, response.headers["location"])
        except ValueError:
            return Found(verified=False, detail="it redirects to what is no address")
    if response.status_code >= 500 or response.status_code == 429:
        raise UnreachableSourceError(
            f"{urlsplit(url).hostname} answered {response.status_code}.", hint="It is tried again."
        )
    if response.status_code != 200:
        return Found(verified=False, detail=f"the host answers {response.status_code}")
    size = 0
    async for chunk in response.aiter_raw():
        size += len(chunk)
        if size > _BYTES:
            return Found(verified=False, detail=f"the page is larger than {_BYTES >> 20} MiB")
    return Found(verified=True)


async def _resolve(host: str, port: int, *, allow_private: bool) -> str | None:
    """An address of the host that may be reached, or None if it has none.

    Raises:
        UnreachableSourceError: If the name cannot be looked up now.
    """
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise UnreachableSourceError(f"{host} cannot be looked up: {error}.", hint="It is tried again.") from None
    addresses = [str(address[0]) for *_, address in found]
    # All of them: a host that mixes public and private addresses is not one to be guessed about.
    if not allow_private and not all(map(is_public, addresses)):
        return None
    return addresses[0]


def _authority(url: str) -> str | None:
    """Host and port of an https address, lower-case; None if it is no such address."""
    try:
        parts = urlsplit(url)
        port = parts.port or 443
    except ValueError:
        return None
    return f"{parts.hostname}:{port}" if parts.scheme == "https" and parts.hostname else None


def _with_port(host: str) -> str:
    return host.lower() if ":" in host else f"{host.lower()}:443"


def _split_port(authority: str) -> tuple[str, int]:
    host, _, port = authority.rpartition(":")
    return host, int(port)
