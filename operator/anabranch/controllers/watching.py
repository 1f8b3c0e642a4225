"""What kopf watches, how it reaches the API server, and how one can tell that it still hears something.

kopf serves as the watcher: it lists, follows, reconnects, keeps the events of one object in order, and finds out what
is to be handled (see `diffbase`). It writes nothing. Its connection is ours, so that a rotated token is used from the
next request on, and so that each watch that begins is noted: the API server ends every watch after two minutes, and one
that does not begin again is stuck, however healthy the process looks.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

import kopf

from anabranch.controllers.diffbase import ObservedGeneration
from anabranch.controllers.reconciler import Key
from anabranch.kube.kinds import OWN
from anabranch.model.crd import GROUP, VERSION

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import aiohttp

    from anabranch.controllers.reconciler import Reconciler
    from anabranch.kube.connection import Connection
    from anabranch.kube.kinds import OwnName

_SERVER_SECONDS: Final = 120
SILENT_SECONDS: Final = 300.0
"""A kind whose watch has not begun again for so long is not followed any more."""

_PREFIX: Final = "kopf.anabranch.dev"
_WORKERS: Final = 100


class Watches:
    """When the watch of each kind last began, by its plural name."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._began: dict[str, float] = {}

    def note(self, url_path: str) -> None:
        """A watch was answered at this path."""
        self._began[url_path.rstrip("/").rpartition("/")[2]] = self._clock()

    def missing(self) -> list[str]:
        """The kinds that were not watched yet."""
        return [kind.plural for kind in OWN.values() if kind.plural not in self._began]

    def silent(self) -> list[str]:
        """The kinds that were watched, and are not followed any more."""
        now = self._clock()
        return [plural for plural, began in self._began.items() if now - began > SILENT_SECONDS]


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
        watches: Where each watch that begins is noted.
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
        if request.url.query.get("watch") == "true" and response.status == 200:
            watches.note(request.url.path)
        return response

    def follow(kind: OwnName, plural: str) -> None:
        @kopf.on.event(GROUP, VERSION, plural, registry=found)
        async def see(type: str | None, body: kopf.Body, **_: Any) -> None:  # noqa: A002  (kopf's name)
            if type == "DELETED":
                metadata = body["metadata"]
                forget(metadata["uid"])
                await reconciler.gone(Key(kind, metadata["namespace"], metadata["name"]), metadata["uid"])
            else:
                observe(kind, body)
                await reconciler.noticed(kind, body)

        @kopf.on.create(GROUP, VERSION, plural, registry=found)
        @kopf.on.update(GROUP, VERSION, plural, registry=found)
        @kopf.on.resume(GROUP, VERSION, plural, registry=found)
        async def reconcile(body: kopf.Body, **_: Any) -> None:
            await reconciler.seen(kind, body)

    for name, kind in OWN.items():
        follow(name, kind.plural)
    return found


def operator_settings() -> kopf.OperatorSettings:
    """The settings of kopf: nothing written, nothing posted, no peers, and no connection that stays silent."""
    settings = kopf.OperatorSettings()
    settings.persistence.diffbase_storage = ObservedGeneration()
    settings.persistence.progress_storage = kopf.AnnotationsProgressStorage(prefix=_PREFIX)
    settings.persistence.finalizer = f"{_PREFIX}/finalizer"
    settings.posting.enabled = False
    settings.peering.standalone = True
    settings.process.ultimate_exiting_timeout = None
    settings.queueing.worker_limit = _WORKERS
    settings.queueing.idle_timeout = 0.05  # an idle worker keeps its place: with kopf's 5 s, 1,000 objects took 98 s
    settings.networking.request_timeout = 30
    settings.networking.connect_timeout = 5
    settings.watching.server_timeout = _SERVER_SECONDS
    settings.watching.client_timeout = _SERVER_SECONDS + 30
    settings.watching.connect_timeout = 5
    return settings
