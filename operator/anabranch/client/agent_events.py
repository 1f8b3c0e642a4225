"""The calls of an agent about its events: take them by poll or by stream, deal with each, and say so."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
from typing import TYPE_CHECKING, Final

from pydantic import ValidationError

from anabranch.client.streams import lasting, messages
from anabranch.client.transport import Transport, parse, path
from anabranch.model.agent_events import AgentEvent, Claimed, ClaimRequest, EventAck, EventFailure, EventState
from anabranch.model.agent_queue import QueuePage
from anabranch.model.canonical import canonical_bytes
from anabranch.model.errors import AnabranchError
from anabranch.model.misfits import misfits, told

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable
    from typing import TypeAlias
    from uuid import UUID

    from anabranch.model.agent_events import EventStatus
    from anabranch.model.agent_queue import QueuedEvent

    OnEvent: TypeAlias = Callable[[AgentEvent], object]

VISIBILITY_SECONDS: Final = 600
"""How long an event is the caller's to acknowledge, unless it says otherwise."""

WINDOW: Final = 10
POLL_SECONDS: Final = 25

_JSON = {"Content-Type": "application/json"}
_ERROR: Final = 1_000

_log = logging.getLogger(__name__)


class AgentEventCalls(Transport):
    """Calls about an agent's events. Each takes its namespace and id; `instance` is ``default`` unless given."""

    async def queued_events(
        self, namespace: str, agent: str, *, instance: str = "default", status: EventStatus | None = None
    ) -> AsyncIterator[QueuedEvent]:
        """The events of an instance, newest first, or only those in a state. Nothing is claimed."""
        place, query = _events(namespace, agent, instance), {"status": status}
        async for page in self.pages(QueuePage, place, query=query):
            for item in page.items:
                yield item

    async def claim_events(  # noqa: PLR0913  (all but the agent by keyword)
        self,
        namespace: str,
        agent: str,
        *,
        instance: str = "default",
        limit: int = 10,
        visibility_seconds: int = VISIBILITY_SECONDS,
        wait_seconds: int = 0,
    ) -> Claimed:
        """Take the oldest events that wait: yours until their deadlines, to acknowledge or to send back.

        Args:
            namespace: Of the agent.
            agent: Its id.
            instance: Whose events.
            limit: How many at most.
            visibility_seconds: How long they are yours; what is not acknowledged by then comes again.
            wait_seconds: For how long to wait for a first one.
        """
        request = ClaimRequest(limit=limit, visibility_seconds=visibility_seconds, wait_seconds=wait_seconds)
        response = await self.send(
            "POST",
            f"{_events(namespace, agent, instance)}:claim",
            body=canonical_bytes(request.model_dump(mode="json")),
            headers=_JSON,
            repeatable=False,  # what a lost answer has claimed comes again by itself, and a second claim takes more
            wait=wait_seconds,
        )
        return parse(Claimed, response, extra="allow")  # what an event is about has members by its kind

    async def ack_event(
        self, namespace: str, agent: str, event_id: str, claim_id: UUID, *, instance: str = "default"
    ) -> EventState:
        """Say that an event is dealt with, under the claim that it came with. The same again changes nothing.

        Raises:
            ConflictError: With code ``ClaimLost``: it was not acknowledged in time, and somebody else has it by now.
        """
        body = canonical_bytes(EventAck(claim_id=claim_id).model_dump(mode="json"))
        place = _event(namespace, agent, instance, event_id, "ack")
        return parse(EventState, await self.send("POST", place, body=body, headers=_JSON))

    async def fail_event(  # noqa: PLR0913  (all but the event by keyword)
        self, namespace: str, agent: str, event_id: str, claim_id: UUID, *, error: str, instance: str = "default"
    ) -> EventState:
        """Send an event back that could not be dealt with: it comes again after a while, three times in all.

        Raises:
            ConflictError: With code ``ClaimLost``: somebody else has it by now.
        """
        body = canonical_bytes(EventFailure(claim_id=claim_id, error=error).model_dump(mode="json"))
        place = _event(namespace, agent, instance, event_id, "fail")
        return parse(EventState, await self.send("POST", place, body=body, headers=_JSON))

    async def agent_events(  # noqa: PLR0913  (all but the agent by keyword)
        self,
        namespace: str,
        agent: str,
        *,
        instance: str = "default",
        window: int = WINDOW,
        visibility_seconds: int = VISIBILITY_SECONDS,
        poll: bool = False,
        patience: float | None = None,
    ) -> AsyncGenerator[AgentEvent]:
        """The events of an instance as they come, each claimed for you; without an end.

        Acknowledge each with `ack_event`, or send it back with `fail_event`; what is neither comes again. Where the
        connection breaks, or the API ends the stream for a while, it goes on.

        Args:
            namespace: Of the agent.
            agent: Its id.
            instance: Whose events.
            window: How many may be with you, unacknowledged, at a time.
            visibility_seconds: How long each is yours.
            poll: Do not try to stream.
            patience: Seconds for which it tries to reach an API that is away; None: for ever.

        Raises:
            ForbiddenError: If the grant is gone.
            NotFoundError: If the agent id is not yours.
            UnauthenticatedError: If the token is not accepted, read anew where it comes from a file.
            UnavailableError: If the API is away for longer than the patience.
        """
        source = _Source(
            self, namespace, agent, instance=instance, window=window, visibility_seconds=visibility_seconds
        )
        what = f"{namespace}/{agent}/{instance}"
        async with contextlib.aclosing(lasting(source, what, poll=poll, patience=patience)) as events:
            async for event in events:
                yield event

    async def handle_events(  # noqa: PLR0913  (all but the agent and the handler by keyword)
        self,
        namespace: str,
        agent: str,
        handle: OnEvent,
        *,
        instance: str = "default",
        visibility_seconds: int = VISIBILITY_SECONDS,
        poll: bool = False,
        patience: float | None = None,
    ) -> None:
        """Deal with the events of an instance one after the other, without an end.

        An event is acknowledged once its handler has returned, and sent back when it raises. It may come more than once
        (the process may die in between), so a handler that must not act twice looks at the event's ``id``.

        Args:
            namespace: Of the agent.
            agent: Its id.
            handle: Deals with an event. A coroutine function, or a plain one, which is called in a thread.
            instance: Whose events.
            visibility_seconds: How long a handler may take; after that the event comes again.
            poll: Do not try to stream.
            patience: As in `agent_events`.

        Raises:
            AnabranchError: As in `agent_events`.
        """
        events = self.agent_events(
            namespace,
            agent,
            instance=instance,
            window=1,  # the time of each begins when it can be dealt with
            visibility_seconds=visibility_seconds,
            poll=poll,
            patience=patience,
        )
        async with contextlib.aclosing(events) as coming:
            async for event in coming:
                try:
                    await _deal(handle, event)
                except Exception as error:  # noqa: BLE001  (whatever a handler meets is what is reported)
                    _log.warning("The event %s was not dealt with, it comes again: %r", event.id, error)
                    told_of = f"{type(error).__name__}: {error}"[:_ERROR]
                    settled = self.fail_event(
                        namespace, agent, event.id, event.claimid, error=told_of, instance=instance
                    )
                else:
                    settled = self.ack_event(namespace, agent, event.id, event.claimid, instance=instance)
                try:
                    await settled
                except AnabranchError as error:
                    _log.warning("The event %s may come again, that was not taken: %s", event.id, error)


