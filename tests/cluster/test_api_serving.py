"""The API as a process: its health, its end, and what it asks of everybody."""

from __future__ import annotations

import asyncio
import time
from urllib.parse import urlsplit

import pytest
from tests.cluster.places import BASELINE, finding
from tests.pace import allowed

from anabranch.api.app import create_app
from anabranch.client import AnabranchClient

pytestmark = pytest.mark.long

DIGEST = "0" * 64
PARAMETERS = {
    "baseline": BASELINE, "manifest": "1", "key": "k", "sha256": DIGEST, "branch": "b", "sequence": "1",
    "checkpoint": "c", "space": "s", "agent": "a", "session": "s", "instance": "i", "section": "long_term", "item": "x",
    "event": "e",
    "retraction": f"retr_{'0' * 26}_{'0' * 26}",
}  # fmt: skip
OPERATIONS = [
    (method.upper(), path, "requestBody" in operation)
    for path, item in create_app().openapi()["paths"].items()
    if path.startswith("/v1/")
    for method, operation in item.items()
]


def filled(path: str, namespace: str) -> str:
    return path.format(namespace=namespace, job="j", **PARAMETERS)


@pytest.fixture(scope="module")
async def agent(place):
    return await place.client("agent", "anabranch-agent")


async def test_it_says_that_it_lives_and_that_its_parts_answer(place):
    assert (await place.raw(None, "GET", "/healthz")).json() == {"status": "ok", "checks": {}}
    ready = await place.raw(None, "GET", "/readyz")
    assert (ready.status_code, ready.json()["checks"]) == (200, {"postgres": "ok", "kubernetes": "ok"})
    assert (await place.raw(None, "GET", "/openapi.json")).json() == create_app().openapi()


@pytest.mark.parametrize(("method", "path", "_body"), OPERATIONS, ids=str)
async def test_every_route_wants_a_token(place, method, path, _body):
    for headers in ({}, {"Authorization": "Bearer forged"}, {"Authorization": "Basic YTpi"}):
        answer = await place.raw(None, method, filled(path, place.namespace), headers=headers)
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"] == "Bearer"


@pytest.mark.parametrize(("method", "path", "body"), OPERATIONS, ids=str)
async def test_nobody_is_read_a_body_from_before_it_is_known_who_they_are(place, method, path, body):
    """The head announces a body that never comes; the answer does not wait for it."""
    if not body:
        return
    address = urlsplit(place.stack.api_url)
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    try:
        target = filled(path, place.namespace)
        writer.write(f"{method} {target} HTTP/1.1\r\nHost: x\r\nContent-Length: 5000000000\r\n\r\n".encode())
        status = await asyncio.wait_for(reader.readline(), 10)
    finally:
        writer.close()
    assert b" 401 " in status


async def test_a_token_for_another_audience_is_refused(place):
    token = place.kubectl("create", "token", "default").strip()
    answer = await place.raw(None, "GET", "baselines", headers={"Authorization": f"Bearer {token}"})
    assert answer.status_code == 401
    assert place.stack.audience in answer.json()["detail"]


