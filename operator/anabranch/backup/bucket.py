"""Backups in a bucket of an S3-compatible store: five of its requests, signed by a library.

The usual clients are made for all of S3 and weigh more than everything else that this program brings (ADR 33). What a
backup needs is little: a file goes in parts, each with its digest, which the store checks, and becomes visible when the
last request succeeds. Keys are read anew for each request, since whoever rotates them tells nobody.
"""

from __future__ import annotations

import asyncio
import random
import ssl
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote
from xml.etree import ElementTree as ET

import httpx
from httpx_auth import AWS4Auth

from anabranch.backup.target import TargetError
from anabranch.domain import backoff
from anabranch.model.errors import NotFoundError
from anabranch.telemetry import tracing

if TYPE_CHECKING:
    from anabranch.backup.config import BucketTarget

PART_BYTES: Final = 16 << 20
"""Held in memory for each part; a store takes 10,000 of them."""

_ATTEMPTS: Final = 4
_TIMEOUT: Final = httpx.Timeout(60.0, connect=10.0)
_LATER: Final = frozenset({429, 500, 502, 503, 504})


class Bucket:
    """A target in a bucket.

    Args:
        config: Its entry.
    """

    def __init__(self, config: BucketTarget) -> None:
        self._config = config
        url = httpx.URL(config.endpoint)
        if config.addressing == "host":
            self._base = str(url.copy_with(host=f"{config.bucket}.{url.host}", path="/"))
        else:
            self._base = str(url.copy_with(path=f"/{config.bucket}/"))

    async def put(self, place: str, file: Path) -> None:
        """Store a file under a name (see `Target`)."""
        async with self._client() as client:
            with file.open("rb") as source:
                first = await asyncio.to_thread(source.read, PART_BYTES)
                second = await asyncio.to_thread(source.read, PART_BYTES)
                if not second:
                    await self._send(client, "PUT", place, content=first)
                    return
                started = _parsed(await self._send(client, "POST", place, params={"uploads": ""}))
                upload = _text(started, "UploadId")
                try:
                    tags: list[str] = []
                    for part in (first, second):
                        tags.append(await self._part(client, place, upload, len(tags) + 1, part))
                    first = second = b""
                    while part := await asyncio.to_thread(source.read, PART_BYTES):
                        tags.append(await self._part(client, place, upload, len(tags) + 1, part))
                    await self._complete(client, place, upload, tags)
                except BaseException:
                    await self._give_up(client, place, upload)
                    raise

    async def get(self, place: str, file: Path) -> None:
        """Write what has a name to a file (see `Target`)."""
        async with self._client() as client:
            try:
                async with client.stream("GET", self._url(place), auth=self._auth()) as response:
                    if not response.is_success:
                        await response.aread()
                    self._check(response, place)
                    with file.open("wb") as copy:
                        async for chunk in response.aiter_bytes():
                            await asyncio.to_thread(copy.write, chunk)
            except httpx.HTTPError as error:
                raise self._unreachable(error) from error

    async def places(self, prefix: str) -> list[str]:
        """All names that begin with a text (see `Target`)."""
        found: list[str] = []
        more: dict[str, str] = {}
        async with self._client() as client:
            while True:
                params = {"list-type": "2", "prefix": self._config.prefix + prefix, **more}
                listed = _parsed(await self._send(client, "GET", "", params=params))
                found += [key.removeprefix(self._config.prefix) for key in _texts(listed, "Contents", "Key")]
                if not (token := _texts(listed, "NextContinuationToken")):
                    return sorted(found)
                more = {"continuation-token": token[0]}

    async def _part(self, client: httpx.AsyncClient, place: str, upload: str, number: int, part: bytes) -> str:
        params = {"partNumber": str(number), "uploadId": upload}
        return (await self._send(client, "PUT", place, params=params, content=part)).headers["etag"]

    async def _complete(self, client: httpx.AsyncClient, place: str, upload: str, tags: list[str]) -> None:
        root = ET.Element("CompleteMultipartUpload")
        for number, tag in enumerate(tags, start=1):
            part = ET.SubElement(root, "Part")
            ET.SubElement(part, "PartNumber").text = str(number)
            ET.SubElement(part, "ETag").text = tag
        answer = await self._send(client, "POST", place, params={"uploadId": upload}, content=ET.tostring(root))
        # The one request whose failure may come under the status 200.
        if _parsed(answer).tag.rpartition("}")[2] != "CompleteMultipartUploadResult":
            raise self._refused(answer, place)

    async def _give_up(self, client: httpx.AsyncClient, place: str, upload: str) -> None:
        """Have the store throw the parts away; where that fails too, its own rules for unfinished uploads do."""
        try:
            async with asyncio.timeout(10):
                await client.delete(self._url(place), params={"uploadId": upload}, auth=self._auth())
        except (httpx.HTTPError, TimeoutError, TargetError):
            return

    async def _send(
        self, client: httpx.AsyncClient, method: str, place: str, *, params: dict[str, str] | None = None,
        content: bytes = b"",
    ) -> httpx.Response:  # fmt: skip
        """Send a request, and again where that may help; each of them may be repeated."""
        url = self._url(place) if place else self._base
        for attempt in range(1, _ATTEMPTS + 1):
            last = attempt == _ATTEMPTS
            try:
                with tracing.span("call bucket", kind="client", bucket=self._config.bucket) as span:
                    response = await client.request(method, url, params=params, content=content, auth=self._auth())
                    span.describe({"http.request.method": method, "http.response.status_code": response.status_code})
            except httpx.HTTPError as error:
                if last:
                    raise self._unreachable(error) from error
            else:
                if response.status_code not in _LATER or last:
                    self._check(response, place)
                    return response
            await asyncio.sleep(backoff.delay(attempt, chance=random.random(), base=0.5))  # noqa: S311  (jitter)
        raise AssertionError("unreachable")  # pragma: no cover

    def _check(self, response: httpx.Response, place: str) -> None:
        if response.status_code == httpx.codes.NOT_FOUND and _code(response) == "NoSuchKey":
            raise NotFoundError(f"There is no {place} in {self._config.bucket}.", hint="List the backups.")
        if not response.is_success:
            raise self._refused(response, place)

    def _refused(self, response: httpx.Response, place: str) -> TargetError:
        what = f" for {place}" if place else ""
        return TargetError(
            f"The bucket {self._config.bucket} answered {response.status_code} {_code(response)}{what}.",
            hint="Check its name, its region, and what the keys may do: put, get and list objects.",
        )

    def _unreachable(self, error: httpx.HTTPError) -> TargetError:
        return TargetError(
            f"The store {self._config.endpoint} cannot be reached: {str(error) or type(error).__name__}.",
            hint="Check its address, and that the operator's network policy lets it out.",
        )

    def _url(self, place: str) -> str:
        return self._base + quote(self._config.prefix + place)

    def _client(self) -> httpx.AsyncClient:
        trust: Any = ssl.create_default_context(cafile=self._config.ca_file) if self._config.ca_file else True
        return httpx.AsyncClient(timeout=_TIMEOUT, verify=trust, follow_redirects=False)

    def _auth(self) -> AWS4Auth:
        folder = Path(self._config.credentials_folder)
        try:
            # Small files of a mounted Secret: they are in memory.
            key, secret = (folder.joinpath(name).read_text().strip() for name in ("access-key-id", "secret-access-key"))
            token = folder.joinpath("session-token")
            more = {"security_token": token.read_text().strip()} if token.exists() else {}
        except OSError as error:
            raise TargetError(f"The keys cannot be read: {error}.", hint="Check the Secret of the target.") from error
        return AWS4Auth(key, secret, self._config.region, "s3", **more)


def _parsed(response: httpx.Response) -> ET.Element:
    try:
        return ET.fromstring(response.content)  # noqa: S314  (of the configured store; expat bounds expansion)
    except ET.ParseError:
        return ET.Element("none")


def _texts(element: ET.Element, *path: str) -> list[str]:
    return [found.text or "" for found in element.findall("/".join(f"{{*}}{name}" for name in path))]


def _text(element: ET.Element, name: str) -> str:
    found = _texts(element, name)
    if not found:
        raise TargetError(f"The store's answer has no {name}.", hint="Is its address that of an S3-compatible store?")
    return found[0]


def _code(response: httpx.Response) -> str:
    """What an error answer calls the error."""
    return next(iter(_texts(_parsed(response), "Code")), "")[:80]
