"""The review page in the API's own process: people log in, and read and decide by the routes, with their own grants.

A page's calls come back to this very application, as those of MCP tools do. They carry a token that is made for the one
page and known to this process alone; whose it is was found out when the person logged in.
"""

from __future__ import annotations

import contextlib
from collections import defaultdict
from typing import TYPE_CHECKING, Final

import httpx
from starlette.responses import RedirectResponse

from anabranch.api.mcp import INSIDE
from anabranch.api.measured import TEMPLATE
from anabranch.baselines import read as baselines
from anabranch.branches import read as branches
from anabranch.client import AnabranchClient
from anabranch.identity import Grant, grants
from anabranch.web import app as pages
from anabranch.web.heard import check_heard, noted
from anabranch.web.login import LoginGate

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Sequence

    from fastapi import FastAPI
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import ASGIApp, Receive, Scope, Send

    from anabranch.api.parts import Parts
    from anabranch.identity import Caller
    from anabranch.model.merging import MergeRequest
    from anabranch.model.requests import DecisionRequest, GroupDecisionRequest
    from anabranch.web.desk import Voice

BASE: Final = "/ui"

DECLARE: Final = Grant("change baselines", "baselines", "patch", "baseline")
"""No row of the table: no route asks for it, the API server does when somebody applies what a page shows."""


class PersonDesk:
    """The desk of somebody who has logged in.

    Args:
        app: Answers calls.
        parts: What it is made of.
        caller: Who has logged in.
    """

    def __init__(self, app: ASGIApp, parts: Parts, caller: Caller) -> None:
        self._app = app
        self._parts = parts
        self._caller = caller

    @property
    def person(self) -> str:
        """The username."""
        return self._caller.username

    @contextlib.asynccontextmanager
    async def client(self) -> AsyncIterator[AnabranchClient]:
        """The API, as this person, for one page."""
        inside = httpx.ASGITransport(app=self._app, raise_app_exceptions=False)
        with self._parts.identity.vouching(self._caller) as token:
            async with AnabranchClient(INSIDE, token=token, through=inside) as client:
                yield client

    async def namespaces(self) -> Sequence[str]:
        """Those with a Baseline that this person may see, or whose findings they may."""
        known: defaultdict[str, list[str]] = defaultdict(list)
        for found in await self._parts.stores.reachable(lambda store: baselines.directory(store.db)):
            for namespace, names in found.items():
                known[namespace] += names
        return [namespace for namespace, names in known.items() if await self._sees(namespace, names)]

    async def agents_namespaces(self) -> Sequence[str]:
        """Those whose branches this person may see."""
        found = await self._parts.stores.reachable(lambda store: branches.namespaces(store.db))
        known = sorted({namespace for some in found for namespace in some})
        return [namespace for namespace in known if await self._may(grants.SEE_BRANCH, namespace)]

    async def may_decide(self, namespace: str) -> bool:
        """Whether this person holds the grant to decide."""
        return await self._may(grants.DECIDE, namespace)

    async def may_declare(self, namespace: str) -> bool:
        """Whether this person may patch Baselines."""
        return await self._may(DECLARE, namespace)

    async def decide(self, namespace: str, job: str, decision: DecisionRequest, *, heard: Iterable[Voice]) -> None:
        """Note a decision by the route for it, unless something has changed since the person looked."""
        async with self.client() as client:
            check_heard(await noted(client, namespace, job, decision), set(heard), person=self.person)
            await client.review(namespace, job, [decision])

    async def merge(self, namespace: str, job: str, merge: MergeRequest) -> None:
        """Propose a merge by the route for it."""
        async with self.client() as client:
            await client.merge(namespace, job, merge)

    async def decide_group(self, namespace: str, job: str, decision: GroupDecisionRequest) -> None:
        """Note a decision on a group by the route for it, which checks that it is as the person saw it."""
        async with self.client() as client:
            await client.review(namespace, job, groups=[decision])

    async def _may(self, grant: Grant, namespace: str) -> bool:
        return await self._parts.grants.allowed(self._caller, grant, namespace=namespace)

    async def _sees(self, namespace: str, names: Sequence[str]) -> bool:
        """Whether there is something in a namespace for this person."""
        if await self._may(grants.SEE_BASELINE, namespace) or await self._may(grants.SEE_CANDIDATES, namespace):
            return True
        see = grants.SEE_BASELINE
        return bool(await self._parts.grants.scopes(self._caller, see, namespace=namespace, scopes=names))


class _Counted:
    """The pages, under one name in the metrics."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope[TEMPLATE] = BASE
        await self._app(scope, receive, send)


def serve(app: FastAPI, parts: Parts) -> None:
    """Have an application serve the pages, where there is a way to log in to them."""
    login = parts.login
    if login is None or login.settings.public_url is None:
        return
    gate = LoginGate(
        login, public_url=login.settings.public_url, base=BASE, desk=lambda caller: PersonDesk(app, parts, caller)
    )
    app.mount(BASE, _Counted(pages.create(gate)))
    for path in ("/", BASE):
        app.add_route(path, _lead, methods=["GET"], include_in_schema=False)


async def _lead(_request: Request) -> Response:
    return RedirectResponse(f"{BASE}/", status_code=303)
