"""Looking up a job's locators: each once, several at a time, none for ever.

What the system itself keeps is found in milliseconds; what lies outside may take as long as it is allowed to. So the
two have slots of their own, and of those for outside a job and a line get a share: whoever cites a thousand pages of a
slow host makes its own job slow, and nobody else's.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final, TypeAlias
from weakref import WeakValueDictionary

from anabranch.model.errors import AnabranchError, InvalidInputError
from anabranch.model.locators import Kind, Locator, parse_locator

if TYPE_CHECKING:
    from anabranch.identity import Caller

_log = logging.getLogger(__name__)

OUTSIDE: Final[frozenset[Kind]] = frozenset({"git", "https"})
"""Kinds whose lookups leave the system."""

LOCAL_PARALLEL: Final = 4
"""Lookups in the store at once, of a process. Each takes a connection."""

OUTSIDE_PARALLEL: Final = 16
LINE_PARALLEL: Final = 8
JOB_PARALLEL: Final = 4
"""Lookups outside at once: of a process, of one line, of one job."""

JOB_OUTSIDE: Final = 500
"""Sources outside the system that are looked up for one job at most."""

SECONDS: Final = 20.0
"""Longest that one lookup may take, whatever it does."""


class UnreachableSourceError(AnabranchError):
    """A source could not be asked; that says nothing about whether it exists.

    No outage of the system: the job that cites it uses up its attempts, so that a host which is gone holds nobody up.
    """

    status: ClassVar[int] = 503
    code: ClassVar[str] = "SourceUnreachable"


@dataclass(frozen=True, slots=True, kw_only=True)
class Citation:
    """Who cites: a locator means what it means to this agent, on this branch.

    Attributes:
        line: Of the Baseline that the finding is for.
        namespace: Of that Baseline; grants are asked there.
        branch_id: The branch that submitted the finding.
        agent: Its agent.
    """

    line: str
    namespace: str
    branch_id: str
    agent: Caller


@dataclass(frozen=True, slots=True)
class Found:
    """What a lookup found.

    Attributes:
        verified: Whether the source exists for the agent that cites it.
        detail: Why not, for people; empty when it does.
    """

    verified: bool
    detail: str = ""


_TOO_MANY: Final = Found(
    verified=False,
    detail=f"a job looks up {JOB_OUTSIDE} sources outside the system at most, and this finding's came later; "
    "cite evidence, or submit it in another batch",
)

Resolver: TypeAlias = Callable[[Citation, Locator], Awaitable[Found]]
"""Looks one locator up. Raises `UnreachableSourceError` if it cannot tell."""


class _Slots:
    """Lets so many in at once, of a process and of each line."""

    def __init__(self) -> None:
        self._local = asyncio.Semaphore(LOCAL_PARALLEL)
        self._outside = asyncio.Semaphore(OUTSIDE_PARALLEL)
        self._lines: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    def for_job(self, line: str) -> Callable[[Kind], contextlib.AbstractAsyncContextManager[None]]:
        """A way in for the lookups of one job, by their kind."""
        of_line = self._lines.setdefault(line, asyncio.Semaphore(LINE_PARALLEL))
        of_job = asyncio.Semaphore(JOB_PARALLEL)

        @contextlib.asynccontextmanager
        async def slot(kind: Kind) -> AsyncIterator[None]:
            if kind not in OUTSIDE:
                async with self._local:
                    yield
                return
            # The narrow one first: so a job has no more than its share among those that wait for the wide one.
            async with of_job, of_line, self._outside:
                yield

        return slot


class SourceChecker:
    """Looks locators up by their kind's resolver.

    Args:
        resolvers: One for each kind of locator that may resolve; other kinds never do.
    """

    def __init__(self, resolvers: Mapping[Kind, Resolver]) -> None:
        self._resolvers = resolvers
        self._slots = _Slots()

    async def check(self, citation: Citation, locators: Iterable[str], *, last_try: bool = False) -> dict[str, Found]:
        """Look locators up.

        Args:
            citation: Who cites them.
            locators: Their texts; each is looked up once. Of those that lie outside the system the first 500 are.
            last_try: Whether a source that cannot be asked counts as not verified, instead of holding up its job for
                ever.

        Raises:
            UnreachableSourceError: If some could not be asked, unless ``last_try``.
        """
        found: dict[str, Found] = {}
        known: list[tuple[str, Locator]] = []
        for text in dict.fromkeys(locators):
            try:
                known.append((text, parse_locator(text)))
            except InvalidInputError as error:
                found[text] = Found(verified=False, detail=error.detail)
        outside = [text for text, locator in known if locator.kind in OUTSIDE]
        found |= dict.fromkeys(outside[JOB_OUTSIDE:], _TOO_MANY)
        looking = _Lookups(self._resolvers, citation, self._slots.for_job(citation.line), last_try=last_try)
        wanted = [(text, locator) for text, locator in known if text not in found]
        lookups = [asyncio.ensure_future(looking.look_up(text, locator)) for text, locator in wanted]
        try:
            results = await asyncio.gather(*lookups)
        finally:
            for lookup in lookups:
                lookup.cancel()  # after a defect in one, the others would go on in slots that other jobs wait for
        if looking.unreachable is not None and not last_try:
            raise looking.unreachable
        return found | {text: result for (text, _), result in zip(wanted, results, strict=True)}


class _Lookups:
    """The lookups of one job. Once a source could not be asked, the others are left for the next try as well."""

    def __init__(
        self,
        resolvers: Mapping[Kind, Resolver],
        citation: Citation,
        slot: Callable[[Kind], contextlib.AbstractAsyncContextManager[None]],
        *,
        last_try: bool,
    ) -> None:
        self._resolvers = resolvers
        self._citation = citation
        self._slot = slot
        self._last_try = last_try
        self.unreachable: UnreachableSourceError | None = None

    async def look_up(self, text: str, locator: Locator) -> Found:
        resolve = self._resolvers.get(locator.kind)
        if resolve is None:
            return Found(verified=False, detail=f"a finding cannot cite {locator.kind}: locators here")
        async with self._slot(locator.kind):
            if self.unreachable is not None and not self._last_try:
                return Found(verified=False, detail=self.unreachable.detail)
            try:
                async with asyncio.timeout(SECONDS):
                    return await resolve(self._citation, locator)
            except UnreachableSourceError as error:
                self.unreachable = error
            except TimeoutError:
                _log.warning("Looking up %s took longer than %s s", text, SECONDS)
                self.unreachable = UnreachableSourceError(
                    f"Looking up {text[:200]} took too long.", hint="It is tried again."
                )
            return Found(verified=False, detail=self.unreachable.detail)
