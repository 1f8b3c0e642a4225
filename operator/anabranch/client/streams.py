"""Streams that last: by stream where that works, by poll where it does not, and on after every break."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import random
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from anabranch.client.errors import error_from
from anabranch.client.sse import Parser
from anabranch.domain.backoff import delay
from anabranch.model.errors import UnauthenticatedError, UnavailableError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping

    from anabranch.client.sse import Message
    from anabranch.client.transport import Transport
    from anabranch.model.errors import AnabranchError

STREAM: Final = "text/event-stream"

FIRST_SECONDS: Final = 10.0
"""A stream says something at once. If nothing comes, something in between gathers it up: then polling is better."""

IDLE_SECONDS: Final = 45.0
"""Three heartbeats: who has heard nothing for so long has lost the connection."""

_FIRST_PAUSE: Final = 0.5
_LONGEST_PAUSE: Final = 15.0
_BUFFERED_TIMES: Final = 2

_log = logging.getLogger(__name__)

T_co = TypeVar("T_co", covariant=True)


class NoStreamError(Exception):
    """A stream is not to be had.

    Args:
        why: In words.
        for_good: Whether there is no use in trying again.
    """

    def __init__(self, why: str, *, for_good: bool = False) -> None:
        super().__init__(why)
        self.for_good = for_good


class Source(Protocol[T_co]):
    """What is followed, in both ways; it keeps the place from connection to connection."""

    def streamed(self) -> AsyncGenerator[T_co]:
        """What one stream brings.

        Raises:
            NoStreamError: If it is none, or says nothing.
            AnabranchError: Why it ended.
        """

    def polled(self) -> AsyncGenerator[T_co]:
        """What polls bring, one after the other.

        Raises:
            AnabranchError: Why one failed.
        """


async def lasting(
    source: Source[T_co], what: str, *, poll: bool = False, patience: float | None = None
) -> AsyncGenerator[T_co]:
    """What comes from a source, without an end.

    Args:
        source: Streams and polls.
        what: For the log.
        poll: Do not try to stream.
        patience: Seconds for which it tries to reach an API that is away; None: for ever.

    Raises:
        UnauthenticatedError: If the token is not accepted, read anew where it comes from a file.
        UnavailableError: If the API is away for longer than the patience.
        AnabranchError: Any other refusal.
    """
    failures, buffered, was_refused = 0, 0, False
    clock = asyncio.get_running_loop().time
    lost_at: float | None = None
    while True:
        try:
            async with contextlib.aclosing(source.polled() if poll else source.streamed()) as items:
                async for item in items:
                    failures, lost_at, was_refused = 0, None, False
                    yield item
        except NoStreamError as error:
            buffered += 1
            poll = error.for_good or buffered >= _BUFFERED_TIMES
            _log.info("No stream of %s: %s", what, error)
            continue
        except UnauthenticatedError:
            if was_refused:
                raise
            was_refused = True  # a token that has run out meanwhile; its file may hold a new one
            continue
        except UnavailableError as error:
            lost_at = clock() if lost_at is None else lost_at
            if patience is not None and clock() - lost_at > patience:
                raise
            _log.info("The stream of %s broke: %s", what, error)
        failures += 1
        chance = random.random()  # noqa: S311  (it spreads those who come back, it keeps no secret)
        await asyncio.sleep(delay(failures, chance=chance, base=_FIRST_PAUSE, limit=_LONGEST_PAUSE))


async def messages(
    client: Transport, place: str, *, query: Mapping[str, Any], headers: Mapping[str, str]
) -> AsyncGenerator[Message]:
    """The messages of one stream.

    Args:
        client: Of the API.
        place: The path.
        query: Query parameters; those that are None are left out.
        headers: Beside those of every stream.

    Raises:
        NoStreamError: If it is none, or says nothing.
        AnabranchError: Why it ended; it has no end of its own.
    """
    headers = {"Accept": f"{STREAM}, application/problem+json", "Cache-Control": "no-store", **headers}
    parser = Parser()
    async with client.stream(place, query=query, headers=headers, idle=IDLE_SECONDS) as answer:
        if answer.headers.get("content-type", "").partition(";")[0] != STREAM:
            raise NoStreamError("the API answers with a page", for_good=True)
        pieces = answer.aiter_bytes()
        try:
            async with asyncio.timeout(FIRST_SECONDS):
                piece = await anext(pieces, b"")
        except TimeoutError:
            raise NoStreamError("nothing comes, as if something in between gathered it up") from None
        while piece:
            for message in parser.feed(piece):
                if message.event == "end":
                    raise _ended(message.data)
                yield message
            piece = await anext(pieces, b"")
    raise UnavailableError("The stream ended without a word.", hint="Go on where it ended.")


def _ended(data: str) -> AnabranchError:
    try:
        problem: Any = json.loads(data)
        return error_from(problem, status=int(problem["status"]))
    except (ValueError, KeyError, TypeError):
        return UnavailableError("The API ended the stream, and did not say why.", hint="Go on where it ended.")
