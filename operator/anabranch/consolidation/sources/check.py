"""Looking up a job's locators: each once, several at a time, none for ever."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final, TypeAlias

from anabranch.model.errors import AnabranchError, InvalidInputError
from anabranch.model.locators import Kind, Locator, parse_locator

if TYPE_CHECKING:
    from anabranch.identity import Caller

_log = logging.getLogger(__name__)

PARALLEL: Final = 8
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


Resolver: TypeAlias = Callable[[Citation, Locator], Awaitable[Found]]
"""Looks one locator up. Raises `UnreachableSourceError` if it cannot tell."""


class SourceChecker:
    """Looks locators up by their kind's resolver.

    Args:
        resolvers: One for each kind of locator that may resolve; other kinds never do.
    """

    def __init__(self, resolvers: Mapping[Kind, Resolver]) -> None:
        self._resolvers = resolvers
        self._slots = asyncio.Semaphore(PARALLEL)

    async def check(self, citation: Citation, locators: Iterable[str], *, last_try: bool = False) -> dict[str, Found]:
        """Look locators up.

        Args:
            citation: Who cites them.
            locators: Their texts; each is looked up once.
            last_try: Whether a source that cannot be asked counts as not verified, instead of holding up its job for
                ever.

        Raises:
            UnreachableSourceError: If some could not be asked, unless ``last_try``.
        """
        texts = list(dict.fromkeys(locators))
        found = await asyncio.gather(*(self._look_up(citation, text) for text in texts))
        unreachable = [finding for finding in found if isinstance(finding, UnreachableSourceError)]
        if unreachable and not last_try:
            raise unreachable[0]
        return {
            text: finding if isinstance(finding, Found) else Found(verified=False, detail=finding.detail)
            for text, finding in zip(texts, found, strict=True)
        }

    async def _look_up(self, citation: Citation, text: str) -> Found | UnreachableSourceError:
        try:
            locator = parse_locator(text)
        except InvalidInputError as error:
            return Found(verified=False, detail=error.detail)
        resolve = self._resolvers.get(locator.kind)
        if resolve is None:
            return Found(verified=False, detail=f"a finding cannot cite {locator.kind}: locators here")
        async with self._slots:
            try:
                async with asyncio.timeout(SECONDS):
                    return await resolve(citation, locator)
            except UnreachableSourceError as error:
                return error
            except TimeoutError:
                _log.warning("Looking up %s took longer than %s s", text, SECONDS)
                return UnreachableSourceError(f"Looking up {text[:200]} took too long.", hint="It is tried again.")
