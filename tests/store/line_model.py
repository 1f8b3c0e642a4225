"""What a line is, without a database: a dict for each generation, and the log of what was told.

The model makes no decision that the store could make otherwise. It is told what happened in which order (the store's
own log says so), and says what must be there after it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping


@dataclass(frozen=True, slots=True)
class Entry:
    """A version of a key; without content, a tombstone. The run stands for its provenance, None for none."""

    revision: int
    scope: str
    content: Any
    run: str | None

    @property
    def live(self) -> bool:
        return self.content is not None


@dataclass(frozen=True, slots=True)
class Told:
    """An event."""

    kind: str
    generation: int
    key: str | None = None
    revision: int | None = None


class LineModel:
    """A line after its first import."""

    def __init__(self, imported: Mapping[str, Entry]) -> None:
        self.history: dict[int, dict[str, Entry]] = {1: dict(imported)}
        self.retained = {1}
        self.head = self.current = 1
        self.previous = 0
        self.pinned: int | None = None
        self.told: list[Told] = []
        self.floor = 0
        self.parents: dict[str, int] = {}  # of runs that are not over

    @property
    def revision(self) -> int:
        """Each generation brings one, and none ever comes again."""
        return self.head

    @property
    def pruned(self) -> set[int]:
        return set(self.history) - self.retained

    @property
    def protected(self) -> set[int]:
        """What no retention may remove."""
        return ({self.head, self.current, self.previous, self.pinned or 0} | set(self.parents.values())) - {0}

    def live(self, generation: int) -> dict[str, Entry]:
        return {key: entry for key, entry in self.history[generation].items() if entry.live}

    def publish(self, changes: Mapping[str, tuple[str, Any]], *, run: str) -> None:
        """Scope and content by key."""
        revision, generation = self.revision + 1, self.head + 1
        self._add({key: Entry(revision, scope, content, run) for key, (scope, content) in changes.items()})
        self.told += [
            Told("published" if content is not None else "tombstone", generation, key, revision)
            for key, (_, content) in changes.items()
        ]

    def restore(self, target: int) -> None:
        """What the target says, where the head says otherwise; whether a deletion is marked is no difference."""
        past, present = self.history[target], self.history[self.head]
        changed = {}
        for key in past.keys() | present.keys():
            old, new = past.get(key), present.get(key)
            if (old and replace(old, revision=0)) == (new and replace(new, revision=0)):
                continue
            if old is not None and (old.live or (new is not None and new.live)):
                changed[key] = replace(old, revision=self.revision + 1)
            elif new is not None and new.live:
                changed[key] = Entry(self.revision + 1, new.scope, None, None)
        self._add(changed)
        self.told.append(Told("restored", self.head))

    def purge(self, keys: Collection[str], *, retained: Collection[int]) -> None:
        """Take tombstones out that nothing is compared with any more, as far as it is retained."""
        assert all(not self.history[self.head][key].live for key in keys)
        for generation in self.history.keys() & set(retained):
            assert self.live(generation).keys().isdisjoint(keys)
        self._add({})
        for key in keys:
            del self.history[self.head][key]

    def move(self, kind: str, to: int) -> None:
        """A pin, or its end."""
        assert kind == "rollback" or to == self.head
        self.current, self.previous = to, self.current
        self.pinned = to if kind == "rollback" else None
        self.told.append(Told(kind, to))

    def droppable(self, keep: int) -> set[int]:
        """What retention removes if so many of the newest are kept."""
        return {generation for generation in self.retained if generation <= self.head - keep} - self.protected

    def _add(self, changed: Mapping[str, Entry]) -> None:
        generation = self.head + 1
        self.history[generation] = self.history[self.head] | changed
        self.retained.add(generation)
        self.head = generation
        if self.pinned is None:
            self.current, self.previous = generation, self.current
