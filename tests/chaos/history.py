"""What every client did and was told: written down as it happens, never changed, and judged only afterwards.

A call has two entries. The first says what was asked. The second says how it ended: ``ok`` with what was answered,
``refused`` where the answer was a definite no, ``unknown`` where no answer came, or one that says nothing of what
became of the request. A call that is unknown may have happened, may not have, and may yet happen: whoever judges must
allow for all three. What comes unasked, as an event of a feed does, is one entry that is ``seen``.

The entries stand in one order, in which this process noted them. A call that ended before another began came before it.
"""

from __future__ import annotations

import json
import time
from collections import defaultdict
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from anabranch.model.errors import AnabranchError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Mapping
    from pathlib import Path

T = TypeVar("T")

Phase = Literal["begun", "ok", "refused", "unknown", "seen"]

NO_ANSWER = frozenset({429, 502, 503, 504})
"""Statuses by which somebody on the way, or the service itself, says that it does not know."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of a history.

    Attributes:
        number: Its place.
        at: Seconds since the history began.
        client: Who.
        phase: How far.
        what: The kind of call, or of what was seen.
        about: What was asked, with `begun`; beside it what came back, with the others.
        call: The number of the entry that began the call.
    """

    number: int
    at: float
    client: str
    phase: Phase
    what: str
    about: Mapping[str, Any] = field(default_factory=dict)
    call: int | None = None

    def __getitem__(self, name: str) -> Any:
        return self.about[name]


@dataclass(frozen=True, slots=True)
class Ended(Generic[T]):
    """How a call ended, for who made it.

    Attributes:
        phase: How.
        value: What was answered; None unless it is ok.
        error: What it was refused with, or why nothing is known.
    """

    phase: Phase
    value: T | None = None
    error: AnabranchError | None = None

    @property
    def ok(self) -> bool:
        return self.phase == "ok"


class History:
    """The entries of a run, which only grow.

    Args:
        file: Takes each entry as a line of JSON as well, so that a run that is killed leaves what it knew.
    """

    def __init__(self, file: Path | None = None) -> None:
        self.entries: list[Entry] = []
        self._began = time.monotonic()
        self._file = file.open("a") if file else None

    def close(self) -> None:
        if self._file:
            self._file.close()

    def see(self, client: str, what: str, **about: Any) -> Entry:
        """Note what came unasked."""
        return self._note(client, "seen", what, about)

    async def ask(
        self,
        client: str,
        what: str,
        answer: Awaitable[T],
        shown: Callable[[T], Mapping[str, Any]] = lambda _: {},
        **about: Any,
    ) -> Ended[T]:
        """Make a call, and note how it began and how it ended.

        Args:
            client: Who makes it.
            what: Its kind.
            answer: The call.
            shown: What of an answer is noted.
            about: What it asks for.
        """
        call = self._note(client, "begun", what, about).number
        try:
            value = await answer
        except AnabranchError as error:
            phase: Phase = "unknown" if error.status in NO_ANSWER else "refused"
            told = {"code": error.code, "status": error.status, "detail": error.detail}
            self._note(client, phase, what, {**about, **told}, call)
            return Ended(phase, error=error)
        except BaseException:
            self._note(client, "unknown", what, about, call)
            raise
        self._note(client, "ok", what, {**about, **shown(value)}, call)
        return Ended("ok", value)

    def _note(self, client: str, phase: Phase, what: str, about: Mapping[str, Any], call: int | None = None) -> Entry:
        at = round(time.monotonic() - self._began, 4)
        entry = Entry(len(self.entries), at, client, phase, what, about, call)
        self.entries.append(entry)
        if self._file:
            self._file.write(json.dumps(asdict(entry), default=str) + "\n")
        return entry

    # What judges ask for.

    def of(self, what: str, *phases: Phase) -> list[Entry]:
        """The entries of a kind that are in one of these phases; any phase, if none is named."""
        return [entry for entry in self.entries if entry.what == what and (not phases or entry.phase in phases)]

    def grouped(self, what: str, *phases: Phase, by: tuple[str, ...]) -> Iterator[tuple[tuple[Any, ...], list[Entry]]]:
        """The same, gathered by what they are about."""
        groups: defaultdict[tuple[Any, ...], list[Entry]] = defaultdict(list)
        for entry in self.of(what, *phases):
            groups[tuple(entry.about.get(name) for name in by)].append(entry)
        yield from groups.items()
