"""Leadership by a Kubernetes Lease: one process of several does the work that would otherwise be done twice.

It saves work and nothing else. Two processes may both believe to lead for a moment (a paused process does not know that
time went by), so whatever must not happen twice is fenced in Postgres. The kubernetes library's elector is left aside:
it measures by the wall clock, ends at the first broken connection, and never gives a Lease back, so that each restart
would wait for it to run out.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import structlog

from anabranch.kube.errors import AlreadyExistsError, ObjectNotFoundError, StaleObjectError
from anabranch.kube.kinds import LEASE
from anabranch.model.errors import AnabranchError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from anabranch.kube.client import KubeClient

_log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Pace:
    """Seconds: how long a Lease holds, until when the holder must have renewed it, and how often everybody tries.

    Shorter than the usual 15, 10 and 2: a process that is killed gives nothing back, and its successor waits for this.
    """

    duration: int = 9
    renew_deadline: float = 6.0
    retry: float = 2.0

    @classmethod
    def of(cls, duration: int) -> Pace:
        """The pace of a Lease that holds so long, in the proportions of the usual one."""
        return cls(duration=duration, renew_deadline=duration * 2 / 3, retry=duration * 2 / 9)


DEFAULT_PACE: Final = Pace()
LONGEST_SECONDS: Final = 60
"""That a Lease may hold: what says longer was written by somebody's hand, and would keep everybody from leading."""


class Leadership:
    """A claim to lead, held through one Lease object.

    Args:
        client: To the API server.
        namespace: Of the Lease.
        name: Of the Lease; processes that share it compete.
        identity: Of this process, unique.
        pace: Of renewal.
        fit: Whether this process could do the work now. One that is not neither takes the Lease nor keeps it.
    """

    def __init__(  # noqa: PLR0913  (all by keyword but the client)
        self,
        client: KubeClient,
        *,
        namespace: str,
        name: str,
        identity: str,
        pace: Pace = DEFAULT_PACE,
        fit: Callable[[], bool] = lambda: True,
    ) -> None:
        self._client = client
        self._namespace = namespace
        self._name = name
        self._identity = identity
        self._pace = pace
        self._fit = fit
        self._renewed_at: float | None = None
        self._heard_at: float | None = None  # the API server's last answer about the Lease
        self._seen: tuple[str, float, float] | None = None  # another holder's record, since when, and for how long
        self._changed = asyncio.Condition()

    @property
    def leading(self) -> bool:
        """Whether the Lease is ours for now: renewed not longer ago than the deadline.

        The deadline is shorter than the Lease, so a write that is begun while this holds, and bounded by the
        difference, ends before another process leads.
        """
        return self._renewed_at is not None and self._now() - self._renewed_at < self._pace.renew_deadline

    @property
    def margin(self) -> float:
        """Seconds by which a write that is begun while this process leads must end (see `leading`)."""
        return self._pace.duration - self._pace.renew_deadline

    @property
    def reached(self) -> bool:
        """Whether the API server has answered lately, about the Lease at least, to a leader and to a stand-by alike."""
        return self._heard_at is not None and self._now() - self._heard_at < self._pace.renew_deadline

    async def acquired(self) -> None:
        """Wait until this process leads."""
        async with self._changed:
            await self._changed.wait_for(lambda: self.leading)

    async def lost(self) -> None:
        """Wait until this process does not lead."""
        while self.leading:
            async with self._changed:
                # Nobody tells when the deadline passes, so look again then.
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(self._pace.retry):
                        await self._changed.wait()

    @contextlib.asynccontextmanager
    async def campaign(self) -> AsyncIterator[None]:
        """Compete in the background while the block runs, and give the Lease back at its end."""
        task = asyncio.create_task(self._compete(), name="leader election")
        try:
            yield
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
            await self._release()

    async def _compete(self) -> None:
        told = False
        while True:
            try:
                async with asyncio.timeout(self._pace.renew_deadline / 2):
                    await self._try()
            except (AnabranchError, TimeoutError) as error:
                _log.warning("lease not renewed", lease=self._name, error=str(error))
            if self.leading != told:
                told = self.leading
                _log.info("leading" if self.leading else "not leading", lease=self._name, identity=self._identity)
                async with self._changed:
                    self._changed.notify_all()
            await asyncio.sleep(self._pace.retry)

    async def _try(self) -> None:
        """Take, keep or leave the Lease, by what it says now."""
        began = self._now()
        try:
            lease = await self._client.find(LEASE, namespace=self._namespace, name=self._name)
            self._heard_at = self._now()
            if not self._fit() or (lease is None and self._is_held()):
                self._renewed_at = None
                return
            if lease is None:
                body = {"metadata": {"name": self._name}, "spec": self._spec({})}
                await self._client.create(LEASE, body, namespace=self._namespace)
            elif self._may_take(spec := lease.get("spec", {})):
                await self._client.replace(LEASE, {**lease, "spec": self._spec(spec)}, namespace=self._namespace)
            else:
                self._renewed_at = None
                return
        except (AlreadyExistsError, StaleObjectError, ObjectNotFoundError) as error:
            # Somebody else was faster, or the Lease went away in between: look again at the next turn. Its namespace
            # may be missing too, which the log then tells.
            _log.debug("lease changed meanwhile", lease=self._name, error=str(error))
            return
        self._renewed_at = began

    def _may_take(self, spec: dict[str, Any]) -> bool:
        """Whether the Lease is ours, free, or was not renewed for its whole duration as *we* measured it.

        Clocks of two hosts differ, so another holder's times are compared with themselves only.
        """
        holder = spec.get("holderIdentity") or ""
        if holder in {"", self._identity}:
            self._seen = None
            return True
        record = f"{holder} {spec.get('renewTime')}"
        since = self._seen[1] if self._seen is not None and self._seen[0] == record else self._now()
        seconds = min(float(spec.get("leaseDurationSeconds") or self._pace.duration), LONGEST_SECONDS)
        self._seen = (record, since, seconds)
        return not self._is_held()

    def _is_held(self) -> bool:
        """Whether another holder's Lease, as it was seen last, has not run out: it may have been deleted since.

        Its holder does not know of that yet, and makes it anew when it looks.
        """
        return self._seen is not None and self._now() - self._seen[1] <= self._seen[2]

    def _spec(self, before: dict[str, Any]) -> dict[str, Any]:
        now = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
        held = before.get("holderIdentity") == self._identity
        return {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": self._pace.duration,
            "acquireTime": (before.get("acquireTime") if held else None) or now,
            "renewTime": now,
            "leaseTransitions": int(before.get("leaseTransitions") or 0) + (0 if held else 1),
        }

    async def _release(self) -> None:
        """Leave the Lease without a holder, so that the next process need not wait for it to run out."""
        self._renewed_at = None
        with contextlib.suppress(AnabranchError):
            lease = await self._client.find(LEASE, namespace=self._namespace, name=self._name)
            if lease is not None and lease.get("spec", {}).get("holderIdentity") == self._identity:
                spec = {**lease["spec"], "holderIdentity": "", "leaseDurationSeconds": 1}
                await self._client.replace(LEASE, {**lease, "spec": spec}, namespace=self._namespace)

    def _now(self) -> float:
        return asyncio.get_running_loop().time()
