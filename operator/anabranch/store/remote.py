"""Another store's database, which is needed now and then: it is asked briefly, and let alone while it does not answer.

A server that is gone says so at once, but one that hangs says nothing, and who waits for it holds up what needs it not
at all: an operator reconciles some objects at a time, of which none may wait for somebody else's database.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import TYPE_CHECKING, Any, Final

from anabranch.model.errors import UnavailableError
from anabranch.store.database import Database
from anabranch.store.durability import CommitsWaitError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from anabranch.store.database import Connection

ANSWER_SECONDS: Final = 5.0
"""For what is done on one connection, at most."""

REST_SECONDS: Final = 2.0
"""For how long nobody asks again, after it has not answered."""


class Remote(Database):
    """A `Database` of which every connection is had for a few seconds at most.

    After one was had in vain, one caller at a time finds out whether it answers again; others are told at once.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._asks_again_at: float | None = None

    @contextlib.asynccontextmanager
    async def _taken(self) -> AsyncIterator[Connection]:
        """As of a `Database`.

        Raises:
            UnavailableError: Likewise; and when it takes too long, or has done so a moment ago.
        """
        now = time.monotonic()
        if self._asks_again_at is not None:
            if now < self._asks_again_at:
                raise UnavailableError("The other store has not answered lately.", hint="Try again in a few seconds.")
            self._asks_again_at = now + ANSWER_SECONDS + REST_SECONDS
        again_at = None  # it has answered, whatever became of what was asked
        try:
            async with asyncio.timeout(ANSWER_SECONDS), super()._taken() as conn:
                try:
                    yield conn
                except asyncio.CancelledError:
                    conn.terminate()  # else the server would be asked to cancel, and waited for again
                    raise
        except TimeoutError as error:
            again_at = time.monotonic() + REST_SECONDS
            raise UnavailableError(
                f"The other store has not answered within {ANSWER_SECONDS:g} s.", hint="Try again when it does."
            ) from error
        except CommitsWaitError:
            raise
        except UnavailableError:
            again_at = time.monotonic() + REST_SECONDS
            raise
        except asyncio.CancelledError:
            again_at = None if self._asks_again_at is None else time.monotonic()  # the next one finds out
            raise
        finally:
            self._asks_again_at = again_at
