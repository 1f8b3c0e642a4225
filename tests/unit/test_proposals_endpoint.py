"""A model's API that misbehaves, on a local server: what comes of it is one kind of failure, in time, and no secret."""

from __future__ import annotations

import asyncio
import json
import ssl
import time
from contextlib import asynccontextmanager

import pytest
from tests.pace import allowed
from tests.store import spans

from anabranch.devcluster import pki
from anabranch.proposals import endpoint as endpoints
from anabranch.proposals.config import ModelEndpoint
from anabranch.proposals.endpoint import Endpoint, ModelError
from anabranch.telemetry import tracing

KEY = "sk-very-secret"
ASKED = [{"role": "user", "content": "the text of a finding"}]


class Server:
    """An HTTP server that answers as it is told, byte for byte."""

    def __init__(self):
        self.requests = []
        self.answer = b""
        self.drip = None

    async def __call__(self, reader, writer):
        head = await reader.readuntil(b"\r\n\r\n")
        fields = {
            name.lower(): value.strip()
            for name, _, value in (line.partition(":") for line in head.decode().split("\r\n"))
        }
        body = await reader.readexactly(int(fields.get("content-length", 0)))
        self.requests.append((head.decode().split()[1], fields, json.loads(body)))
        try:
            if self.drip is None:
                writer.write(self.answer)
                await writer.drain()
            else:
                for byte in self.answer:
                    writer.write(bytes([byte]))
                    await writer.drain()
                    await asyncio.sleep(self.drip)
        except ConnectionError:
            pass
        finally:
            writer.close()


@asynccontextmanager
async def serving(server, **options):
    listening = await asyncio.start_server(server, "127.0.0.1", 0, **options)
    try:
        yield listening.sockets[0].getsockname()[1]
    finally:
        listening.close()


@pytest.fixture
async def server():
    server = Server()
    async with serving(server) as port:
        server.url = f"http://127.0.0.1:{port}/v1"
        yield server


def http(body=b"", *, status="200 OK", headers=()):
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", "Connection: close", *headers]
    return "\r\n".join([*lines, "", ""]).encode() + body


def completion(text="yes", *, finish="stop", **more):
    return json.dumps({"choices": [{"message": {"content": text}, "finish_reason": finish}], **more}).encode()


async def ask(server, **settings):
    settings = {"url": server.url, "model": "small", "timeoutSeconds": 60, **settings}
    return await Endpoint("local", ModelEndpoint.model_validate(settings)).ask(ASKED)


async def failure(server, **settings):
    with pytest.raises(ModelError) as raised:
        await ask(server, **settings)
    assert KEY not in str(raised.value)
    return raised.value


async def test_what_is_asked_and_what_is_said(server):
    server.answer = http(completion("both", usage={"total_tokens": 41}))
    reply = await ask(server, maxTokens=77)
    assert (reply.text, reply.tokens) == ("both", 41)
    ((path, fields, body),) = server.requests
    assert path == "/v1/chat/completions"
    assert "authorization" not in fields
    assert body == {
        "model": "small",
        "messages": ASKED,
        "max_tokens": 77,
        "temperature": 0,
        "stream": False,
        "response_format": {"type": "json_object"},
    }


async def test_a_question_is_a_span_without_a_word_of_it_nor_of_the_answer(server):
    server.answer = http(completion("swordfish", usage={"total_tokens": 41}))
    with spans.recorded() as seen, tracing.begun("propose"):
        await ask(server)
    span = seen.one("ask model")
    told = (seen.parent(span), span.kind.name, dict(span.attributes))
    assert told == ("propose", "CLIENT", {"anabranch.model": "local", "anabranch.tokens": 41})

    server.answer = http(b"swordfish", status="500 swordfish")
    with spans.recorded() as seen, tracing.begun("propose"), pytest.raises(ModelError):
        await ask(server)
    assert seen.one("ask model").attributes["error.type"] == ModelError.code
    assert not [text for text in seen.texts() if "swordfish" in text or "finding" in text]


async def test_apis_that_know_other_fields_are_asked_with_those(server):
    server.answer = http(completion())
    await ask(server, tokensField="max_completion_tokens", jsonMode=False)
    body = server.requests[0][2]
    assert "response_format" not in body
    assert "max_tokens" not in body
    assert body["max_completion_tokens"] == 2048