class _Source:
    """An instance's events, by stream and by poll."""

    def __init__(  # noqa: PLR0913  (all but the agent by keyword)
        self,
        client: AgentEventCalls,
        namespace: str,
        agent: str,
        *,
        instance: str,
        window: int,
        visibility_seconds: int,
    ) -> None:
        self._client = client
        self._namespace = namespace
        self._agent = agent
        self._instance = instance
        self._window = window
        self._visibility = visibility_seconds

    async def streamed(self) -> AsyncGenerator[AgentEvent]:
        """What one stream brings."""
        place = _events(self._namespace, self._agent, self._instance)
        query = {"window": self._window, "visibility_seconds": self._visibility}
        async with contextlib.aclosing(messages(self._client, place, query=query, headers={})) as told_of:
            async for message in told_of:
                if message.data:
                    yield _event_of(message.data, place)

    async def polled(self) -> AsyncGenerator[AgentEvent]:
        """What polls bring: no more at a time than are dealt with at a time."""
        while True:
            claimed = await self._client.claim_events(
                self._namespace,
                self._agent,
                instance=self._instance,
                limit=self._window,
                visibility_seconds=self._visibility,
                wait_seconds=POLL_SECONDS,
            )
            for event in claimed.events:
                yield event


async def _deal(handle: OnEvent, event: AgentEvent) -> None:
    given = handle(event) if inspect.iscoroutinefunction(handle) else await asyncio.to_thread(handle, event)
    if inspect.isawaitable(given):
        await given


def _event_of(data: str, place: str) -> AgentEvent:
    try:
        return AgentEvent.model_validate_json(data, extra="allow")
    except ValidationError as error:
        raise AnabranchError(
            f"The stream of {place} brought what is no event: {told(misfits(error.errors()))}",
            hint="Use a client of the API's release, and check that nothing stands between them.",
        ) from error


def _events(namespace: str, agent: str, instance: str) -> str:
    return path(namespace, "agents", agent, instance, "events")


def _event(namespace: str, agent: str, instance: str, event_id: str, verb: str) -> str:
    return path(namespace, "agents", agent, instance, "events", event_id, verb)
