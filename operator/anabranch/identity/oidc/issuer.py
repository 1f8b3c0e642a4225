"""The issuer, over HTTPS: what it says of itself, the keys that it signs with, and tokens for codes.

It is asked by whoever can send a token or open the pages, so nothing that it answers is waited for, read or followed
without a bound.
"""

from __future__ import annotations

import json
import ssl
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote_plus, urlsplit

import httpx
import jwt
import structlog

from anabranch.identity.oidc.document import Document
from anabranch.model.errors import InvalidInputError, UnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from anabranch.identity.oidc.settings import OidcSettings

TIMEOUT_SECONDS: Final = 5.0
ANSWER_BYTES: Final = 1 << 20
MOST_KEYS: Final = 100
FEWEST_BITS: Final = 2_048
"""Of an RSA key."""

_HINT: Final = "Try again in a moment; agents are served meanwhile. If it stays, look at auth.oidc and at the issuer."
_log = structlog.get_logger(__name__)


class IssuerUnavailableError(UnavailableError):
    """The issuer of people's tokens does not answer, or not with what makes sense."""

    code = "IssuerUnavailable"


@dataclass(frozen=True, slots=True, kw_only=True)
class Metadata:
    """What the issuer says of itself.

    Attributes:
        keys: Where its keys are.
        authorization: Where people log in; empty: nowhere.
        token: Where codes become tokens; empty: nowhere.
        end_session: Where people log out of it; empty: nowhere.
        methods: How clients may show their secret there; empty: as the standard has it, by HTTP Basic.
        names_itself: Whether it says who it is when it sends people back (RFC 9207).
    """

    keys: str
    authorization: str = ""
    token: str = ""
    end_session: str = ""
    methods: tuple[str, ...] = ()
    names_itself: bool = False


