"""What a caller may do: asked of the cluster's authorizers by SubjectAccessReview, and remembered for five seconds.

Five seconds bound how long a revoked grant still works. Each distinct question is asked once at a time, however many
requests and streams wait for it.

A no counts only from an API server that had said before that it is ready: one that has just started serves before it
knows every role and binding, and a no that it gave for lack of them would end streams, and branches, for good.
"""

from __future__ import annotations

import asyncio
import math
import time
from typing import TYPE_CHECKING, Final

from anabranch.identity import grants
from anabranch.identity.answers import Answers
from anabranch.kube.reviews import Action, review_access
from anabranch.model.errors import ForbiddenError, NotFoundError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from anabranch.identity.caller import Caller
    from anabranch.identity.grants import Grant
    from anabranch.kube.client import KubeClient

FRESH_SECONDS: Final = 5.0
STALE_SECONDS: Final = 600.0
"""As for identities: for the receipt of a batch, while the API server cannot be reached."""

_SIZE: Final = 50_000
_FLIGHTS: Final = 10_000
_PARALLEL: Final = 32
"""Beyond this many at once the API server answers no faster."""

_READY_SECONDS: Final = 1.0
"""How long an API server that was ready is taken for the one that answers: none ends and starts anew in that time."""


class Grants:
    """Answers whether a caller holds a grant.

    Args:
        client: To the API server, as an account that may create subjectaccessreviews.
        clock: Seconds, monotonic.
    """

    def __init__(self, client: KubeClient, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._clock = clock
        self._ready_at = -math.inf
        self._questions = asyncio.Semaphore(_PARALLEL)
        self._answers: Answers[tuple[Caller, Action], bool] = Answers(
            review="access", fresh=lambda _: FRESH_SECONDS, size=_SIZE, flights=_FLIGHTS, clock=clock
        )

    async def allowed(  # noqa: PLR0913  (all but the question by keyword)
        self,
        caller: Caller,
        grant: Grant,
        *,
        namespace: str,
        name: str = "",
        stale: bool = False,
        anew: bool = False,
    ) -> bool:
        """Whether a caller holds a grant, as of at most 5 s ago.

        Args:
            caller: Whose grant.
            grant: A row of the table.
            namespace: Of the object; for scopes and agents, of the Baseline or Branch they are used with.
            name: Of the object, scope or agent; empty: of every one there.
            stale: Take an answer of at most 10 minutes ago while the API server cannot be reached (see `Identity`).
            anew: Take none that is remembered: for streams, which outlive the answer that began them.

        Raises:
            UnavailableError: If the API server cannot be asked.
        """
        action = Action(verb=grant.verb, resource=grant.resource, namespace=namespace, name=name)
        return await self._answers.ask(
            (caller, action), lambda: self._review(caller, action), stale=STALE_SECONDS if stale else 0.0, anew=anew
        )

    async def require(  # noqa: PLR0913  (all but the question by keyword)
        self,
        caller: Caller,
        grant: Grant,
        *,
        namespace: str,
        name: str = "",
        stale: bool = False,
        anew: bool = False,
    ) -> None:
        """Refuse a caller who lacks a grant.

        Raises:
            ForbiddenError: Naming the grant, if the caller may know that the object exists.
            NotFoundError: If not: to them it is absent, in the words that an absent object has.
            UnavailableError: If the API server cannot be asked.
        """
        if await self.allowed(caller, grant, namespace=namespace, name=name, stale=stale, anew=anew):
            return
        seen_by = grant.seen_by
        hidden = grant.named in {"baseline", "job", "branch"} and (
            seen_by is None or not await self.allowed(caller, seen_by, namespace=namespace, name=name, stale=stale)
        )
        if hidden:
            raise absent(grant.named, namespace=namespace, name=name)
        of = f" {name!r}" if name else ""
        raise ForbiddenError(
            f"{caller.username} lacks the verb `{grant.verb}` on `{grant.resource}`{of} in namespace {namespace}.",
            hint=f"Ask for a Role that allows it: it lets one {grant.what}.",
            grant=f"{grant.resource}:{grant.verb}",
        )

    async def scopes(
        self, caller: Caller, grant: Grant, *, namespace: str, scopes: Iterable[str], anew: bool = False
    ) -> list[str]:
        """Those of some scopes on which a caller holds a grant, in their order.

        Args:
            caller: Whose grants.
            grant: One of the rows of scopes.
            namespace: Of the Baseline.
            scopes: Names.
            anew: As in `allowed`.

        Raises:
            UnavailableError: If the API server cannot be asked.
        """
        wanted = list(scopes)
        if not wanted:
            return []
        # A Role without resourceNames covers every scope.
        if await self.allowed(caller, grant, namespace=namespace, anew=anew):
            return wanted
        held = await asyncio.gather(
            *(self.allowed(caller, grant, namespace=namespace, name=scope, anew=anew) for scope in wanted)
        )
        return [scope for scope, holds in zip(wanted, held, strict=True) if holds]

    async def readable_scopes(
        self, caller: Caller, *, namespace: str, scopes: Iterable[str], anew: bool = False
    ) -> list[str]:
        """Those of some scopes whose records a caller may read."""
        return await self.scopes(caller, grants.SCOPE_READ, namespace=namespace, scopes=scopes, anew=anew)

    async def _review(self, caller: Caller, action: Action) -> bool:
        async with self._questions:
            asked_at = self._clock()
            allowed = await review_access(self._client, caller, action)
            if not allowed and not 0 <= asked_at - self._ready_at <= _READY_SECONDS:
                await self._client.check_ready()
                self._ready_at = self._clock()
                allowed = await review_access(self._client, caller, action)
            return allowed


def absent(what: str, *, namespace: str, name: str) -> NotFoundError:
    """What is said of an object that is absent, and of one that the caller may not know of: the same words."""
    return NotFoundError(
        f"There is no {what} {namespace}/{name}, or you may not see it.",
        hint="Check the name and the namespace, then ask for the grant.",
    )
