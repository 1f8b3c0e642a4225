"""The gate in a cluster: people log in at the issuer that the installation trusts, and come back as themselves.

It is the authorization code flow, with PKCE, state and nonce: a code counts only in the browser that set out for it,
once, and for this client. What a browser needs on its way, and who it is afterwards, stand in two sealed cookies, so
any replica answers any request. Both are of this host alone, and out of reach of scripts.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode, urlsplit

import structlog
from starlette.responses import RedirectResponse
from starlette.routing import Route

from anabranch.identity import Caller
from anabranch.identity.oidc.issuer import IssuerUnavailableError
from anabranch.model.errors import AnabranchError, ForbiddenError, UnauthenticatedError
from anabranch.telemetry.of_api import LOGINS
from anabranch.web.guard import Visitor, form
from anabranch.web.sessions import Sealing
from anabranch.web.visit import notice, problem

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import BaseRoute

    from anabranch.identity.oidc import Issuer, OidcSettings, People
    from anabranch.web.desk import Desk

SESSION: Final = "__Host-anabranch"
LOGIN: Final = "__Host-anabranch-login"
"""Browsers take a cookie of such a name only by TLS, for the one host, so no neighbour can plant one."""

LOGIN_SECONDS: Final = 600
"""How long somebody may take to log in."""

_log = structlog.get_logger(__name__)


class NotYoursError(ForbiddenError):
    """What came back from the issuer is not what this browser set out for."""

    code = "NotYourLogin"


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """What logging in takes.

    Attributes:
        settings: The issuer, and where people reach us.
        issuer: To ask it.
        people: Knows its people.
        keys: That sessions are sealed with; the first one seals.
    """

    settings: OidcSettings
    issuer: Issuer
    people: People
    keys: Sequence[bytes]


class LoginGate:
    """Lets in who has logged in at the issuer.

    Args:
        login: What that takes.
        public_url: Where people reach us, without a path.
        base: What all paths of the pages begin with.
        desk: Gives the place from which somebody reads and decides.
    """

    def __init__(self, login: Login, *, public_url: str, base: str, desk: Callable[[Caller], Desk]) -> None:
        settings = login.settings
        self._issuer = login.issuer
        self._people = login.people
        self._settings = settings
        self._desk = desk
        self._base = base
        self._url = f"{public_url}{base}"
        self._host = _plain(urlsplit(public_url).netloc)
        # Claims that are read in another way are other people, and groups.
        meaning = settings.model_dump_json(exclude={"ca_file", "client_secret_file", "scopes", "signing_algs"})
        of = hashlib.sha256(meaning.encode()).hexdigest()
        self._sessions = Sealing(login.keys, f"session {of}", seconds=settings.session_minutes * 60)
        self._logins = Sealing(login.keys, f"login {of}", seconds=LOGIN_SECONDS)

    @property
    def routes(self) -> Sequence[BaseRoute]:
        """Where one logs in, comes back, and logs out."""
        return (
            Route("/login", self._go, methods=["GET"]),
            Route("/callback", self._come_back, methods=["GET"]),
            Route("/logout", self._leave, methods=["POST"]),
            Route("/bye", self._bye, methods=["GET"]),
        )

    def is_ours(self, host: str) -> bool:
        """Whether a Host header has the name that people reach us by."""
        return _plain(host) == self._host

    async def visitor(self, request: Request) -> Visitor | Response:
        """Who has logged in; or the way to log in, for what a person looks at."""
        session = self._sessions.open(request.cookies.get(SESSION, ""))
        if session is not None:
            caller = Caller(session["name"], groups=tuple(session["groups"]))
            return Visitor(desk=self._desk(caller), secret=base64.b64decode(session["secret"]), may_leave=True)
        if request.method not in {"GET", "HEAD"}:
            return self._notice("ended", status=403)
        path = request.url.path.removeprefix(self._base)
        query = f"?{request.url.query}" if request.url.query else ""
        # A page, which leads on by itself: a form of ours may lead to the issuer by no redirect.
        return self._notice("coming", status=403, to=f"{path}{query}")

    async def _go(self, request: Request) -> Response:
        """Send somebody to the issuer."""
        try:
            known = await self._issuer.metadata()
        except IssuerUnavailableError as error:
            return problem(error, base=self._base, person="")
        to = request.query_params.get("to", "/")
        way = {name: secrets.token_urlsafe(32) for name in ("state", "nonce", "verifier")}
        try:
            sealed = self._logins.seal({**way, "to": to if _is_path(to) else "/"})
        except AnabranchError as error:
            return problem(error, base=self._base, person="")
        challenge = hashlib.sha256(way["verifier"].encode()).digest()
        asked = {
            "response_type": "code",
            "client_id": self._settings.client_id,
            "redirect_uri": f"{self._url}/callback",
            "scope": " ".join(dict.fromkeys(["openid", *self._settings.scopes])),
            "state": way["state"],
            "nonce": way["nonce"],
            "code_challenge": base64.urlsafe_b64encode(challenge).decode().rstrip("="),
            "code_challenge_method": "S256",
        }
        joint = "&" if urlsplit(known.authorization).query else "?"
        answer = RedirectResponse(f"{known.authorization}{joint}{urlencode(asked)}", status_code=303)
        _keep(answer, LOGIN, sealed, seconds=LOGIN_SECONDS)
        return answer

    async def _come_back(self, request: Request) -> Response:
        """Take somebody in whom the issuer sends back."""
        way = self._logins.open(request.cookies.get(LOGIN, ""))
        try:
            if way is None or not _same(request.query_params.get("state", ""), way["state"]):
                raise NotYoursError(
                    "This browser has not set out for this login, has come back from it already, or took too long.",
                    hint="Log in anew.",
                )
            caller = await self._caller(request.query_params, way)
            secret = base64.b64encode(secrets.token_bytes(32)).decode()
            sealed = self._sessions.seal({"name": caller.username, "groups": caller.groups, "secret": secret})
        except IssuerUnavailableError as error:
            LOGINS.labels("unavailable").inc()
            return problem(error, base=self._base, person="")
        except AnabranchError as error:
            LOGINS.labels("strange" if isinstance(error, NotYoursError) else "refused").inc()
            _log.info("nobody was let in", code=error.code, reason=error.detail)
            answer = self._notice("refused", status=403, reason=error.detail)
        else:
            LOGINS.labels("let_in").inc()
            answer = RedirectResponse(f"{self._base}{way['to']}", status_code=303)
            _keep(answer, SESSION, sealed, seconds=self._settings.session_minutes * 60)
        _drop(answer, LOGIN)
        return answer

    async def _caller(self, given: Mapping[str, str], way: Mapping[str, Any]) -> Caller:
        """The person whom the issuer vouches for.

        Raises:
            UnauthenticatedError: If it does for nobody, or not as it should.
            IssuerUnavailableError: If it does not answer.
        """
        known = await self._issuer.metadata()
        named = given.get("iss")
        if named != self._settings.issuer and (named is not None or known.names_itself):
            raise UnauthenticatedError("Another issuer has sent you back.")
        if (code := given.get("code", "")) == "":
            raise UnauthenticatedError(
                f"The issuer has not let you in: {given.get('error', 'it gave no reason')[:100]}."
            )
        tokens = await self._issuer.redeem(
            {
                "grant_type": "authorization_code",
                "code": code,
                "redirect_uri": f"{self._url}/callback",
                "code_verifier": way["verifier"],
            }
        )
        token = None if tokens is None else tokens.get("id_token")
        if not isinstance(token, str):
            raise UnauthenticatedError("The issuer gives no token for this login.")
        claims = await self._people.claims(token)
        if not _same(str(claims.get("nonce", "")), way["nonce"]):
            raise UnauthenticatedError("The issuer's token is of another login.")
        if claims.get("azp", self._settings.client_id) != self._settings.client_id:
            raise UnauthenticatedError("The issuer's token was given to another client.")
        return self._people.person(claims)

    async def _leave(self, request: Request) -> Response:
        """Log somebody out of these pages."""
        visitor = await self.visitor(request)
        if isinstance(visitor, Visitor):
            try:
                await form(request, visitor)
            except AnabranchError as error:
                return problem(error, base=self._base, person=visitor.desk.person)
        answer = RedirectResponse(f"{self._base}/bye", status_code=303)
        _drop(answer, SESSION)
        return answer

    async def _bye(self, _request: Request) -> Response:
        """Say that somebody has logged out, and where they have not."""
        end = ""
        try:
            known = await self._issuer.metadata()
        except IssuerUnavailableError:
            pass
        else:
            if known.end_session:
                asked = {"client_id": self._settings.client_id, "post_logout_redirect_uri": f"{self._url}/bye"}
                joint = "&" if urlsplit(known.end_session).query else "?"
                end = f"{known.end_session}{joint}{urlencode(asked)}"
        return self._notice("left", status=200, end_session=end)

    def _notice(self, state: str, *, status: int, to: str = "/", reason: str = "", end_session: str = "") -> Response:
        """A page with the way to log in."""
        login = f"{self._base}/login?{urlencode({'to': to})}"
        return notice(
            "login.html",
            base=self._base,
            status=status,
            state=state,
            login=login,
            reason=reason,
            end_session=end_session,
        )


def _is_path(to: str) -> bool:
    """Whether somebody may be sent there: to a page of ours, by what cannot be read as another host's."""
    return to.startswith("/") and not to.startswith(("//", "/\\")) and to.isprintable() and len(to) < 1_000


def _plain(host: str) -> str:
    return host.lower().removesuffix(":443")


def _same(given: str, expected: str) -> bool:
    return hmac.compare_digest(given.encode(errors="replace"), expected.encode())


def _keep(answer: Response, name: str, value: str, *, seconds: int) -> None:
    # Strict would keep it from the very request by which the issuer sends somebody back.
    answer.set_cookie(name, value, max_age=seconds, path="/", secure=True, httponly=True, samesite="lax")


def _drop(answer: Response, name: str) -> None:
    answer.delete_cookie(name, path="/", secure=True, httponly=True, samesite="lax")