@pytest.mark.parametrize(
    "target",
    [
        "/v1/namespaces/%00/baselines",
        "/v1/namespaces/A_B/baselines",
        f"/v1/namespaces/{'x' * 64}/baselines",
        "{ns}/baselines/%00",
        "{ns}/baselines/facts/manifests/%00",
        "{ns}/baselines/facts/manifests/1e5/records",
        "{ns}/baselines/facts/manifests/-1/records/k",
        "{ns}/baselines/facts/manifests/99999999999999999999/records",
        "{ns}/baselines/facts/manifests/current/records/%00",
        "{ns}/baselines/facts/manifests/current/records/%ff%fe",
        "{ns}/baselines/facts/manifests/current/records/a%0ab",
        f"{{ns}}/baselines/facts/manifests/current/records/{'%C3%A9' * 300}",
        "{ns}/baselines/facts/manifests/current/records/e%CC%81",
        "{ns}/baselines/facts/manifests/current/records?prefix=%00",
        "{ns}/baselines/facts/manifests/current/records?limit=0",
        "{ns}/baselines/facts/manifests/current/records?limit=1e3",
        "{ns}/baselines/facts/manifests/current/records?cursor=%00",
        "{ns}/baselines/facts/manifests/current/records?nonsense=1",
        "{ns}/baselines/facts/diff",
        "{ns}/baselines/facts/diff?from=%00&to=1",
        "{ns}/baselines/facts/diff?from=1&to=99999999999999999999",
        "{ns}/baselines/facts/events?wait=nan",
        "{ns}/baselines/facts/events?wait=1e9",
        "{ns}/baselines/facts/events?after=%F0%9F%92%A9",
        "{ns}/baselines/facts/archives/sha256:xyz",
        "{ns}/branches/br_x/records",
        "{ns}/branches/%2e%2e/records/k",
        "{ns}/branches/b/batches/99999999999999999999",
        "{ns}/branches/b/batches/x",
        "{ns}/jobs?state=lost",
        "{ns}/jobs/job_1/candidates",
        "{ns}/nothing",
        "/v2",
    ],
)
async def test_nonsense_is_answered_with_a_problem_of_the_callers(place, target):
    insider = await place.client("insider", *(f"anabranch-{role}" for role in ("agent", "reviewer", "publisher")))
    answer = await place.raw(insider, "GET", target.format(ns=f"/v1/namespaces/{place.namespace}"))
    assert 400 <= answer.status_code < 500, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["hint"]


BODIES = [
    b"",
    b"\x00",
    b"null",
    b"[]",
    b"{}",
    b'{"content": 1e400}',
    b'{"content": 123456789012345678901234567890}',
    b'{"content": "\\ud800"}',
    b'{"content": "\\u0000", "scope": "\\u0000"}',
    b'{"content": 1, "scope": "Not A Scope"}',
    b'{"content": 1, "content": 2}',
    b'{"content": ' + b"[" * 100 + b"]" * 100 + b"}",
    b'{"content": 1, "visibility": "public"}',
    b'{"batches": [[]]}',
    b'{"decisions": [{}]}',
]


@pytest.mark.parametrize("body", BODIES, ids=lambda body: body[:40].decode("latin-1"))
async def test_a_bad_body_is_never_an_error_of_the_api(place, agent, body):
    branch = await place.branch(agent)
    base = f"branches/{branch.name}"
    for method, path in (
        ("PUT", f"{base}/records/k"),
        ("PUT", f"{base}/batches/1"),
        ("POST", f"{base}/batches"),
        ("PUT", f"{base}/completion"),
        ("POST", "branches"),
    ):
        answer = await place.raw(agent, method, path, content=body)
        assert 400 <= answer.status_code < 500, (method, path, answer.text)


async def test_any_json_value_may_be_content_and_comes_back_as_it_was(place, agent):
    branch = await place.branch(agent)
    values = ["\x00", "é\u2028", {"": {"a": [None, True, -0.5, 1e-7, 2**53 - 1]}}, [], None, 1e21]
    for number, value in enumerate(values):
        await agent.put_private(place.namespace, branch.name, f"v{number}", value)
        assert (await agent.get_private(place.namespace, branch.name, f"v{number}")).content == value
    changes = [finding(f"json/{branch.name}/{number}", value) for number, value in enumerate(values)]
    await place.submit(agent, branch, *changes)
    publication = await place.publication(agent, branch)
    for change in changes:
        record = await agent.record(place.namespace, BASELINE, change.key, ref=publication.generation)
        assert record.content == change.content


async def test_it_ends_at_once_though_followers_wait(place, agent):
    place.stack.start_api("ending")
    try:
        async with AnabranchClient(place.stack.url("ending"), token=place._tokens["agent"]) as client:
            waiting = asyncio.create_task(client.events(place.namespace, BASELINE, generation="head", wait=30))
            await asyncio.sleep(1)
            started = time.monotonic()
            await asyncio.to_thread(place.stack.stop, "ending")
            assert time.monotonic() - started < allowed(8)
            assert (await waiting).events == ()
    finally:
        place.stack.stop("ending")
