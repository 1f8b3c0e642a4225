"""What every request's head must be: its path in UTF-8, its protocol one that is spoken here."""

import httpx
import pytest
from fastapi import FastAPI, Request

from anabranch.api import problems
from anabranch.api.heads import Heads


@pytest.fixture
async def client():
    app = FastAPI()
    problems.install(app)

    @app.get("/{key:path}")
    async def read(request: Request, key: str):
        return key

    async with httpx.AsyncClient(transport=httpx.ASGITransport(Heads(app)), base_url="http://api") as client:
        yield client


@pytest.mark.parametrize("path", ["/records/%ff", "/records/%C3%28", "/records/caf%E9"])
async def test_a_path_that_is_no_utf8_is_refused_and_not_read_as_another_key(client, path):
    answer = await client.get(path)
    assert (answer.status_code, answer.json()["code"]) == (422, "InvalidInput")


@pytest.mark.parametrize(("path", "key"), [("/a/b%20c", "a/b c"), ("/caf%C3%A9", "café"), ("/100%25", "100%")])
async def test_a_path_in_utf8_is_taken_as_it_is(client, path, key):
    answer = await client.get(path)
    assert (answer.status_code, answer.json()) == (200, key)
    assert "Anabranch-Protocol" not in answer.headers


async def test_who_names_the_protocol_is_told_which_it_is(client):
    answer = await client.get("/key", headers={"Anabranch-Protocol": "1"})
    assert (answer.status_code, answer.headers["Anabranch-Protocol"]) == (200, "1")


@pytest.mark.parametrize("version", ["2", "", "1.0", "one"])
async def test_a_protocol_that_is_not_spoken_is_refused_with_those_that_are(client, version):
    answer = await client.get("/key", headers={"Anabranch-Protocol": version})
    assert (answer.status_code, answer.json()["code"], answer.json()["supported"]) == (400, "ProtocolUnknown", ["1"])
