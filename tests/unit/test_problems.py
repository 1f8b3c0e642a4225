"""Whatever goes wrong is answered with one RFC 9457 problem that says what to do, and never with a surprise."""

from __future__ import annotations

import base64
import hashlib
from typing import Annotated

import httpx
import pytest
from fastapi import Depends, FastAPI, Query, Request
from pydantic import BaseModel, ConfigDict, Field

from anabranch.api import problems
from anabranch.api.bodies import JsonBody, RawBody
from anabranch.api.paging import QueryModel
from anabranch.api.routing import Route
from anabranch.model import errors
from anabranch.model.errors import AnabranchError


class Thing(BaseModel):
    model_config = ConfigDict(extra="forbid")
    size: int = Field(ge=1, le=9)
    name: str = "x"


class Paged(QueryModel):
    limit: int = Field(5, ge=1, le=10)


def application() -> FastAPI:
    app = FastAPI(redirect_slashes=False)
    app.router.route_class = Route
    problems.install(app)

    @app.put("/thing")
    async def put_thing(thing: Annotated[Thing, Depends(JsonBody(Thing, limit=1000))]) -> int:
        return thing.size

    @app.put("/raw")
    async def put_raw(body: Annotated[bytes, Depends(RawBody(limit=10, what="note", hint="Be brief."))]) -> int:
        return len(body)

    @app.get("/paged")
    async def paged(query: Annotated[Paged, Query()]) -> int:
        return query.limit

    @app.get("/plain")
    async def plain() -> int:
        return 1

    @app.get("/raise/{code}")
    async def fail(code: str, request: Request) -> None:
        raise request.app.state.errors[code]

    return app


@pytest.fixture
async def http():
    app = application()
    app.state.errors = {}
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
        client.app = app
        yield client


def problem_of(response: httpx.Response) -> dict:
    assert response.headers["content-type"] == "application/problem+json"
    problem = response.json()
    assert problem["status"] == response.status_code
    assert problem["type"] == f"/problems/{problem['code']}"
    assert problem["detail"]
    assert problem["hint"]
    return problem


ALL = [error for error in vars(errors).values() if isinstance(error, type) and issubclass(error, AnabranchError)]


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.__name__)
async def test_every_error_is_its_own_problem(http, kind):
    http.app.state.errors["e"] = kind("It went wrong.", hint="Do this.", limit=7)
    response = await http.get("/raise/e")
    problem = problem_of(response)
    assert response.status_code == kind.status
    assert (problem["code"], problem["detail"], problem["hint"], problem["limit"]) == (
        kind.code,
        "It went wrong.",
        "Do this.",
        7,
    )
    assert (response.headers.get("www-authenticate") == "Bearer") == (kind.status == 401)
    assert ("retry-after" in response.headers) == (kind.status == 503)


async def test_a_defect_is_answered_without_its_words(http):
    http.app.state.errors["e"] = RuntimeError("the password is swordfish")
    response = await http.get("/raise/e")
    assert problem_of(response)["code"] == "Internal"
    assert "swordfish" not in response.text


async def test_unknown_paths_and_methods_are_problems_too(http):
    assert problem_of(await http.get("/nowhere"))["code"] == "RouteNotFound"
    assert "control character" in problem_of(await http.get("/nowhere/a%0Ab"))["detail"]
    response = await http.post("/plain")
    assert problem_of(response)["code"] == "MethodNotAllowed"
    assert response.headers["allow"] == "GET"


@pytest.mark.parametrize(
    ("query", "field"),
    [("limit=0", "query.limit"), ("limit=11", "query.limit"), ("limit=many", "query.limit"), ("limt=5", "query.limt")],
)
async def test_a_bad_query_is_refused_by_the_name_of_its_field(http, query, field):
    problem = problem_of(await http.get(f"/paged?{query}"))
    assert problem["status"] == 422
    assert [error["field"] for error in problem["errors"]] == [field]


async def test_a_route_without_query_parameters_refuses_any(http):
    assert "prefix" in problem_of(await http.get("/plain?prefix=a"))["detail"]
    assert (await http.get("/plain")).json() == 1


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (b'{"size": 12}', "body.size"),
        (b'{"size": 1, "colour": "red"}', "body.colour"),
        (b'{"size": "5"}', "body.size"),
        (b'{"size": true}', "body.size"),
        (b"{}", "body.size"),
        (b"[1]", "body"),
        (b'{"size": 1, "size": 2}', "twice"),
        (b'{"size": NaN}', "NaN"),
        (b'{"size": 1e999}', "finite"),
        (b'{"name": "\\ud800", "size": 1}', "surrogate"),
        (b"\xff\xfe{", "JSON"),
        (b"", "JSON"),
        (b"[" * 900, "JSON"),
    ],
)
async def test_a_bad_body_is_refused_by_what_is_wrong_with_it(http, body, told):
    problem = problem_of(await http.put("/thing", content=body))
    assert problem["status"] == 422
    assert told in problem["detail"]


async def test_a_body_is_refused_as_soon_as_it_is_over_the_limit(http):
    sent = 0

    async def endless():
        nonlocal sent
        while True:
            sent += 4
            yield b"xxxx"

    response = await http.put("/raw", content=endless())
    problem = problem_of(response)
    assert (problem["status"], problem["limit"], problem["hint"]) == (413, 10, "Be brief.")
    assert sent < 100


async def test_an_announced_length_over_the_limit_is_refused_unread(http):
    async def unread():
        pytest.fail("the body was read")
        yield b""

    response = await http.put("/raw", content=unread(), headers={"Content-Length": "11"})
    assert problem_of(response)["status"] == 413
    assert (await http.put("/raw", content=b"x" * 10)).json() == 10


def sha(name: str, body: bytes) -> str:
    return f"{name}=:{base64.b64encode(hashlib.new(name.replace('-', ''), body).digest()).decode()}:"


async def test_a_torn_body_is_caught_by_its_content_digest(http):
    for name in ("sha-256", "sha-512"):
        right = await http.put("/raw", content=b"whole", headers={"Content-Digest": sha(name, b"whole")})
        assert right.json() == 5
        torn = await http.put("/raw", content=b"whol", headers={"Content-Digest": sha(name, b"whole")})
        assert problem_of(torn)["code"] == "DigestMismatch"
    both = f"{sha('sha-256', b'whole')}, {sha('sha-512', b'other')}"
    assert problem_of(await http.put("/raw", content=b"whole", headers={"Content-Digest": both}))["status"] == 400


@pytest.mark.parametrize("field", ["", "md5=:AAAA:", "sha-256=abc", "sha-256=:not base64", "?", "sha-256=(1 2)"])
async def test_a_content_digest_that_cannot_be_checked_is_no_digest(http, field):
    response = await http.put("/raw", content=b"whole", headers={"Content-Digest": field})
    assert problem_of(response)["status"] == 422


async def test_a_compressed_body_is_refused_and_not_taken_for_the_content(http):
    response = await http.put("/raw", content=b"\x1f\x8b", headers={"Content-Encoding": "gzip"})
    assert "gzip" in problem_of(response)["detail"]