@pytest.mark.parametrize(
    "usage", [{}, {"usage": None}, {"usage": {"total_tokens": -5}}, {"usage": {"total_tokens": "1"}}]
)
async def test_a_count_of_tokens_that_is_none_is_not_believed(server, usage):
    server.answer = http(completion(**usage))
    assert (await ask(server)).tokens is None


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        (http(status="429 Too Many Requests"), "throttled"),
        (http(b"it broke", status="500 Oops"), "failed"),
        (http(status="401 Unauthorized"), "refused"),
        (http(completion(), status="302 Found", headers=["Location: http://127.0.0.1:1/v1"]), "redirected"),
        (http(status="204 No Content"), "refused"),
        (http(b"<html>"), "junk"),
        (http(b'{"choices": []}'), "junk"),
        (http(b"[]"), "junk"),
        (http(completion(finish="length")), "junk"),
        (http(completion(None)), "junk"),
        (http(b"\x1f\x8b", headers=["Content-Encoding: gzip"]), "junk"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{", "unreachable"),
        (b"not http at all\r\n\r\n", "unreachable"),
        (b"", "unreachable"),
    ],
    ids=str,
)
async def test_an_answer_that_is_none_is_one_kind_of_failure(server, answer, outcome):
    server.answer = answer
    assert (await failure(server)).outcome == outcome


async def test_nobody_follows_it_to_another_host(server):
    other = Server()
    other.answer = http(completion())
    async with serving(other) as port:
        server.answer = http(status="307 Moved", headers=[f"Location: http://127.0.0.1:{port}/v1/chat/completions"])
        assert (await failure(server)).outcome == "redirected"
    assert other.requests == []


@pytest.mark.parametrize(
    ("said", "pause"), [("20", 20.0), ("Wed, 21 Oct 2030 07:28:00 GMT", None), ("-1", None), ("9" * 400, None)]
)
async def test_how_long_it_asks_to_be_left_alone_is_told(server, said, pause):
    server.answer = http(status="429 Slow", headers=[f"Retry-After: {said}"])
    assert (await failure(server)).pause == pause


async def test_an_answer_that_has_no_end_is_not_read_to_its_end(server, monkeypatch):
    monkeypatch.setattr(endpoints, "_BYTES", 100_000)
    server.answer = b"HTTP/1.1 200 OK\r\n\r\n" + b" " * 300_000
    error = await failure(server)
    assert (error.outcome, "larger than" in str(error)) == ("junk", True)


async def test_one_deadline_holds_for_the_whole_answer_however_slowly_it_comes(server):
    server.answer = http(completion())
    server.drip = 0.05
    began = time.perf_counter()
    assert (await failure(server, timeoutSeconds=1)).outcome == "timeout"
    assert time.perf_counter() - began < allowed(4), "all of it takes longer"


async def test_a_model_that_is_not_there_is_unreachable(server):
    assert (await failure(server, url="http://127.0.0.1:1/v1")).outcome == "unreachable"


async def test_a_key_is_read_for_each_request_and_goes_over_tls_that_is_checked(tmp_path):
    pki.ensure(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "kube-apiserver.crt", tmp_path / "kube-apiserver.key")
    server = Server()
    server.answer = http(completion())
    key_file = tmp_path / "api-key"
    async with serving(server, ssl=context) as port:
        server.url = f"https://127.0.0.1:{port}/v1"
        for key in (KEY, "sk-next"):
            key_file.write_text(f"{key}\n")
            await ask(server, apiKeyFile=str(key_file), caFile=str(tmp_path / "ca.crt"))
            assert server.requests[-1][1]["authorization"] == f"Bearer {key}"
        count = len(server.requests)
        assert (await failure(server, apiKeyFile=str(key_file))).outcome == "unreachable"  # another authority's
        for wrong in (b"", b"sk\r\nX-Other: 1", "schlüssel".encode()):
            key_file.write_bytes(wrong)
            assert (await failure(server, apiKeyFile=str(key_file))).outcome == "refused"
        assert (await failure(server, apiKeyFile=str(tmp_path / "none"))).outcome == "refused"
        assert len(server.requests) == count
