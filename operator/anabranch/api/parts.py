"""The parts that handlers call, opened once for a process."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Final, cast

from fastapi import Depends, Request

from anabranch.api.known import Known
from anabranch.api.opening import opened as opened_stores
from anabranch.api.settings import Settings
from anabranch.api.stores import Store, Stores
from anabranch.domain.cursor import Sealer
from anabranch.domain.signing import Signer
from anabranch.feed.lags import Lags
from anabranch.identity import Grants, Identity
from anabranch.identity.oidc import Issuer, People
from anabranch.kube.client import KubeClient
from anabranch.memory.pushing import Pushes
from anabranch.model.errors import InvalidInputError
from anabranch.search import embedding
from anabranch.search.asking import Searcher
from anabranch.store.branches import BranchRow
from anabranch.store.database import Database
from anabranch.store.lines import LineState
from anabranch.web.login import Login

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
        stores: The databases.
        baselines: Baselines by namespace and name, with their stores and scopes, as they were when last looked up:
            what is done with one has to find out whether it is there still.
        runs: Branches by id, with their stores, as they were when first seen: what never changes of them may be relied
            on.
        kube: The API server, as the API's account.
        identity: Tells who calls.
        grants: Tells what they may do.
        sealer: Makes and opens cursors.
        pushes: Streams events of agents.
        lags: How far behind followers are.
        exports: Bounds how many exports are made at once.
        uploads: Likewise, archives that are received.
        signer: Signs manifests; None: this installation has no key.
        login: What people log in by; None: the issuer of their tokens is not known.
    """

    stores: Stores
    baselines: Known[tuple[Store, LineState, Sequence[str]]]
    runs: Known[tuple[Store, BranchRow]]
    kube: KubeClient
    identity: Identity
    grants: Grants
    sealer: Sealer
    pushes: Pushes
    lags: Lags
    exports: asyncio.Semaphore
    uploads: asyncio.Semaphore
    signer: Signer | None = None
    login: Login | None = None


@contextlib.asynccontextmanager
async def opened(settings: Settings) -> AsyncIterator[Parts]:
    """The parts, for the length of a block.

    Raises:
        InvalidInputError: If the cursor keys are missing or too short, the signing key is none, or the embedder cannot
            be loaded.
        UnavailableError: If Postgres cannot be reached or has another schema, or there is no Kubernetes configuration.
    """
    sealer = Sealer(settings.cursor_keys)
    async with contextlib.AsyncExitStack() as stack:
        stores = await stack.enter_async_context(
            opened_stores(settings, sealer=sealer, searching=lambda db: _searcher(db, settings))
        )
        kube = await KubeClient.open(settings.kubeconfig)
        stack.push_async_callback(kube.close)
        login = None
        if settings.oidc is not None:
            issuer = Issuer(settings.oidc)
            stack.push_async_callback(issuer.close)
            people = People(settings.oidc, issuer)
            login = Login(settings=settings.oidc, issuer=issuer, people=people, keys=settings.session_keys)
        yield Parts(
            stores=stores,
            baselines=Known(size=BASELINES),
            runs=Known(size=RUNS),
            kube=kube,
            identity=Identity(kube, audience=settings.audience, people=login.people if login else None),
            grants=Grants(kube),
            sealer=sealer,
            pushes=Pushes(stores.default.db, stores.default.waking),
            lags=Lags(),
            exports=asyncio.Semaphore(EXPORTS),
            uploads=asyncio.Semaphore(UPLOADS),
            signer=_signer(settings),
            login=login,
        )


def _searcher(db: Database, settings: Settings) -> Searcher:
    if settings.embedder is None:
        return Searcher(db, mode=settings.search_mode)
    embedder = embedding.load(settings.embedder)
    from anabranch.search.meaning import Meaning  # noqa: PLC0415  (NumPy, with an embedder alone)

    return Searcher(db, meaning=Meaning(embedder), mode=settings.search_mode)


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
