"""A database that hangs is let go of: whoever waits for it is told, instead of waiting for as long as it hangs.

Of a server that takes what it is sent and answers nothing the system knows no more than that the peer is there, and
what the server itself would end after thirty seconds it does not end. So who finds out that it hangs cuts connections.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from anabranch.store.database import Database

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from anabranch.store.database import Connection


class Severable(Database):
    """A `Database` that knows which of its connections are in use."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._lent: set[Connection] = set()

    @contextlib.asynccontextmanager
    async def _taken(self) -> AsyncIterator[Connection]:
        """As of a `Database`; after a `sever` it breaks, as if the server had gone."""
        async with super()._taken() as conn:
            self._lent.add(conn)
            try:
                yield conn
            finally:
                self._lent.discard(conn)

    def sever(self) -> int:
        """Cut the connections that are in use; how many there were."""
        lent = list(self._lent)
        for conn in lent:
            conn.terminate()
        return len(lent)
