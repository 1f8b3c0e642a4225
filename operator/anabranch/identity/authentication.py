"""Who calls: the API server says whose token it is, and for whom it was meant.

A token is worth nothing here unless it was minted for this installation's audience, so a token stolen from here opens
nothing elsewhere, and one meant for the API server opens nothing here.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from typing import TYPE_CHECKING, Final

from anabranch.identity.answers import Answers
from anabranch.identity.caller import Caller
from anabranch.kube.errors import RightMissingError
from anabranch.kube.reviews import review_token
from anabranch.model.errors import UnauthenticatedError, UnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable

    from anabranch.kube.client import KubeClient

FRESH_SECONDS: Final = 60.0
REFUSED_SECONDS: Final = 5.0
"""A refusal is kept too, but shortly: a token may become valid, and guessing must not reach the API server."""

STALE_SECONDS: Final = 600.0
"""How old a verified identity may be for the receipt of a batch while the API server cannot be reached."""

_SIZE: Final = 10_000
_PARALLEL: Final = 32
_TOKEN_BYTES: Final = 16_384


class Identity:
    """Authenticates bearer tokens.

    Args:
        client: To the API server, as an account that may create tokenreviews.
        audience: Of this installation.
        clock: Seconds, monotonic.
    """

    def __init__(self, client: KubeClient, *, audience: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._audience = audience
        self._questions = asyncio.Semaphore(_PARALLEL)
        self._answers: Answers[bytes, Caller | None] = Answers(fresh=_fresh, size=_SIZE, clock=clock)

    async def authenticate(self, token: str, *, stale: bool = False) -> Caller:
        """The caller that a token belongs to, verified at most 60 s ago.

        Args:
            token: The bearer token, without its scheme.
            stale: Take a verification of at most 10 minutes ago while the API server cannot be reached. Only the
                receipt of batches may: publication asks again.

        Raises:
            UnauthenticatedError: If the API server does not accept the token for this audience.
            UnavailableError: If it cannot be asked.
        """
        if not token or len(token) > _TOKEN_BYTES:
            raise self._refused()
        key = hashlib.sha256(token.encode(errors="replace")).digest()  # the cache must not be a store of credentials
        try:
            caller = await self._answers.ask(key, lambda: self._review(token))
        except RightMissingError:
            raise
        except UnavailableError:
            known = self._answers.last(key, within=STALE_SECONDS) if stale else None
            if known is None:
                raise
            (caller,) = known
        if caller is None:
            raise self._refused()
        return caller

    async def _review(self, token: str) -> Caller | None:
        async with self._questions:
            user = await review_token(self._client, token, audience=self._audience)
        return None if user is None else Caller(user.username, user.uid, user.groups, user.extra)

    def _refused(self) -> UnauthenticatedError:
        return UnauthenticatedError(
            f"The token is missing, expired, or not meant for the audience {self._audience!r}.",
            hint=f"Mint one: kubectl create token <serviceaccount> --audience {self._audience}.",
        )


def _fresh(caller: Caller | None) -> float:
    return FRESH_SECONDS if caller is not None else REFUSED_SECONDS