class Issuer:
    """One issuer.

    Args:
        settings: Which one.
        clock: Seconds, monotonic.

    Raises:
        InvalidInputError: If its authorities cannot be read.
    """

    def __init__(self, settings: OidcSettings, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._settings = settings
        try:
            ca_file = settings.ca_file
            trusted = ssl.create_default_context(cafile=ca_file) if ca_file else httpx.create_ssl_context()
        except OSError as error:  # what the ssl module raises is one too
            raise InvalidInputError(
                f"The issuer's authorities cannot be read from {settings.ca_file}: {error}.",
                hint="Name a file of PEM certificates as caFile.",
            ) from error
        self._http = httpx.AsyncClient(
            verify=trusted, timeout=TIMEOUT_SECONDS, follow_redirects=False, headers={"Accept": "application/json"}
        )
        self._metadata = Document(self._discover, clock=clock)
        self._keys = Document(self._fetch_keys, clock=clock)

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def metadata(self) -> Metadata:
        """What it says of itself.

        Raises:
            IssuerUnavailableError: If it says nothing, or what makes no sense.
        """
        return await self._metadata.get()

    async def keys(self, key_id: str | None) -> Sequence[Mapping[str, Any]]:
        """Its keys of an id, as JWKs; all of them, if a token names none.

        Raises:
            IssuerUnavailableError: If none are known.
        """
        known = await self._keys.get()
        if key_id is None:
            return known
        found = [key for key in known if key.get("kid") == key_id]
        return found or [key for key in await self._keys.again() if key.get("kid") == key_id]

    async def redeem(self, form: Mapping[str, str]) -> Mapping[str, Any] | None:
        """What the issuer gives for a code; None: it refuses.

        Args:
            form: Of the request, without the client.

        Raises:
            IssuerUnavailableError: If it does not answer.
        """
        known = await self.metadata()
        settings = self._settings
        sent, auth = {**form, "client_id": settings.client_id}, None
        if settings.client_secret_file is not None:
            try:
                secret = settings.client_secret_file.read_text(encoding="utf-8").strip()
            except OSError as error:
                raise IssuerUnavailableError(
                    f"The client's secret cannot be read: {error}.", hint="Mend auth.oidc.clientSecret."
                ) from error
            if "client_secret_basic" not in known.methods and "client_secret_post" in known.methods:
                sent["client_secret"] = secret
            else:
                auth = httpx.BasicAuth(quote_plus(settings.client_id), quote_plus(secret))  # RFC 6749, 2.3.1
        status, answer = await self._ask("POST", known.token, data=sent, auth=auth)
        if status in {httpx.codes.BAD_REQUEST, httpx.codes.UNAUTHORIZED}:
            _log.info("the issuer gives nothing for a code", status=status, error=str(answer.get("error"))[:100])
            return None
        if status != httpx.codes.OK:
            raise self._unavailable(f"answered with {status} at {known.token}")
        return answer

    async def _discover(self) -> Metadata:
        url = f"{self._settings.issuer.rstrip('/')}/.well-known/openid-configuration"
        found = await self._get(url)
        if found.get("issuer") != self._settings.issuer:
            raise self._unavailable(f"says that it is {str(found.get('issuer'))[:200]!r}")
        methods = found.get("token_endpoint_auth_methods_supported")
        return Metadata(
            keys=self._endpoint(found, "jwks_uri", needed=True),
            authorization=self._endpoint(found, "authorization_endpoint"),
            token=self._endpoint(found, "token_endpoint"),
            end_session=self._endpoint(found, "end_session_endpoint"),
            methods=tuple(map(str, methods)) if isinstance(methods, list) else (),
            names_itself=found.get("authorization_response_iss_parameter_supported") is True,
        )

    def _endpoint(self, found: Mapping[str, Any], name: str, *, needed: bool = False) -> str:
        url = found.get(name)
        if url is None and not needed:
            return ""
        if not isinstance(url, str) or urlsplit(url).scheme != "https":
            raise self._unavailable(f"has no https URL as {name}")
        return url

    async def _fetch_keys(self) -> Sequence[Mapping[str, Any]]:
        found = (await self._get((await self._metadata.get()).keys)).get("keys")
        if not isinstance(found, list):
            raise self._unavailable("gives no list of keys")
        return [key for key in found[:MOST_KEYS] if isinstance(key, dict) and _signs(key)]

    async def _get(self, url: str) -> Mapping[str, Any]:
        status, answer = await self._ask("GET", url)
        if status != httpx.codes.OK:
            raise self._unavailable(f"answered with {status} at {url}")
        return answer

    async def _ask(self, method: str, url: str, **options: Any) -> tuple[int, Mapping[str, Any]]:
        """Status and JSON object of an answer."""
        body = bytearray()
        try:
            async with self._http.stream(method, url, **options) as answer:
                async for piece in answer.aiter_bytes():
                    body += piece
                    if len(body) > ANSWER_BYTES:
                        raise self._unavailable(f"answered with more than {ANSWER_BYTES} bytes at {url}")
            found = json.loads(bytes(body)) if answer.status_code < httpx.codes.INTERNAL_SERVER_ERROR else {}
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise self._unavailable(f"cannot be reached at {url}: {str(error) or type(error).__name__}") from error
        except (ValueError, RecursionError) as error:
            if answer.status_code != httpx.codes.OK:
                return answer.status_code, {}
            raise self._unavailable(f"answered with what is no JSON at {url}") from error
        return answer.status_code, found if isinstance(found, dict) else {}

    def _unavailable(self, what: str) -> IssuerUnavailableError:
        return IssuerUnavailableError(f"The issuer {self._settings.issuer} {what}.", hint=_HINT)


def _signs(key: Mapping[str, Any]) -> bool:
    """Whether a JWK is the public key of a pair, for signatures, and long enough."""
    if key.get("kty") not in ("RSA", "EC") or key.get("use", "sig") != "sig":  # a set would have to hash what it is
        return False
    if key["kty"] == "EC":
        return True
    try:
        return int(jwt.PyJWK(dict(key), "RS256").key.key_size) >= FEWEST_BITS
    except jwt.PyJWTError:
        return False
