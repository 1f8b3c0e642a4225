"""What is measured is named as Prometheus' people expect, documented, and counted for every request on either way."""

from __future__ import annotations

import asyncio
import re
import time
from types import SimpleNamespace

import aiohttp
import httpx
import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from anabranch.api.app import create_app
from anabranch.api.direct import Direct
from anabranch.api.measured import SENT, Measured
from anabranch.devcluster.ports import free
from anabranch.feed.lags import TOLD, Lags
from anabranch.model.errors import UnauthenticatedError
from anabranch.telemetry import reference
from anabranch.telemetry.declaring import Metrics
from anabranch.telemetry.listener import listening
from anabranch.telemetry.of_api import API, REQUESTS
from anabranch.telemetry.of_operator import OPERATOR_SHOWN, WAITING

BATCH = "/v1/namespaces/team/branches/run/batches/7"
BASELINE = "/v1/namespaces/team/baselines/facts"
DURATION = "anabranch_api_request_duration_seconds_count"


class Strangers:
    async def authenticate(self, _token, **_):
        raise UnauthenticatedError("Nobody knows the token.", hint="Mint one.")


@pytest.fixture
async def api():
    parts = SimpleNamespace(identity=Strangers(), login=None)
    app = Measured(Direct(create_app(parts), parts))
    headers = {"authorization": "Bearer a.b.c"}
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://api", headers=headers) as client:
        yield client


def count(name, **labels):
    return API.registry.get_sample_value(name, labels) or 0.0


def test_names_have_a_prefix_a_unit_and_a_text_and_none_is_used_twice():
    declared = list(reference.declared())
    assert len({each.name for each in declared}) == len(declared) > 30
    for each in declared:
        assert re.fullmatch(r"anabranch_[a-z0-9_]+", each.name)
        assert (each.type == "counter") == each.name.endswith("_total")
        assert not re.search(r"(milli|micro|minutes|_ms|_kb|_mb)", each.name)
        assert each.help.endswith(".")
        assert not {"branch", "key", "agent", "user", "path", "line"} & set(each.labels)
    assert reference.PAGE.read_text() == reference.page(), "run `make generate`"


def test_what_is_declared_is_what_is_shown():
    for metrics in (API, OPERATOR_SHOWN):
        text = generate_latest(metrics.registry).decode()
        shown = {family.name for family in text_string_to_metric_families(text)}
        assert shown == {each.name.removesuffix("_total") for each in metrics.all()}


@pytest.mark.parametrize(
    ("method", "path", "route", "status"),
    [
        ("PUT", BATCH, "/v1/namespaces/{namespace}/branches/{branch}/batches/{sequence}", "4xx"),
        ("PUT", f"{BATCH}?x=1", "/v1/namespaces/{namespace}/branches/{branch}/batches/{sequence}", "4xx"),
        ("GET", BASELINE, "/v1/namespaces/{namespace}/baselines/{baseline}", "4xx"),
        ("GET", f"{BASELINE}/manifests/current/records/a/b", BASELINE, "4xx"),
        ("GET", "/healthz", "/healthz", "2xx"),
        ("POST", "/healthz", "/healthz", "4xx"),
        ("GET", "/no/such/path", "unmatched", "4xx"),
    ],
    ids=["quick", "documented", "a baseline", "a record", "health", "wrong method", "nowhere"],
)
async def test_each_request_is_counted_by_its_route_whichever_way_it_goes(api, method, path, route, status):
    if route == BASELINE:
        route = "/v1/namespaces/{namespace}/baselines/{baseline}/manifests/{manifest}/records/{key}"
    labels = {"method": method, "route": route, "status": status}
    before = count(DURATION, **labels)
    answer = await api.request(method, path)
    assert count(DURATION, **labels) == before + 1
    assert count("anabranch_api_response_body_bytes_total", **labels) >= len(answer.content)
    assert REQUESTS.in_flight == 0


async def test_problems_are_counted_by_their_code_and_methods_without_number_as_one(api):
    before = count("anabranch_api_problems_total", code="Unauthenticated")
    for method, path in (("PUT", BATCH), ("GET", BASELINE)):
        assert (await api.request(method, path)).status_code == 401
    assert count("anabranch_api_problems_total", code="Unauthenticated") == before + 2
    await api.request("BREW", "/no/such/path")
    assert count(DURATION, method="other", route="unmatched", status="4xx") > 0


async def test_a_defect_counts_as_an_error_and_bodies_by_their_bytes():
    async def reads(scope, receive, send):
        scope[SENT] = 1_000  # past `send`, as streams do it
        while (await receive()).get("more_body"):
            pass
        await send({"type": "http.response.start", "status": 200})
        for piece in (b"abc", b"de"):
            await send({"type": "http.response.body", "body": piece, "more_body": piece == b"abc"})

    async def breaks(_scope, _receive, _send):
        raise RuntimeError

    async def body():
        return {"type": "http.request", "body": b"1234567", "more_body": False}

    async def forget(_message):
        pass

    scope = {"type": "http", "method": "PUT", "headers": [], "anabranch.route": "/measured"}
    await Measured(reads)(dict(scope), body, forget)
    with pytest.raises(RuntimeError):
        await Measured(breaks)(dict(scope), body, forget)
    ok, error = ({"method": "PUT", "route": "/measured", "status": status} for status in ("2xx", "5xx"))
    assert count("anabranch_api_request_body_bytes_total", **ok) == 7
    assert count("anabranch_api_response_body_bytes_total", **ok) == 1_005
    assert count(DURATION, **error) == 1
    assert REQUESTS.in_flight == 0


