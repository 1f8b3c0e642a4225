"""Every parser at the edge, fed with what nobody thought of: it gives a value or refuses in words, and nothing else.

Each takes bytes or text as an attacker may send them: any, and good ones of its kind with a few bytes altered, which
get past the first checks.
"""

from __future__ import annotations

import base64
import contextlib
import io
import json
import tracemalloc

import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.requests import Request
from tests.unit.fuzz import EXAMPLES, JSONS, altered, fuzzed, inputs, refused, texts
from tests.unit.test_archive_refusals import HEADER, LINES, packed

from anabranch.api import bodies, framing
from anabranch.api.direct import _recognized
from anabranch.api.heads import _check_path, _check_protocol
from anabranch.archive import ArchiveReader
from anabranch.client.sse import Parser
from anabranch.consolidation import receipt
from anabranch.domain.cursor import InvalidCursorError, Sealer
from anabranch.feed.cursor import Position, seal, unseal
from anabranch.identity.tokens import issuer_of, objection
from anabranch.kv import values
from anabranch.model.canonical import canonical_bytes, parse_canonical, parse_json
from anabranch.model.errors import InvalidInputError
from anabranch.model.locators import parse_locator
from anabranch.model.objects import batch_hash
from anabranch.model.text import check_key, check_scope

SEALER = Sealer([b"a key of the test's own"])

UNSIGNED = {
    "branch_id": f"br_{'0' * 26}_{'0' * 26}",
    "sequence": 1,
    "changes": [{"key": "k/é", "content": {"a": [1.5, None, "x"]}, "scope": "team/a", "visibility": "shareable"}],
    "source_locators": [[f"evidence:sha256:{'0' * 64}", "record:k@1"]],
    "base_revisions": ["0"],
    "observed_at": "2026-01-31T12:00:00Z",
}
BATCH = canonical_bytes({**UNSIGNED, "content_hash": batch_hash(UNSIGNED)})


@fuzzed
@given(inputs(BATCH, b'{"a":[1,1e21,"\\u00e9",null]}'))
def test_json_is_a_value_or_refused_the_same_way_whoever_parses_it(raw):
    value = refused(parse_json, raw)
    both = refused(parse_canonical, raw)
    assert (both is None) == (value is None and raw.strip(b" \t\r\n") != b"null")
    if both is not None:
        assert refused(parse_canonical, both[1]) == both, "its form has itself for its form"


@fuzzed
@given(inputs(BATCH))
def test_a_batch_is_taken_or_refused_and_what_is_taken_has_the_digest_that_it_names(raw):
    submission = refused(receipt.parse, raw)
    if submission is not None:
        value = parse_json(raw)
        digest = value.pop("content_hash")
        assert digest == batch_hash(value)


@fuzzed
@given(texts("sha-256=:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=:", "sha-512=:AA==:, sha-256=?1;a=(1 2)"))
def test_a_digest_header_is_understood_or_refused(field):
    headers = [(b"content-digest", field.encode("latin-1", errors="replace"))]
    expected = refused(bodies._expected, Request({"type": "http", "headers": headers}))
    assert expected is None or all(isinstance(each, bytes) for each in expected.values())


@fuzzed
@given(texts(seal(SEALER, "ln_a", Position(epoch=2, sequence=41)), SEALER.seal("list", ["k"])))
def test_a_place_to_resume_at_is_one_that_was_sealed_here_for_this_or_refused(cursor):
    for line in ("ln_a", "ln_b"):
        with contextlib.suppress(InvalidCursorError):
            place = unseal(SEALER, line, cursor)
            assert (line, place) == ("ln_a", Position(epoch=2, sequence=41))


def jwt(claims: bytes) -> bytes:
    return b".".join(base64.urlsafe_b64encode(part).rstrip(b"=") for part in (b'{"alg":"RS256"}', claims, b"sig"))


@fuzzed
@given(
    st.binary(max_size=100).map(jwt).map(bytes.decode)
    | JSONS.map(lambda value: jwt(json.dumps(value).encode()).decode())
    | st.fixed_dictionaries({"aud": JSONS, "exp": JSONS, "iss": JSONS}).map(
        lambda claims: jwt(json.dumps(claims).encode()).decode()
    )
    | texts(jwt(b'{"aud":["here"],"exp":1e999,"iss":"https://issuer"}').decode())
)
def test_a_token_is_left_to_who_may_judge_it_or_objected_to_in_a_sentence(token):
    said = objection(token, audience="here", now=1.8e9)
    assert said is None or (said.endswith(".") and len(said) < 400)
    assert issuer_of(token) is None or isinstance(issuer_of(token), str)


