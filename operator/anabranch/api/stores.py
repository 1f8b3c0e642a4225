"""The databases of an installation, and which of them a line lies in.

Every database is a `Store`, with all that reads from it or writes to it in this process. A line lies in one of them and
never moves, so where it was found once is where it is looked for first; it is looked for in all of them at once when a
process meets it for the first time, or when it is not there any more. A store that is away takes nothing with it but
its own lines. What cannot be told while it is away, such as that something is nowhere, is not told.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeVar

import structlog

from anabranch.api.asking import Asking, LateError
from anabranch.api.known import Known
from anabranch.feed.live import Live
from anabranch.feed.poll import Feed
from anabranch.feed.waking import Waking
from anabranch.model.errors import AnabranchError, UnavailableError
from anabranch.search.asking import Searcher
from anabranch.store import migrate
from anabranch.store.reader import Reader
from anabranch.store.receiver import Receiver
from anabranch.store.severable import Severable

T = TypeVar("T")

PLACES: Final = 20_000
"""Lines, Baselines, branches and jobs whose store is remembered; the least recently used ones go first."""

LOOK_SECONDS: Final = 1.0
"""How long those stores that have not answered are waited for, where another one has what was looked for."""

GIVE_UP_SECONDS: Final = 5.0
"""Likewise, where none has."""

CHECK_SECONDS: Final = 2.0
"""From one look at whether a store is there to the next."""

_CHECK_TIMEOUT: Final = 3.0

_SILENT: Final = 2
"""Looks in a row that a store has not answered, before whoever waits for it is let go: it may have been slow once."""

_log = structlog.get_logger(__name__)


@dataclass(slots=True, kw_only=True, eq=False)
class Store:
    """One database, and what this process does with it.

    Attributes:
        name: As Baselines name it.
        db: The database, as the API's role.
        receiver: Receives batches, those of the same moment together.
        reader: Reads records, those of the same moment together.
        searcher: Searches, some at once.
        waking: Wakes those that wait for a line's feed.
        feed: Reads feeds.
        live: Streams them.
        fault: Why nothing new is looked for in it just now; None: it answers. Kept only where there are several.
        silent: Looks in a row that it has not answered. Likewise.
    """

    name: str
    db: Severable
    receiver: Receiver
    reader: Reader
    searcher: Searcher
    waking: Waking
    feed: Feed
    live: Live
    fault: AnabranchError | None = None
    silent: int = 0

    async def check(self) -> None:
        """Find out whether it answers, and has this release's schema.

        Raises:
            AnabranchError: If not.
        """
        async with self.db.answers() as conn:
            await migrate.check(conn)


class Stores:
    """All of them.

    Args:
        stores: The first one is the default.
    """

    def __init__(self, stores: Sequence[Store]) -> None:
        self._stores = tuple(stores)
        self._places: Known[Store] = Known(size=PLACES)
        self._asking = Asking()

    def __iter__(self) -> Iterator[Store]:
        """Each of them, the default first."""
        return iter(self._stores)

    def __len__(self) -> int:
        """How many there are."""
        return len(self._stores)

    @property
    def default(self) -> Store:
        """Where Baselines lie that name no other, and all that belongs to agents."""
        return self._stores[0]

    @property
    def ending(self) -> bool:
        """Whether the process is about to end."""
        return self.default.waking.ending

    def end(self) -> None:
        """Let those who wait go: the process is about to end."""
        for store in self._stores:
            store.waking.end()

    async def find(self, ref: str, look: Callable[[Store], Awaitable[T | None]]) -> tuple[Store, T] | None:
        """What is in one of the stores, and in which.

        Args:
            ref: The same for the same thing: its store is remembered under it.
            look: Reads it from a store; None: it is not there.

        Raises:
            UnavailableError: If it was not found, and not all could be asked; or if it was found twice, which is so
                until a store has noted that what it had is deleted.
        """
        if len(self._stores) == 1:
            found = await look(self.default)
            return None if found is None else (self.default, found)
        before = self._places.get(ref)
        if before is not None and before.fault is None:
            answers = await self._asking.ask({before: partial(look, before)}, within=GIVE_UP_SECONDS)
            if (found := _said(before, answers[before])) is not None:
                return before, found
            self._places.forget(ref)
        met = await self._look(ref, look)
        if met is not None:
            self._places.keep(ref, met[0])
        return met

    async def each(self, look: Callable[[Store], Awaitable[T]]) -> list[tuple[Store, T]]:
        """What all of them say; where there are several, those that do not answer at once are not waited for.

        Raises:
            UnavailableError: If one of them does not answer: what the others say is not all.
        """
        if len(self._stores) == 1:
            return [(self.default, await look(self.default))]
        answers = await self._ask(look, within=GIVE_UP_SECONDS, enough=lambda _: False)
        return [(store, _said(store, answers[store])) for store in self._stores]

    async def reachable(self, look: Callable[[Store], Awaitable[T]]) -> list[T]:
        """What those say that answer, for a choice among what there is: what it leaves out can be had by its name.

        Raises:
            UnavailableError: If none of them answers.
        """
        if len(self._stores) == 1:
            return [await look(self.default)]
        answers = await self._ask(look, within=LOOK_SECONDS, enough=lambda _: False)
        said = [answer for answer in answers.values() if not isinstance(answer, BaseException)]
        return said or [_said(self.default, answers[self.default])]

    async def _look(self, ref: str, look: Callable[[Store], Awaitable[T | None]]) -> tuple[Store, T] | None:
        answers = await self._ask(look, within=GIVE_UP_SECONDS, enough=lambda answer: answer is not None)
        having = [
            (store, answer)
            for store, answer in answers.items()
            if answer is not None and not isinstance(answer, BaseException)
        ]
        if len(having) > 1:
            raise UnavailableError(
                f"Several stores have it: {', '.join(store.name for store, _ in having)}.",
                hint="Try again: the operator of one of them has not noted yet that it is another one's.",
            )
        if having:
            return having[0]
        for store, answer in answers.items():
            _said(store, answer)
        _log.debug("in no store", ref=ref)
        return None

    async def _ask(
        self, look: Callable[[Store], Awaitable[T]], *, within: float, enough: Callable[[T], bool]
    ) -> dict[Store, T | BaseException]:
        """What each says, or why it does not: after an answer that is enough, the others have a moment still."""
        there = {store: partial(look, store) for store in self._stores if store.fault is None}
        answers = await self._asking.ask(there, within=within, enough=enough, after=LOOK_SECONDS)
        return {
            store: answers[store] if store in answers else store.fault or UnavailableError("It does not answer.")
            for store in self._stores
        }

    async def met(self, seconds: float) -> list[AnabranchError | None]:
        """Look whether each is there, again and again for a while as long as one is not; what is wrong with each."""
        until = asyncio.get_running_loop().time() + seconds
        while True:
            await asyncio.gather(*map(self.look_at, self._stores))
            faults = [store.fault for store in self._stores]
            if not any(faults) or asyncio.get_running_loop().time() >= until:
                return faults
            await asyncio.sleep(CHECK_SECONDS)

    async def watch(self) -> None:
        """Look again and again whether each is there, until cancelled."""
        await asyncio.gather(*(self._watch(store) for store in self._stores))

    async def look_at(self, store: Store) -> None:
        """Find out whether a store is there, and keep it in mind."""
        answers = await self._asking.ask({store: store.check}, within=_CHECK_TIMEOUT)
        fault = answers[store]
        if fault is not None and not isinstance(fault, AnabranchError):
            raise fault
        if (fault is None) != (store.fault is None):
            _log.warning("store" if fault is None else "store is away", store=store.name, error=str(fault or "is back"))
        store.fault = fault
        store.silent = store.silent + 1 if isinstance(fault, LateError) else 0
        if store.silent >= _SILENT and (cut := store.db.sever()):
            _log.warning("store hangs: let go of its connections", store=store.name, connections=cut)

    async def _watch(self, store: Store) -> None:
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            await self.look_at(store)


def _said(store: Store, answer: T | BaseException) -> T:
    """An answer.

    Raises:
        UnavailableError: If it is why there is none.
        BaseException: If it is a defect.
    """
    if isinstance(answer, AnabranchError):
        raise UnavailableError(
            f"The store {store.name} does not answer, and what is asked for may lie there.",
            hint="Try again; what lies in other stores can be used meanwhile.",
        ) from answer
    if isinstance(answer, BaseException):
        raise answer
    return answer
