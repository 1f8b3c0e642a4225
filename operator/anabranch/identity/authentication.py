"""Who calls: the API server says whose token it is, and for whom it was meant; of people, an issuer of theirs may.

A token is worth nothing here unless it was minted for this installation's audience, so a token stolen from here opens
nothing elsewhere, and one meant for the API server opens nothing here.

Anybody may send tokens, so what a stranger costs is bounded: what can be seen to be no good is not asked about, no more
than so many strangers wait, and they wait apart from the callers that are known, who are kept apart from refusals too.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import math
import secrets
import time
from typing import TYPE_CHECKING, Final

from anabranch.identity.answers import Answers, Recent
from anabranch.identity.caller import Caller
from anabranch.identity.tokens import LEEWAY_SECONDS, issuer_of, objection
from anabranch.kube.reviews import review_token
from anabranch.model.errors import UnauthenticatedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from anabranch.identity.oidc import People
    from anabranch.kube.client import KubeClient

FRESH_SECONDS: Final = 60.0
REFUSED_SECONDS: Final = 5.0
"""A refusal is kept too, but shortly: a token may become valid, and guessing must not reach the API server."""

STALE_SECONDS: Final = 600.0
"""How old a verified identity may be for the receipt of a batch while the API server cannot be reached."""

WAITING: Final = 1_024
"""Strangers whose tokens are being looked at: a fleet that starts, or a flood. Some 3 s of the API server's work."""

_SIZE: Final = 10_000
_PARALLEL: Final = 24
_PARALLEL_KNOWN: Final = 8


class Identity:
    """Authenticates bearer tokens.

    Args:
        client: To the API server, as an account that may create tokenreviews.
        audience: Of this installation.
        people: Knows people by tokens of another issuer than the cluster; None: there is no such issuer.
        clock: Seconds, monotonic.
        now: Seconds since the epoch.
    """

    def __init__(
        self,
        client: KubeClient,
        *,
        audience: str,
        people: People | None = None,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._client = client
        self._audience = audience
        self._people = people
        self._vouched: dict[str, Caller] = {}
        self._now = now
        self._of_strangers = asyncio.Semaphore(_PARALLEL)
        self._of_known = asyncio.Semaphore(_PARALLEL_KNOWN)
        self._callers: Answers[bytes, Caller] = Answers(
            review="token", fresh=lambda _: FRESH_SECONDS, size=_SIZE, flights=WAITING, clock=clock
        )
        self._refusals: Recent[bytes] = Recent(seconds=REFUSED_SECONDS, size=_SIZE, clock=clock)

    async def authenticate(self, token: str, *, stale: bool = False, anew: bool = False) -> Caller:
        """The caller that a token belongs to, verified at most 60 s ago.

        Args:
            token: The bearer token, without its scheme.
            stale: Take a verification of at most 10 minutes ago while the API server cannot be reached. Only the
                receipt of batches may: publication asks again.
            anew: Take no verification that is remembered: for streams, which look at their token again.

        Raises:
            UnauthenticatedError: If the API server does not accept the token for this audience, or would not; or if it
                is of the people's issuer, and not good.
            UnavailableError: If it cannot be asked.
            BusyError: If the token is new, and too many new ones are being looked at.
        """
        if (vouched := self._vouched.get(token)) is not None:
            return vouched
        if self._people is not None and issuer_of(token) == self._people.issuer:
            return await self._people.caller(token)  # that is a matter of microseconds: nothing is to be remembered
        key = hashlib.sha256(token.encode(errors="replace")).digest()  # the cache must not be a store of credentials
        known = not anew and self._callers.is_fresh(key)  # then the cluster had no objection a minute ago
        if not known and (seen := objection(token, audience=self._audience, now=self._now(), leeway=LEEWAY_SECONDS)):
            raise self._refused(seen)
        if key in self._refusals:
            raise self._refused_by_cluster(token)
        return await self._callers.ask(
            key, lambda: self._review(token, key), stale=STALE_SECONDS if stale else 0.0, anew=anew
        )

    @contextlib.contextmanager
    def vouching(self, caller: Caller) -> Iterator[str]:
        """A token for calls inside this process, as a caller that was verified otherwise; for the length of a block."""
        token = secrets.token_urlsafe(32)
        self._vouched[token] = caller
        try:
            yield token
        finally:
            del self._vouched[token]

    async def _review(self, token: str, key: bytes) -> Caller:
        known = self._callers.last(key, within=math.inf) is not None
        async with self._of_known if known else self._of_strangers:
            user = await review_token(self._client, token, audience=self._audience)
        if user is None:
            self._callers.forget(key)  # what it was before must not be taken for it while the API server is away
            self._refusals.note(key)
            raise self._refused_by_cluster(token)
        return Caller(user.username, user.uid, user.groups, user.extra)

    def _refused_by_cluster(self, token: str) -> UnauthenticatedError:
        seen = objection(token, audience=self._audience, now=self._now())
        return self._refused(
            seen
            or f"The cluster does not accept the token for the audience {self._audience!r}: it is not genuine, or "
            "its ServiceAccount or pod is gone."
        )

    def _refused(self, detail: str) -> UnauthenticatedError:
        return UnauthenticatedError(
            detail,
            hint=f"Mint one: kubectl create token <serviceaccount> --audience {self._audience}; in a pod, read the "
            "mounted token file anew.",
        )