async def test_a_histogram_adds_up():
    at = {"method": "PUT", "route": "/adds-up", "status": "2xx"}
    for seconds in (0.001, 0.002, 0.3, 99):
        REQUESTS.note(method="PUT", route="/adds-up", status=200, seconds=seconds, received=0, sent=0)
    bounds = {"0.001": 1, "0.0025": 2, "0.25": 2, "0.5": 3, "30.0": 3, "+Inf": 4}
    for bound, wanted in bounds.items():
        assert count("anabranch_api_request_duration_seconds_bucket", le=bound, **at) == wanted
    assert count(DURATION, **at) == 4
    assert count("anabranch_api_request_duration_seconds_sum", **at) == pytest.approx(99.303)


@pytest.mark.parametrize("path", [BATCH, f"{BATCH}?x=1"], ids=["quick", "documented"])
@pytest.mark.parametrize(
    ("sent", "kept"), [("run-7.retry_2", True), ("x" * 64, True), ("x" * 65, False), ("a b", False), ('"', False)]
)
async def test_a_request_has_the_callers_id_if_it_is_a_sane_one_and_the_problem_names_it(api, path, sent, kept):
    answer = await api.put(path, headers={"x-request-id": sent})
    (given,) = answer.headers.get_list("x-request-id")
    assert (given == sent) is kept
    assert answer.json()["request_id"] == given
    assert re.fullmatch(r"[A-Za-z0-9._-]{1,64}", given)


def test_measuring_a_request_costs_little():
    """Some 3 µs on a quiet machine; the bound is for a busy one, and far below the millisecond that a request takes."""

    async def nothing(_scope, _receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"x"})

    async def ignore(_message):
        pass

    async def best(app):
        headers = [(b"host", b"api"), (b"authorization", b"Bearer a.b.c"), (b"accept", b"*/*")]
        took = []
        for _ in range(200):
            began = time.perf_counter()
            for _ in range(10):
                scope = {"type": "http", "method": "GET", "headers": headers, "anabranch.route": "/cheap"}
                await app(scope, None, ignore)
            took.append((time.perf_counter() - began) / 10)
        return min(took)

    assert asyncio.run(best(Measured(nothing))) - asyncio.run(best(nothing)) < 25e-6


class Process:
    def __init__(self, metrics):
        self.wrong: dict[str, str] = {}
        self._seen = metrics.gauge("measured", "How often it was measured.")

    def alive(self):
        return {}

    async def ready(self):
        return self.wrong

    def facts(self):
        return {"leading": True}

    def measure(self):
        self._seen.inc()


async def test_the_inner_port_shows_metrics_and_says_in_json_why_a_process_is_not_ready():
    metrics = Metrics("A process")
    process, port = Process(metrics), free(["inner"])["inner"]
    async with (
        listening(metrics, process, host="127.0.0.1", port=port),
        aiohttp.ClientSession(f"http://127.0.0.1:{port}") as client,
    ):
        async with client.get("/metrics") as shown:
            assert "anabranch_measured 1.0" in await shown.text()
            assert shown.headers["content-type"].startswith("text/plain; version=")
        async with client.get("/readyz") as answer:
            assert (answer.status, await answer.json()) == (200, {"ok": True, "leading": True, "wrong": {}})
        process.wrong = {"database": "It is away."}
        async with client.get("/readyz") as answer:
            assert (answer.status, (await answer.json())["wrong"]) == (503, process.wrong)
        async with client.get("/healthz") as answer:
            assert answer.status == 200


def test_what_is_not_known_any_more_is_not_told():
    metrics = Metrics("A leader")
    reading = metrics.reading("due", "What is due.", "queue")
    reading.set({("jobs",): 3, ("visits",): 0})
    assert metrics.registry.get_sample_value("anabranch_due", {"queue": "visits"}) == 0
    reading.set({("jobs",): 1})
    assert metrics.registry.get_sample_value("anabranch_due", {"queue": "visits"}) is None
    metrics.forget()
    assert metrics.registry.get_sample_value("anabranch_due", {"queue": "jobs"}) is None
    assert all(each.type == "gauge" for each in WAITING.declared), "so all of it can be forgotten"


def test_of_any_number_of_lines_only_those_with_the_most_lag_are_told_and_not_for_long():
    now = 0.0
    lags = Lags(clock=lambda: now)
    for number in range(1_000):
        lags.note("team", f"facts-{number}", number)
        lags.note("team", f"facts-{number}", 0)
    told = lags.worst()
    assert told == {("team", f"facts-{number}"): number for number in range(1_000 - TOLD, 1_000)}
    now = 299.0
    lags.note("team", "facts-0", 7)
    now = 301.0
    assert lags.worst() == {("team", "facts-0"): 7}
