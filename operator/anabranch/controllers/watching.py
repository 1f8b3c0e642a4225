"""What kopf watches, how it reaches the API server, and how one can tell that it still hears something.

kopf serves as the watcher: it lists, follows, reconnects, and keeps the events of one object in order. What is to be
handled is told here, by two numbers of the object itself (see `concern`): kopf would keep a copy of each spec in an
annotation, a second write for each change and one more whenever a label changes, and takes as long to compare them as
to do all the rest. So it writes nothing. Its connection is ours, so that a rotated token is used from the next request
on, and so that each answer is noted: the API server ends every watch after two minutes, kopf ends one that was silent
for longer than bookmarks are apart, and one that then does not begin again is stuck, however healthy the process looks.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final, Literal

import kopf

from anabranch.controllers.keys import Key
from anabranch.kube.kinds import OWN
from anabranch.model.crd import GROUP, VERSION

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import aiohttp

    from anabranch.controllers.reconciler import Reconciler
    from anabranch.controllers.settings import WatchPace
    from anabranch.kube.connection import Connection
    from anabranch.kube.kinds import OwnName

_PREFIX: Final = "kopf.anabranch.dev"
_WORKERS: Final = 500
"""Objects at once; what each of them does is bounded elsewhere. Most of them only wait to be asked about together."""

_PAGE: Final = 500
"""Objects of one answer to the first listing: all of 10,000 at once take 100 MB to read."""


class Watches:
    """What was heard of each kind in each namespace that is followed, and when.

    Args:
        namespaces: Those served; empty: all, by one watch a kind.
        silence: Seconds without an answer after which a kind is not followed any more.
        clock: Seconds, monotonic.
    """

    def __init__(
        self, *, namespaces: Sequence[str] = (), silence: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._plurals = {
            kind.path(namespace=namespace): kind.plural for kind in OWN.values() for namespace in namespaces or (None,)
        }
        self._paths = {
            (name, namespace): kind.path(namespace=namespace)
            for name, kind in OWN.items()
            for namespace in namespaces or (None,)
        }
        self._silence = silence
        self._clock = clock
        self._heard: dict[str, float] = {}
        self._begun: set[str] = set()

    def expect(self) -> None:
        """From now on every kind is to be heard of."""
        self._heard = dict.fromkeys(self._plurals, self._clock())

    def note(self, url_path: str, *, watch: bool) -> None:
        """A list or a watch was answered at this path."""
        path = url_path.rstrip("/")
        if path in self._heard:
            self._heard[path] = self._clock()
            if watch:
                self._begun.add(path)

    def note_event(self, kind: OwnName, namespace: str) -> None:
        """An event of a kind came."""
        path = self._paths.get((kind, None)) or self._paths.get((kind, namespace))
        if path in self._heard:
            self._heard[path] = self._clock()

    def ages(self) -> dict[str, float]:
        """Seconds since each kind was heard of, where that is longest ago."""
        now = self._clock()
        ages: dict[str, float] = {}
        for path, heard in self._heard.items():
            plural = self._plurals[path]
            ages[plural] = max(now - heard, ages.get(plural, 0.0))
        return ages

    def missing(self) -> list[str]:
        """The kinds that are not watched everywhere yet."""
        return sorted({plural for path, plural in self._plurals.items() if path not in self._begun})

    def silent(self) -> list[str]:
        """The kinds that should be followed, and somewhere are not (any more)."""
        now = self._clock()
        return sorted({self._plurals[path] for path, heard in self._heard.items() if now - heard > self._silence})


def registry(
    reconciler: Reconciler,
    *,
    connection: Connection,
    watches: Watches,
    observe: Callable[[OwnName, Mapping[str, Any]], None],
    forget: Callable[[str], None],
) -> kopf.OperatorRegistry:
    """The handlers of the three kinds.

    Args:
        reconciler: What they call.
        connection: To the API server.
        watches: Where each answer is noted.
        observe: Called with the kind and the body of every object as it is seen.
        forget: Called with the uid of every object that is gone.
    """
    found = kopf.OperatorRegistry()

    @kopf.on.login(registry=found)
    async def login(**_: Any) -> kopf.AiohttpSession:
        # A new session each time: kopf closes the one that was answered 401.
        return kopf.AiohttpSession(server=connection.server, aiohttp_session=connection.session(identify))

    async def identify(request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
        if (authorization := await connection.authorization()) is not None:
            request.headers["Authorization"] = authorization
        response = await handler(request)
        if response.status == 200:
            watches.note(request.url.path, watch=request.url.query.get("watch") == "true")
        return response

    def follow(kind: OwnName, plural: str) -> None:
        @kopf.on.event(GROUP, VERSION, plural, registry=found)
        async def see(event: kopf.RawEvent, **_: Any) -> None:
            await dispatch(event["type"], kind, event["object"])

    async def dispatch(event: str | None, kind: OwnName, body: Mapping[str, Any]) -> None:
        metadata = body["metadata"]
        watches.note_event(kind, metadata["namespace"])
        about = concern(event, body)
        if about == "deletion":
            forget(metadata["uid"])
            await reconciler.gone(Key(kind, metadata["namespace"], metadata["name"]), metadata["uid"])
            return
        observe(kind, body)
        act = {"spec": reconciler.seen, "start": reconciler.found, "rest": reconciler.noticed}[about]
        await act(kind, body)

    for name, kind in OWN.items():
        follow(name, kind.plural)
    return found


def concern(event: str | None, body: Mapping[str, Any]) -> Literal["deletion", "spec", "start", "rest"]:
    """What an event of the watch is about.

    Until the status says that it answers to the newest spec, every event of the object is about its spec: that is
    harmless, as reconciling is level-triggered, and right, for until then the change is not handled.

    Args:
        event: Its type; None: the object was there when the watch began.
        body: Of the object.

    Returns:
        What is gone; what has a spec that its status does not answer to, newer or (after a restore) older; what was
        there and is answered to; everything else, such as a label, or our own status.
    """
    if event == "DELETED":
        return "deletion"
    if (body.get("status") or {}).get("observedGeneration", -1) != body["metadata"].get("generation", 0):
        return "spec"
    return "start" if event is None else "rest"


def operator_settings(pace: WatchPace) -> kopf.OperatorSettings:
    """The settings of kopf: nothing written, nothing posted, no peers, and no connection that stays silent."""
    settings = kopf.OperatorSettings()
    settings.persistence.finalizer = f"{_PREFIX}/finalizer"
    settings.posting.enabled = False
    settings.peering.standalone = True
    settings.process.ultimate_exiting_timeout = None
    settings.queueing.worker_limit = _WORKERS
    settings.queueing.idle_timeout = 0.05  # an idle worker keeps its place: with kopf's 5 s, 1,000 objects took 98 s
    settings.networking.request_timeout = 30
    settings.networking.connect_timeout = 5
    settings.watching.chunk_size = _PAGE
    settings.watching.server_timeout = pace.server
    settings.watching.client_timeout = pace.server + 30
    settings.watching.inactivity_timeout = pace.idle
    settings.watching.connect_timeout = 5
    return settings
