"""What was looked up once: remembered, and bounded."""

from collections import OrderedDict
from typing import Generic, TypeVar

V = TypeVar("V")


class Known(Generic[V]):
    """Values by their ids.

    Args:
        size: Most values kept; the least recently used ones go first.
    """

    def __init__(self, *, size: int) -> None:
        self._size = size
        self._kept: OrderedDict[str, V] = OrderedDict()

    def get(self, ref: str) -> V | None:
        """A value that was kept."""
        if (value := self._kept.get(ref)) is not None:
            self._kept.move_to_end(ref)
        return value

    def forget(self, ref: str) -> None:
        """Keep no value for an id."""
        self._kept.pop(ref, None)

    def keep(self, ref: str, value: V) -> None:
        """Remember a value."""
        self._kept[ref] = value
        if len(self._kept) > self._size:
            self._kept.popitem(last=False)
