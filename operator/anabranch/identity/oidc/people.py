"""People by their ID tokens: a signature of the issuer, made for this client, in its time; then a user with groups.

Claims and prefixes mean what they mean to the API server, with one difference: what begins with ``system:`` is the
cluster's own, and no issuer is believed to have it. An agent is known by such a name, and an issuer where people choose
theirs would otherwise make agents of them.
"""

from __future__ import annotations

import json
import math
import time
from typing import TYPE_CHECKING, Any, Final, TypeGuard

import jwt

from anabranch.identity.caller import Caller
from anabranch.model.errors import UnauthenticatedError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from anabranch.identity.oidc.issuer import Issuer
    from anabranch.identity.oidc.settings import OidcSettings

LEEWAY_SECONDS: Final = 30.0
"""Clocks differ: so much before its time a token is taken. After its time it is not."""

EVERYBODY: Final = "system:authenticated"
"""The group that the API server gives to everybody whom it knows."""

RESERVED: Final = "system:"

_KINDS: Final = frozenset(("", "jwt", "application/jwt"))
"""What the head of an ID token may call it. An access token or a logout token is none, and says so."""


class People:
    """Knows people by tokens of one issuer.

    Args:
        settings: What its claims mean.
        issuer: To ask for its keys.
        now: Seconds since the epoch.
    """

    def __init__(self, settings: OidcSettings, issuer: Issuer, *, now: Callable[[], float] = time.time) -> None:
        self._settings = settings
        self._issuer = issuer
        self._now = now

    @property
    def issuer(self) -> str:
        """Whose tokens these are, as they name it."""
        return self._settings.issuer

    async def caller(self, token: str) -> Caller:
        """The person whom a token stands for.

        Raises:
            UnauthenticatedError: If it is not genuine, not for this client, or not of this time.
            IssuerUnavailableError: If the issuer's keys are not known and cannot be asked for.
        """
        return self.person(await self.claims(token))

    async def claims(self, token: str) -> Mapping[str, Any]:
        """What a genuine token of this time says.

        Raises:
            UnauthenticatedError: As `caller`.
            IssuerUnavailableError: As `caller`.
        """
        try:
            head = jwt.get_unverified_header(token)
        except jwt.PyJWTError as error:
            raise _refused(f"The token cannot be read: {error}.") from None
        algorithm, kind = head.get("alg"), head.get("typ", "")
        if algorithm not in self._settings.signing_algs:  # before all else: `none` and shared secrets are none of them
            raise _refused(
                f"The token is signed by {str(algorithm)[:20]!r}, which auth.oidc.signingAlgs does not have."
            )
        if not isinstance(kind, str) or kind.lower() not in _KINDS:
            raise _refused(f"The token is no ID token, but {str(kind)[:40]!r}.")
        for key in await self._issuer.keys(head.get("kid")):
            if key.get("alg", algorithm) != algorithm:
                continue
            try:
                payload = jwt.PyJWS().decode(token, jwt.PyJWK(dict(key), algorithm), algorithms=[algorithm])
            except (jwt.InvalidSignatureError, jwt.InvalidKeyError, jwt.PyJWKError):
                continue
            except jwt.PyJWTError as error:
                raise _refused(f"The token is no good: {error}.") from None
            return self._checked(payload)
        raise _refused("The token is not signed by any key that its issuer has.")

    def person(self, claims: Mapping[str, Any]) -> Caller:
        """The person whom claims name.

        Raises:
            UnauthenticatedError: If they name nobody.
        """
        settings = self._settings
        name = claims.get(settings.username_claim)
        if not isinstance(name, str) or not name:
            raise _refused(f"The token has no text as its claim {settings.username_claim!r}.")
        # As the API server has it: absent will do, anything but true will not.
        if settings.username_claim == "email" and claims.get("email_verified", True) is not True:
            raise _refused("The issuer has not verified the address of this person.")
        for claim, wanted in settings.required_claims.items():
            if claims.get(claim) != wanted:
                raise _refused(f"The token's claim {claim!r} is not {wanted!r}.")
        username = f"{settings.prefix}{name}"
        if username.startswith(RESERVED):
            raise _refused(f"The name {username[:100]!r} is one of the cluster's own.")
        groups = [f"{settings.groups_prefix}{group}" for group in _texts(claims, settings.groups_claim)]
        return Caller(username, groups=(*(group for group in groups if not group.startswith(RESERVED)), EVERYBODY))

    def _checked(self, payload: bytes) -> Mapping[str, Any]:
        """The claims, unless they are another issuer's, another client's, or of another time."""
        try:
            claims = json.loads(payload)
        except (ValueError, RecursionError):
            claims = None
        if not isinstance(claims, dict):
            raise _refused("The token has no claims.")
        if claims.get("iss") != self._settings.issuer:
            raise _refused("The token is of another issuer.")
        meant_for = claims.get("aud")
        if self._settings.client_id not in (meant_for if isinstance(meant_for, list) else [meant_for]):
            raise _refused(f"The token is not meant for the client {self._settings.client_id!r}.")
        now = self._now()
        expiry, begin = claims.get("exp"), claims.get("nbf", 0)
        if not _is_time(expiry) or not _is_time(begin):
            raise _refused("The token does not say when it is good.")
        if now >= expiry:
            raise _refused("The token has expired.")
        if now + LEEWAY_SECONDS < begin:
            raise _refused("The token is not good yet.")
        return claims


def _texts(claims: Mapping[str, Any], claim: str) -> list[str]:
    """The texts of a claim that may be one or many.

    Raises:
        UnauthenticatedError: If it is something else.
    """
    found = claims.get(claim) if claim else None
    if found is None:
        return []
    many = found if isinstance(found, list) else [found]
    if not all(isinstance(each, str) for each in many):
        raise _refused(f"The token's claim {claim!r} is no list of texts.")
    return many


def _is_time(value: Any) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _refused(detail: str) -> UnauthenticatedError:
    return UnauthenticatedError(detail, hint="Log in at the issuer again, as a client of this installation.")