@fuzzed
@given(
    texts(
        "https://host:443/a?b#c",
        f"git:repo@{'0' * 40}:a/b",
        "record:k@1",
        f"import:a@sha256:{'0' * 64}",
        "https://[::1",
    )
)
def test_a_locator_is_of_a_known_form_or_refused(text):
    locator = refused(parse_locator, text)
    assert locator is None or locator.text == text


@fuzzed
@given(texts("team/build", "k/é", "e\u0301"))
def test_a_key_and_a_scope_are_taken_as_they_are_or_refused(text):
    assert refused(check_key, text) in (None, text)
    assert refused(check_scope, text) in (None, text)


@fuzzed
@given(inputs(b'{"anabranch.memory":1,"content":"x","topic":"t","tags":["a"]}', b"\xff\xfe", b"text"))
def test_a_value_of_instantkv_is_any_bytes_or_refused(raw):
    value = refused(values.read, raw)
    assert value is None or value.raw == raw


def read(archive: bytes) -> int:
    reader = ArchiveReader(io.BytesIO(archive))
    count = sum(1 for _ in reader)
    assert reader.trailer.records + reader.trailer.withheld == count
    return count


@fuzzed
@given(st.data())
def test_an_archive_is_whole_or_refused(data):
    good = packed(LINES)
    inner = zstandard.ZstdDecompressor().decompress(good, max_output_size=1 << 20)
    archive = data.draw(
        altered(good) | inputs(inner, HEADER).map(zstandard.ZstdCompressor().compress) | st.binary(max_size=100)
    )
    count = refused(read, archive)
    assert count in (None, len(LINES))


def packed_again(data: bytes, layers: int, *, times: int) -> bytes:
    """Something compressed so often, and so many frames of it."""
    for _ in range(layers):
        data = zstandard.ZstdCompressor().compress(data)
    return data * times


BROAD = {
    "trailer": b"{" + b",".join(b'"%d":1' % number for number in range(100_000)) + b"}\n",
    "record": b'{"key":"a","content":[' + b",".join([b"[]"] * 200_000) + b"]}\n",
    "one line": b"a" * (24 << 20),
    "empty lines": b"\n" * (24 << 20),
    "deep": b"[" * (1 << 20) + b"\n",
    "header": HEADER[:-1] + b"," + b",".join(b'"%d":1' % number for number in range(100_000)) + b"}\n",
}
HELD_BYTES = 48 << 20
"""Of Python's own, when an archive that fits into some kilobytes is read: a window, a block, a line, and its values."""


@settings(fuzzed, max_examples=int(EXAMPLES or 16))
@given(st.sampled_from(sorted(BROAD)), st.booleans(), st.integers(1, 3), st.integers(1, 20))
def test_an_archive_that_is_a_bomb_is_refused_and_held_nowhere(kind, headed, layers, times):
    bomb = packed_again((HEADER + b"\n" if headed else b"") + BROAD[kind], layers, times=times)
    tracemalloc.start()
    try:
        assert refused(read, bomb) is None
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < HELD_BYTES


NAMES = st.sampled_from([*framing.ONCE, b"content-length", b"transfer-encoding", b"upgrade"]) | st.binary(max_size=12)


@fuzzed
@given(
    st.text(max_size=4) | st.sampled_from(["1.0", "1.1"]),
    st.lists(st.tuples(NAMES, st.binary(max_size=20)), max_size=8),
    st.sampled_from([b"PUT", b"CONNECT"]),
    st.binary(max_size=60) | altered(b"/v1/namespaces/a/baselines/b/manifests/current/records/k%C3%A9"),
)
def test_a_head_is_understood_or_refused(version, headers, method, path):
    said = framing.objection(version, headers, method=method)
    assert said is None or said.endswith(".")
    scope = {"type": "http", "method": "GET", "raw_path": path, "path": path.decode("latin-1"), "headers": headers}
    refused(_check_path, scope)
    for _, value in headers:
        refused(_check_protocol, value)
    _recognized({**scope, "query_string": b""})


@fuzzed
@given(st.lists(inputs(b"id: a\nevent: e\ndata: {}\n\n", b": heartbeat\n\nretry: 1\r\n\r"), max_size=4))
def test_a_stream_is_read_in_pieces_of_any_kind(pieces):
    parser = Parser()
    for piece in pieces:
        with contextlib.suppress(InvalidInputError):
            for message in parser.feed(piece):
                assert isinstance(message.data, str)
