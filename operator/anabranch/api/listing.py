"""What several stores list, as one list."""

from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Protocol, TypeVar

from anabranch.api.stores import Store


class Named(Protocol):
    """What has a name.

    Attributes:
        name: By which it is listed.
    """

    @property
    def name(self) -> str:
        """By which it is listed."""


N = TypeVar("N", bound=Named)
M = TypeVar("M", bound=Named)


def merged(pages: Iterable[tuple[Store, Sequence[N]]]) -> list[tuple[Store, N]]:
    """What is listed by all stores, in the order of names, each with its store."""
    return sorted(((store, row) for store, rows in pages for row in rows), key=lambda each: each[1].name)


async def told(
    rows: Sequence[tuple[Store, N]], describe: Callable[[Store, list[N]], Awaitable[Sequence[M]]]
) -> list[M]:
    """What stores tell of rows of theirs, in the order of names.

    Args:
        rows: Each with its store.
        describe: Tells it of some rows of one store.
    """
    of = defaultdict[Store, list[N]](list)
    for store, row in rows:
        of[store].append(row)
    found = [item for store, some in of.items() for item in await describe(store, some)]
    return sorted(found, key=lambda item: item.name)
