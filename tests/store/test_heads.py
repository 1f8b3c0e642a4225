"""HEAD is answered as GET without the body, and a read whose answer the caller has is answered 304."""

from __future__ import annotations

import asyncio

import httpx
import pytest
from starlette.routing import Match
from tests.store.served import serving
from tests.store.world import AGENTS, AUTOMATIC, TEAM

from anabranch.api.app import ROUTERS
from anabranch.api.routing import Route
from anabranch.model.requests import BranchRequest

BASELINE = f"/v1/namespaces/{TEAM}/baselines/facts"
RECORD = f"{BASELINE}/manifests/current/records/a"
STREAM = {"Accept": "text/event-stream"}
OF_EACH = ("date", "transfer-encoding", "x-request-id")
"""Headers that no two answers share, or that tell of a body alone."""


@pytest.fixture
async def served(db, database):
    async with serving(db, database.api) as served:
        yield served


@pytest.fixture
async def http(served):
    await served.world.import_documents({"a": "first", "b": "first"}, **AUTOMATIC)
    async with httpx.AsyncClient(base_url=served.url, headers={"Authorization": "Bearer ada"}) as http:
        yield http


def told(answer):
    return {name: value for name, value in answer.headers.items() if name not in OF_EACH}


@pytest.mark.parametrize(
    "path",
    [
        "/healthz",
        f"/v1/namespaces/{TEAM}/baselines",
        BASELINE,
        RECORD,
        f"{RECORD}?proof=true",
        f"{BASELINE}/manifests/1/records",
        f"{BASELINE}/manifests/1/export",
        f"{BASELINE}/events",
        f"{BASELINE}/manifests/current/records/none",
        f"{BASELINE}/manifests/7",
        f"{BASELINE}?unknown=1",
    ],
)
async def test_head_has_the_status_and_headers_of_get_and_no_body(http, path):
    got, head = await http.get(path), await http.head(path)
    assert (head.status_code, told(head)) == (got.status_code, told(got))
    assert (head.content, got.content != b"") == (b"", True)


async def test_head_of_a_stream_ends_and_follows_nothing(served, http):
    async with asyncio.timeout(30):
        answer = await http.head(f"{BASELINE}/events", headers=STREAM)
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert len(served.parts.stores.default.live) == 0


async def test_evidence_that_is_there_is_told_without_being_read(served, http, monkeypatch):
    client = await served.client()
    request = BranchRequest(name="run", baseline="facts", baseline_namespace=TEAM)
    branch = await client.create_branch(AGENTS, request)
    locator = await client.put_evidence(AGENTS, branch.branch_id, b"a log")
    path = f"/v1/namespaces/{AGENTS}/branches/run/evidence/{locator.removeprefix('evidence:')}"
    monkeypatch.setattr("anabranch.api.routes.evidence.get_evidence", None)
    assert (await http.head(path)).status_code == 200
    assert (await http.head(path[:-1] + ("0" if path[-1] != "0" else "1"))).status_code == 404


def test_every_route_that_answers_get_answers_head():
    every = [route for module in ROUTERS for route in module.router.routes]
    routes = [route for route in every if isinstance(route, Route) and "GET" in route.methods]
    assert len(routes) > 40
    for route in routes:
        path = route.path_format.replace("{", "").replace("}", "").replace(":path", "")
        scope = {"type": "http", "method": "HEAD", "path": path, "root_path": "", "headers": []}
        assert route.matches(scope)[0] is Match.FULL, path
        assert route.matches({**scope, "method": "TRACE"})[0] is Match.PARTIAL, path


@pytest.mark.parametrize("method", ["GET", "HEAD"])
async def test_who_has_an_answer_is_told_that_it_still_is_so(http, method):
    tag = (await http.get(RECORD)).headers["etag"]
    for given in (tag, f"W/{tag}", f'"other", {tag}', "*"):
        answer = await http.request(method, RECORD, headers={"If-None-Match": given})
        assert (answer.status_code, answer.headers["etag"], answer.content) == (304, tag, b"")
    for given in ('"other"', '"*"'):
        assert (await http.request(method, RECORD, headers={"If-None-Match": given})).status_code == 200
    # What is not there is not there, whatever the caller has.
    assert (await http.get(f"{RECORD}/none", headers={"If-None-Match": "*"})).status_code == 404


@pytest.mark.parametrize("ref", ["01", "001", "1_0", "٣", "+1", "1.0", "9" * 19])
async def test_a_generation_is_written_in_one_way(http, ref):
    assert (await http.get(f"{BASELINE}/manifests/1")).status_code == 200
    for path in (f"manifests/{ref}", f"manifests/{ref}/records/a", f"manifests/{ref}/records"):
        assert (await http.get(f"{BASELINE}/{path}")).status_code == 404, path
    assert (await http.get(f"{BASELINE}/search", params={"q": "first", "generation": ref})).status_code == 404
