"""An OpenID Connect issuer on the loopback, by TLS, that does as it should, and on demand as it should not.

People log in by choosing who they are. Its tokens are signed by real keys, and a test may have it sign anything.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import datetime as dt
import hashlib
import html
import ipaddress
import json
import secrets
import socket
import time
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import jwt
import uvicorn
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from starlette.applications import Starlette
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from starlette.requests import Request

CLIENT = "anabranch"
SECRET = "a secret: with % and +"


class Key:
    """A pair of keys that signs by one algorithm."""

    def __init__(self, key_id: str, algorithm: str = "RS256", *, bits: int = 2048) -> None:
        self.key_id, self.algorithm = key_id, algorithm
        if algorithm.startswith("ES"):
            self.private = ec.generate_private_key(ec.SECP256R1())
        else:
            self.private = rsa.generate_private_key(65537, bits)

    @property
    def public(self) -> dict[str, Any]:
        made = jwt.get_algorithm_by_name(self.algorithm).to_jwk(self.private.public_key(), as_dict=True)
        return {**made, "kid": self.key_id, "use": "sig", "alg": self.algorithm}

    @property
    def pem(self) -> bytes:
        """The public one, as somebody would use it who takes it for a shared secret."""
        form = serialization.PublicFormat.SubjectPublicKeyInfo
        return self.private.public_key().public_bytes(serialization.Encoding.PEM, form)

    def sign(self, claims: dict[str, Any], **head: Any) -> str:
        return jwt.encode(claims, self.private, self.algorithm, headers={"kid": self.key_id, **head})


class Issuer:
    """The issuer.

    Attributes:
        keys: That it shows; the first one signs.
        asked: The paths of the requests that came.
        answers: What it answers at some paths instead: a response, or a status.
        claims: What tokens say beside the usual, by person.
    """

    def __init__(self, folder: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.url = f"https://localhost:{self.port}"
        self.ca_file, self._chain = certificate(folder)
        self.keys = [Key("first")]
        self.asked: list[str] = []
        self.answers: dict[str, Response | int] = {}
        self.claims: dict[str, dict[str, Any]] = {}
        self.codes: dict[str, dict[str, str]] = {}
        self.redirects: set[str] = set()
        self._server: uvicorn.Server | None = None
        self._serving: asyncio.Task[None] | None = None

    def usual(self, person: str = "rosa", **claims: Any) -> dict[str, Any]:
        """The claims of a good token; those that are None are left out."""
        now = int(time.time())
        made = {"iss": self.url, "aud": CLIENT, "sub": person, "iat": now, "exp": now + 300}
        made |= self.claims.get(person, {}) | claims
        return {name: value for name, value in made.items() if value is not None}

    def token(self, person: str = "rosa", **claims: Any) -> str:
        return self.keys[0].sign(self.usual(person, **claims))

    def settings(self, **more: Any) -> dict[str, Any]:
        """How an installation is told of it."""
        return {"issuer": self.url, "clientId": CLIENT, "caFile": str(self.ca_file), **more}

    async def start(self) -> None:
        routes = [Route("/{path:path}", self._answer, methods=["GET", "POST"])]
        config = uvicorn.Config(
            Starlette(routes=routes),
            host="127.0.0.1",
            port=self.port,
            ssl_certfile=str(self._chain),
            log_config=None,
            lifespan="off",
            ws="none",
            timeout_graceful_shutdown=1,
        )
        self._server = uvicorn.Server(config)
        self._server.config.load()
        self._serving = asyncio.create_task(self._server._serve())
        while not self._server.started:  # noqa: ASYNC110  (uvicorn has no event for it)
            await asyncio.sleep(0.01)

    async def stop(self) -> None:
        if self._server is not None:
            self._server.should_exit = self._server.force_exit = True
            await self._serving
            self._server = None

    async def _answer(self, request: Request) -> Response:
        path = request.url.path
        self.asked.append(path)
        if (told := self.answers.get(path)) is not None:
            return Response(status_code=told) if isinstance(told, int) else told
        answer = {
            "/.well-known/openid-configuration": self._about,
            "/keys": self._keys,
            "/login": self._login,
            "/token": self._token,
            "/logout": self._logout,
        }.get(path)
        return Response(status_code=404) if answer is None else await answer(request)

    async def _about(self, _request: Request) -> Response:
        return JSONResponse(
            {
                "issuer": self.url,
                "jwks_uri": f"{self.url}/keys",
                "authorization_endpoint": f"{self.url}/login",
                "token_endpoint": f"{self.url}/token",
                "end_session_endpoint": f"{self.url}/logout",
                "authorization_response_iss_parameter_supported": True,
            }
        )

    async def _keys(self, _request: Request) -> Response:
        return JSONResponse({"keys": [key.public for key in self.keys]})

    async def _login(self, request: Request) -> Response:
        """A form with one button for each person; or what comes of pressing it."""
        asked = dict(request.query_params)
        assert asked["response_type"] == "code"
        assert asked["code_challenge_method"] == "S256"
        assert asked["client_id"] == CLIENT
        assert "openid" in asked["scope"].split()
        if asked["redirect_uri"] not in self.redirects:
            return Response("unknown redirect_uri", status_code=400)
        person = asked.pop("person", None)
        if person is None:
            fields = "".join(
                f'<input type="hidden" name="{html.escape(name)}" value="{html.escape(value)}">'
                for name, value in asked.items()
            )
            buttons = "".join(f'<button name="person" value="{who}">{who}</button>' for who in sorted(self.claims))
            return HTMLResponse(
                f"<!doctype html><html lang=en><title>Who are you?</title><form>{fields}{buttons}</form>"
            )
        code = self.code(person, asked)
        back = {"code": code, "state": asked["state"], "iss": self.url}
        return RedirectResponse(f"{asked['redirect_uri']}?{urlencode(back)}", status_code=303)

    def code(self, person: str, asked: dict[str, str]) -> str:
        code = secrets.token_urlsafe()
        self.codes[code] = {**asked, "person": person}
        return code

    async def _token(self, request: Request) -> Response:
        async with request.form() as form:
            given = dict(form)
        basic = base64.b64decode(request.headers.get("authorization", "").removeprefix("Basic ")).decode()
        if basic != f"{CLIENT}:a+secret%3A+with+%25+and+%2B":
            return JSONResponse({"error": "invalid_client"}, status_code=401)
        asked = self.codes.pop(given["code"], None)
        challenge = base64.urlsafe_b64encode(hashlib.sha256(given["code_verifier"].encode()).digest()).decode()
        if (
            asked is None
            or given["grant_type"] != "authorization_code"
            or given["redirect_uri"] != asked["redirect_uri"]
            or challenge.rstrip("=") != asked["code_challenge"]
        ):
            return JSONResponse({"error": "invalid_grant"}, status_code=400)
        token = self.token(asked["person"], **{"nonce": asked["nonce"], **self.claims[asked["person"]]})
        return JSONResponse({"id_token": token, "access_token": "x", "token_type": "Bearer"})

    async def _logout(self, _request: Request) -> Response:
        return HTMLResponse("<!doctype html><html lang=en><title>Gone</title><h1>Logged out of all</h1>")


@contextlib.asynccontextmanager
async def running(folder: Path) -> AsyncIterator[Issuer]:
    """An issuer, for the length of a block."""
    issuer = Issuer(folder)
    await issuer.start()
    try:
        yield issuer
    finally:
        await issuer.stop()


def forged(claims: dict[str, Any], **head: Any) -> str:
    """A token with any head, and no signature."""
    parts = ({"alg": "none", **head}, claims)
    return ".".join([*(base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts), ""])


def certificate(folder: Path) -> tuple[Path, Path]:
    """Files of a certificate for the loopback that vouches for itself; and of that with its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "an issuer")])
    now = dt.datetime.now(dt.UTC)
    names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    ca, chain = folder / "issuer-ca.crt", folder / "issuer.pem"
    pem = serialization.Encoding.PEM
    ca.write_bytes(made.public_bytes(pem))
    secret = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    chain.write_bytes(made.public_bytes(pem) + secret)
    return ca, chain
