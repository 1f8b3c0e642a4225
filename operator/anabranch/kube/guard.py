"""Whether reviews on resources can be trusted in this cluster, as of a few seconds ago.

Only admission sees the groups of the person who writes `spec.reviews`, so reviews count only while our admission
policies are in force, unaltered. What "in force" means is `anabranch.manifests.gaps`; this module reads the cluster.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, Final

from anabranch.kube.errors import ObjectNotFoundError, RightMissingError
from anabranch.kube.kinds import POLICY, POLICY_BINDING
from anabranch.manifests import gaps

if TYPE_CHECKING:
    from collections.abc import Callable

    from anabranch.kube.client import KubeClient
    from anabranch.kube.kinds import Kind

FRESH_SECONDS: Final = 15.0


class ReviewGuard:
    """The state of the admission policies, read again when it is older than 15 s.

    Args:
        client: To the API server, as an account that may list the policies and their bindings.
        clock: Seconds, monotonic.

    Attributes:
        changes: How often the answer has changed. Whoever acted on an answer must act again when this moves.
    """

    def __init__(self, client: KubeClient, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._clock = clock
        self._read: tuple[list[str], float] | None = None
        self._reading = asyncio.Lock()
        self.changes = 0

    async def gaps(self) -> list[str]:
        """What is missing of the guard, a sentence each; empty: reviews on resources count.

        Raises:
            UnavailableError: If the API server cannot be asked.
        """
        async with self._reading:
            if self._read is None or self._clock() - self._read[1] > FRESH_SECONDS:
                asked_at = self._clock()
                found = await self._look()
                if self._read is not None and found != self._read[0]:
                    self.changes += 1
                self._read = (found, asked_at)
            return list(self._read[0])

    async def _look(self) -> list[str]:
        try:
            return gaps(await self._all(POLICY), await self._all(POLICY_BINDING))
        except RightMissingError as error:
            return [f"The admission policies cannot be read: {error.detail}"]
        except ObjectNotFoundError:
            return ["This cluster has no ValidatingAdmissionPolicy: it needs Kubernetes 1.30 or later."]

    async def _all(self, kind: Kind) -> list[dict[str, Any]]:
        return [item async for item in self._client.items(kind)]
