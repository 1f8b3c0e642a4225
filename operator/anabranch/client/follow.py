"""Following a feed without an end: by stream where that works, by poll where it does not, and on after every break.

The cursor is all that there is to keep: with it a follower goes on at another process of the API, after a restart of
any part, or days later. What came before a break may come again after it only if its cursor was not noted, so whoever
notes it with what they applied misses nothing and applies nothing twice.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pydantic import ValidationError

from anabranch.client.streams import lasting, messages
from anabranch.client.transport import Transport, parse, path
from anabranch.model.answers import EventPage
from anabranch.model.cloudevents import CloudEvent
from anabranch.model.errors import AnabranchError
from anabranch.model.misfits import misfits, told

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from anabranch.client.sse import Message
    from anabranch.model.objects import SharedEvent

POLL_SECONDS: Final = 25.0


@dataclass(frozen=True, slots=True)
class Followed:
    """What comes from a feed.

    Attributes:
        event: The event; None: nothing to see, but a newer cursor.
        cursor: To note once the event is applied: it leads behind it. None: of several events that came at once only
            the last one has one.
    """

    event: SharedEvent | None
    cursor: str | None


class FeedCalls(Transport):
    """Calls about the feed of a Baseline."""

    async def follow(  # noqa: PLR0913  (all but the place by keyword)
        self,
        namespace: str,
        name: str,
        *,
        after: str | None = None,
        generation: str | int | None = None,
        poll: bool = False,
        patience: float | None = None,
    ) -> AsyncGenerator[Followed]:
        """The events after a place, and those to come; without a place, from the beginning of what is kept.

        It does not end by itself. Where the connection breaks, or the API ends the stream for a while, it goes on after
        the last cursor.

        Args:
            namespace: Of the Baseline.
            name: Of the Baseline.
            after: A cursor: the last one noted, or ``shared_feed_cursor`` of a branch.
            generation: Instead: begin behind all that this manifest includes.
            poll: Do not try to stream.
            patience: Seconds for which it tries to reach an API that is away; None: for ever.

        Raises:
            GoneError: With code ``CursorExpired``: ``extra`` has the ``snapshot`` to read and the ``cursor`` to go on.
            ForbiddenError: If the grant to follow is gone.
            NotFoundError: If the Baseline is, or may not be seen any more.
            UnauthenticatedError: If the token is not accepted, read anew where it comes from a file.
            UnavailableError: If the API is away for longer than the patience.
        """
        following = _Following(self, namespace, name, after=after, generation=generation)
        async with contextlib.aclosing(
            lasting(following, f"{namespace}/{name}", poll=poll, patience=patience)
        ) as items:
            async for item in items:
                yield item


class _Following:
    """One follower's place in a feed, from connection to connection."""

    def __init__(
        self, client: Transport, namespace: str, name: str, *, after: str | None, generation: str | int | None
    ) -> None:
        self._client = client
        self._path = path(namespace, "baselines", name, "events")
        self._cursor = after
        self._generation = generation

    async def streamed(self) -> AsyncGenerator[Followed]:
        """What one stream brings.

        Raises:
            NoStreamError: If it is none, or says nothing.
            AnabranchError: Why it ended.
        """
        headers = {} if self._cursor is None else {"Last-Event-ID": self._cursor}
        query = {} if self._cursor is not None else {"generation": self._generation}
        async with contextlib.aclosing(messages(self._client, self._path, query=query, headers=headers)) as told_of:
            async for message in told_of:
                if (item := self._item(message)) is not None:
                    yield item

    async def polled(self) -> AsyncGenerator[Followed]:
        """What polls bring, one after the other.

        Raises:
            AnabranchError: Why one failed.
        """
        while True:
            place = {"after": self._cursor} if self._cursor is not None else {"generation": self._generation}
            wait = 0.0 if self._cursor is None else POLL_SECONDS  # who has no cursor yet gets one at once
            query = {**place, "wait": wait or None}
            page = parse(EventPage, await self._client.send("GET", self._path, query=query, wait=wait))
            last = len(page.events) - 1
            for number, event in enumerate(page.events):
                yield Followed(event, page.cursor if number == last else None)
            if not page.events and page.cursor != self._cursor:
                yield Followed(None, page.cursor)
            self._cursor = page.cursor

    def _item(self, message: Message) -> Followed | None:
        """What a message of a stream brings; None: it is for others.

        Raises:
            AnabranchError: If it is no event.
        """
        self._cursor = message.last_id if message.last_id is not None else self._cursor
        if not message.data:
            return None if message.last_id is None else Followed(None, message.last_id)
        try:
            made = CloudEvent.model_validate_json(message.data, extra="ignore")
        except ValidationError as error:
            raise AnabranchError(
                f"The stream of {self._path} brought what is no event: {told(misfits(error.errors()))}",
                hint="Use a client of the API's release, and check that nothing stands between them.",
            ) from error
        return Followed(made.data, self._cursor)
