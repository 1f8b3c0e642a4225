"""The client over a real socket: what it repeats and what not, what it sends, what it raises."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
from dataclasses import dataclass, field

import pytest

from anabranch.client import AnabranchClient, transport
from anabranch.client.transport import content_digest, path
from anabranch.model.canonical import content_hash
from anabranch.model.errors import (
    AnabranchError,
    ConflictError,
    ForbiddenError,
    GoneError,
    InvalidInputError,
    NotFoundError,
    UnauthenticatedError,
    UnavailableError,
)
from anabranch.model.objects import Change, Receipt, batch_hash
from anabranch.model.requests import DecisionRequest

HASH = content_hash("x")
LINE = "01m8mvff18egbb4skcq16gd027"
STATE = {"digest": HASH, "size": 3, "created_at": "2026-01-01T00:00:00Z"}
PRIVATE = {
    "key": "k",
    "revision": "1",
    "scope": "shared",
    "visibility": "private",
    "content": 1,
    "content_hash": HASH,
    "base_revision": "0",
    "updated_at": "2026-01-01T00:00:00Z",
}


@dataclass
class Seen:
    method: str
    target: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Api:
    """A server that gives the answers that it was told to give, in order; a problem, an object, or a broken line."""

    answers: list = field(default_factory=list)
    seen: list[Seen] = field(default_factory=list)
    port: int = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                line, *fields = head.strip().split("\r\n")
                headers = {name.lower(): value for name, value in (one.split(": ", 1) for one in fields)}
                body = await self.body(reader, headers)
                method, target, _ = line.split()
                self.seen.append(Seen(method, target, headers, body))
                answer = self.answers.pop(0)
                if answer is None:
                    break
                status, value, kind = answer
                sent = value if isinstance(value, bytes) else json.dumps(value).encode()
                lines = [f"HTTP/1.1 {status} X", f"Content-Type: {kind}", f"Content-Length: {len(sent)}", "", ""]
                writer.write("\r\n".join(lines).encode() + sent)
                await writer.drain()
        writer.close()

    async def body(self, reader: asyncio.StreamReader, headers: dict[str, str]) -> bytes:
        if headers.get("transfer-encoding") != "chunked":
            return await reader.readexactly(int(headers.get("content-length", 0)))
        body = b""
        while size := int(await reader.readline(), 16):
            body += (await reader.readexactly(size + 2))[:-2]
        await reader.readline()
        return body

    def says(self, *answers: object) -> None:
        self.answers += [
            None if answer is None else ok(answer) if isinstance(answer, dict) else answer for answer in answers
        ]


def ok(value: dict) -> tuple:
    return 200, value, "application/json"


def problem(status: int, code: str, **extra: object) -> tuple:
    value = {"type": f"/problems/{code}", "status": status, "code": code, "detail": "No.", "hint": "Do this.", **extra}
    return status, value, "application/problem+json"


@pytest.fixture
async def api(monkeypatch):
    monkeypatch.setattr(transport, "pause", lambda _attempt: 0.001)
    api = Api()
    server = await asyncio.start_server(api.serve, "127.0.0.1", 0)
    api.port = server.sockets[0].getsockname()[1]
    yield api
    server.close()


@pytest.fixture
async def client(api):
    async with AnabranchClient(f"http://127.0.0.1:{api.port}/", token="t0ken") as client:
        yield client


async def test_reading_is_tried_again_while_the_api_is_away(api, client):
    api.says(problem(503, "Unavailable"), None, problem(503, "Unavailable"), PRIVATE)
    assert (await client.get_private("ns", "br", "k")).revision == "1"
    assert [seen.method for seen in api.seen] == ["GET"] * 4
    assert api.seen[0].headers["authorization"] == "Bearer t0ken"


async def test_it_gives_up_after_some_attempts_and_says_what_it_met(api, client):
    api.says(*[problem(503, "Unavailable")] * transport.ATTEMPTS)
    with pytest.raises(UnavailableError, match=r"No\. Do this\."):
        await client.get_private("ns", "br", "k")
    assert len(api.seen) == transport.ATTEMPTS


async def test_a_refusal_is_not_tried_again(api, client):
    api.says(problem(404, "NotFound"))
    with pytest.raises(NotFoundError):
        await client.get_private("ns", "br", "k")
    assert len(api.seen) == 1


async def test_a_conditional_write_is_never_repeated_blindly(api, client):
    api.says(None)
    with pytest.raises(UnavailableError):
        await client.put_private("ns", "br", "k", 1, if_match="4")
    api.says(problem(503, "Unavailable"))
    with pytest.raises(UnavailableError):
        await client.put_private("ns", "br", "k", 1, if_none_match=True)
    assert [(s.headers.get("if-match"), s.headers.get("if-none-match")) for s in api.seen] == [
        ('"4"', None),
        (None, "*"),
    ]
    api.says(None, PRIVATE)
    await client.put_private("ns", "br", "k", 1)
    assert len(api.seen) == 4


async def test_a_review_is_not_repeated(api, client):
    api.says(None)
    decision = DecisionRequest(
        candidate_id=f"cand_{LINE}_{LINE}", content_hash=HASH, base_revision="0", action="accept"
    )
    with pytest.raises(UnavailableError):
        await client.review("ns", "job", [decision])
    assert len(api.seen) == 1


async def test_what_was_never_sent_is_tried_again_whatever_it_is(api, client, unused_port):
    async with AnabranchClient(f"http://127.0.0.1:{unused_port}", token="t") as nobody:
        with pytest.raises(UnavailableError, match="cannot be reached"):
            await nobody.delete_private("ns", "br", "k")


@pytest.fixture
async def unused_port():
    server = await asyncio.start_server(lambda _r, w: w.close(), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    server.close()
    await server.wait_closed()
    return port


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (problem(401, "Unauthenticated"), UnauthenticatedError),
        (problem(403, "SelfReview", candidate_id="cand_1"), ForbiddenError),
        (problem(409, "ReviewStale", base_revision="7"), ConflictError),
        (problem(410, "CursorExpired", cursor="c"), GoneError),
        (problem(418, "Teapot"), AnabranchError),
    ],
)
async def test_a_problem_is_raised_as_the_error_that_it_is_with_its_code_and_members(api, client, answer, kind):
    api.says(answer)
    with pytest.raises(kind) as caught:
        await client.baseline("ns", "kb")
    status, value, _ = answer
    assert (caught.value.status, caught.value.code, caught.value.hint) == (status, value["code"], "Do this.")
    assert caught.value.extra == {k: v for k, v in value.items() if k in ("candidate_id", "base_revision", "cursor")}


async def test_an_answer_that_is_no_problem_names_the_address(api, client):
    api.says((500, b"<html>proxy error</html>", "text/html"))
    with pytest.raises(AnabranchError, match="proxy error") as caught:
        await client.baseline("ns", "kb")
    assert caught.value.status == 500


async def test_members_that_a_newer_api_adds_are_left_out(api, client):
    api.says({**PRIVATE, "added_later": True})
    assert (await client.get_private("ns", "br", "k")).key == "k"


async def test_an_answer_of_another_shape_is_an_error_with_words(api, client):
    api.says({**PRIVATE, "revision": -1})
    with pytest.raises(AnabranchError, match=r"no PrivateRecord: revision: .*client of the API's release"):
        await client.get_private("ns", "br", "k")


async def test_a_list_is_read_to_its_last_page(api, client):
    api.says({"items": [PRIVATE], "next_cursor": "c1"}, {"items": [], "next_cursor": "c2"})
    api.says({"items": [PRIVATE], "next_cursor": None})
    assert len([record async for record in client.private_records("ns", "br")]) == 2
    assert [seen.target.partition("?")[2] for seen in api.seen] == ["", "cursor=c1", "cursor=c2"]


async def test_a_batch_goes_with_its_hash_and_its_digest_and_is_acknowledged(api, client):
    receipt = {
        "ack": "receipt",
        "receipt_id": "r",
        "branch_id": "br_1",
        "sequence": 3,
        "content_hash": HASH,
        "contiguous_through": 3,
        "received_at": "2026-01-01T00:00:00Z",
    }
    api.says(None, receipt)
    answer = await client.submit_batch(
        "ns",
        "br_1",
        sequence=3,
        changes=[Change(key="k", content={"pi": 3.25}, visibility="shareable")],
        sources=[["evidence:" + HASH]],
        base_revisions=["0"],
    )
    assert isinstance(answer, Receipt)
    first, second = api.seen
    assert (first.method, first.target) == ("PUT", "/v1/namespaces/ns/branches/br_1/batches/3")
    assert first.body == second.body
    sent = json.loads(second.body)
    assert sent["content_hash"] == batch_hash(sent)
    assert second.headers["content-digest"] == content_digest(second.body)


async def test_an_archive_is_sent_in_pieces_and_begun_anew_after_a_failure(api, client, tmp_path):
    body = b"archive" * 400_000
    file = tmp_path / "a.anabranch"
    file.write_bytes(body)
    digest = f"sha256:{hashlib.sha256(body).hexdigest()}"
    api.says(problem(404, "NotFound"), problem(503, "Unavailable"), STATE)
    sent = []
    assert (await client.upload_archive("ns", "kb", file, digest, progress=sent.append)).size == 3
    assert sent[-1] == file.stat().st_size
    assert [seen.method for seen in api.seen] == ["GET", "PUT", "PUT"]
    assert api.seen[1].body == api.seen[2].body == body
    api.says(STATE)
    await client.upload_archive("ns", "kb", file, digest)
    assert len(api.seen) == 4, "an archive that is there is not sent again"


async def test_the_token_file_is_read_anew_for_each_request(api, tmp_path):
    token = tmp_path / "token"
    async with AnabranchClient(f"http://127.0.0.1:{api.port}", token_file=token) as client:
        for text in ("first", "second"):
            token.write_text(f"{text}\n")
            api.says(PRIVATE)
            await client.get_private("ns", "br", "k")
            assert api.seen[-1].headers["authorization"] == f"Bearer {text}"
        token.unlink()
        with pytest.raises(UnauthenticatedError, match="token file"):
            await client.get_private("ns", "br", "k")


async def test_every_request_says_which_protocol_it_speaks(api, client):
    api.says(PRIVATE)
    await client.get_private("ns", "br", "k")
    assert api.seen[-1].headers["anabranch-protocol"] == "1"


async def test_a_pod_s_environment_is_enough(api, tmp_path):
    (tmp_path / "token").write_text("from-file\n")
    here = {"ANABRANCH_URL": f"http://127.0.0.1:{api.port}", "ANABRANCH_TOKEN": "given"}
    for environment, token in ((here, "given"), ({**here, "ANABRANCH_TOKEN_FILE": f"{tmp_path}/token"}, "from-file")):
        async with AnabranchClient.from_environment(environment) as client:
            api.says(PRIVATE)
            await client.get_private("ns", "br", "k")
            assert api.seen[-1].headers["authorization"] == f"Bearer {token}"
    for missing in (("ANABRANCH_URL",), ("ANABRANCH_TOKEN",)):
        with pytest.raises(InvalidInputError, match="ANABRANCH_TOKEN_FILE"):
            AnabranchClient.from_environment({name: value for name, value in here.items() if name not in missing})


async def test_batches_in_one_request_are_received_or_refused_each_by_itself(api, client):
    receipt = {
        "ack": "receipt",
        "receipt_id": "r",
        "branch_id": "br_1",
        "sequence": 1,
        "content_hash": HASH,
        "contiguous_through": 1,
        "received_at": "2026-01-01T00:00:00Z",
    }
    _, refusal, _ = problem(409, "Conflict", received=HASH)
    api.says(
        {
            "results": [
                {"sequence": 1, "status": 200, "answer": receipt},
                {"sequence": 2, "status": 409, "answer": refusal},
            ]
        }
    )
    first, second = await client.submit_bulk("ns", "br_1", [b'{"sequence":1}', b'{"sequence":2}'])
    assert isinstance(first, Receipt)
    assert isinstance(second, ConflictError)
    assert second.extra == {"received": HASH}
    assert api.seen[-1].body == b'{"batches":[{"sequence":1},{"sequence":2}]}'


def test_keys_are_encoded_whole_and_never_step_up_the_path():
    assert path("ns", "branches", "b", "records", "a/../b c?#%é") == (
        "/v1/namespaces/ns/branches/b/records/a%2F..%2Fb%20c%3F%23%25%C3%A9"
    )
    assert path("ns", "..") == "/v1/namespaces/ns/%2E%2E"
