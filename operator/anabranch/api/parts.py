"""The parts that handlers call, opened once for a process."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Final, cast

from fastapi import Depends, Request

from anabranch.api.known import Known
from anabranch.api.settings import Settings
from anabranch.domain.cursor import Sealer
from anabranch.domain.signing import Signer
from anabranch.feed.lags import Lags
from anabranch.feed.live import Live
from anabranch.feed.poll import Feed
from anabranch.feed.waking import Waking
from anabranch.identity import Grants, Identity
from anabranch.kube.client import KubeClient
from anabranch.memory.pushing import Pushes
from anabranch.model.errors import InvalidInputError
from anabranch.search.asking import Searcher
from anabranch.store import migrate
from anabranch.store.branches import BranchRow
from anabranch.store.database import Database
from anabranch.store.lines import LineState
from anabranch.store.reader import Reader
from anabranch.store.receiver import Receiver

RUNS: Final = 10_000
"""Branches that are remembered; the least recently used ones go first."""

BASELINES: Final = 1_000
"""Likewise."""

EXPORTS: Final = 4
"""That one process makes at the same time: each is as much work as thousands of reads."""

UPLOADS: Final = 2
"""Archives that one process receives at the same time. Each may take 4 GiB of its temporary files, an export a third of
one: the room that the chart gives them follows from these two."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What a request may need.

    Attributes:
        db: The store, as the API's role.
        receiver: Receives batches, those of the same moment together.
        reader: Reads records, those of the same moment together.
        searcher: Searches, some at once.
        baselines: Baselines by namespace and name, with their scopes, as they were when last looked up: what is done
            with one has to find out whether it is there still.
        runs: Branches by id, as they were when first seen: what never changes of them may be relied on.
        kube: The API server, as the API's account.
        identity: Tells who calls.
        grants: Tells what they may do.
        sealer: Makes and opens cursors.
        feed: Reads feeds.
        live: Streams them.
        pushes: Streams events of agents.
        waking: Wakes those that wait for one.
        lags: How far behind followers are.
        exports: Bounds how many exports are made at once.
        uploads: Likewise, archives that are received.
        signer: Signs manifests; None: this installation has no key.
    """

    db: Database
    receiver: Receiver
    reader: Reader
    searcher: Searcher
    baselines: Known[tuple[LineState, Sequence[str]]]
    runs: Known[BranchRow]
    kube: KubeClient
    identity: Identity
    grants: Grants
    sealer: Sealer
    feed: Feed
    live: Live
    pushes: Pushes
    waking: Waking
    lags: Lags
    exports: asyncio.Semaphore
    uploads: asyncio.Semaphore
    signer: Signer | None = None


@contextlib.asynccontextmanager
async def opened(settings: Settings) -> AsyncIterator[Parts]:
    """The parts, for the length of a block.

    Raises:
        InvalidInputError: If the cursor keys are missing or too short, or the signing key is none.
        UnavailableError: If Postgres cannot be reached or has another schema, or there is no Kubernetes configuration.
    """
    sealer = Sealer(settings.cursor_keys)
    async with contextlib.AsyncExitStack() as stack:
        db = await Database.open(settings.dsn, application_name="anabranch-api")
        stack.push_async_callback(db.close)
        async with db.connection() as conn:
            await migrate.check(conn)
        kube = await KubeClient.open(settings.kubeconfig)
        stack.push_async_callback(kube.close)
        waking = await stack.enter_async_context(Waking(db, dsn=settings.listen_dsn))
        yield Parts(
            db=db,
            receiver=Receiver(db),
            reader=Reader(db),
            searcher=Searcher(db),
            baselines=Known(size=BASELINES),
            runs=Known(size=RUNS),
            kube=kube,
            identity=Identity(kube, audience=settings.audience),
            grants=Grants(kube),
            sealer=sealer,
            feed=Feed(db, sealer, waking),
            live=Live(db, sealer, waking),
            pushes=Pushes(db, waking),
            waking=waking,
            lags=Lags(),
            exports=asyncio.Semaphore(EXPORTS),
            uploads=asyncio.Semaphore(UPLOADS),
            signer=_signer(settings),
        )


def _signer(settings: Settings) -> Signer | None:
    if settings.signing_key is None:
        return None
    try:
        return Signer.from_pem(settings.signing_key.read_bytes())
    except OSError as error:
        raise InvalidInputError(
            f"The signing key cannot be read: {error}.", hint="Mend ANABRANCH_SIGNING_KEY, or leave it out."
        ) from error


def parts_of(request: Request) -> Parts:
    """The parts of the application that serves a request."""
    return cast("Parts", request.app.state.parts)


WithParts = Annotated[Parts, Depends(parts_of)]
