"""What comes in headers and forms beside a body: a value or a refusal in words, whoever sends it.

Answers carry some of it back, into headers, rows and logs: so what is taken is looked at for what it must not hold.
"""

from __future__ import annotations

import contextlib
import json
import re
from urllib.parse import urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.requests import Request
from tests.unit.fuzz import JSONS, altered, fuzzed, inputs, refused, texts

from anabranch.api import conditions, measured
from anabranch.api.mcp import check_origin
from anabranch.api.replies import is_held
from anabranch.api.routes import evidence, exports, kv
from anabranch.model.errors import ForbiddenError, InvalidInputError
from anabranch.model.trace import TraceContext, trace_id_of
from anabranch.web.guard import Guarded, StrangeFormError, Visitor, form
from anabranch.web.pages import decisions
from anabranch.web.sessions import COOKIE_BYTES, Sealing

TRACE = f"00-{'a' * 32}-{'b' * 16}-01"
TAG = f'"{"0" * 32}"'


def bearing(*headers: tuple[str, str]) -> Request:
    raw = [(name.encode(), value.encode("latin-1", errors="replace")) for name, value in headers]
    return Request({"type": "http", "method": "POST", "path": "/", "headers": raw})


TAGS = texts('"7"', 'W/"7"', '"0"', "*", '"1", "2"', TAG, f'W/{TAG}, "x"')


@fuzzed
@given(st.none() | TAGS, st.none() | TAGS)
def test_a_precondition_is_a_revision_nothing_or_refused(match, none_match):
    sent = [("if-match", match), ("if-none-match", none_match)]
    request = bearing(*((name, value) for name, value in sent if value is not None))
    for read in (conditions.expected, kv._expected):
        revision = refused(read, request)
        assert revision is None or 0 <= revision < 10**18
    assert is_held(request, TAG) in (True, False)
    for offset in (0, 1):
        refused(exports._check_tag, request, TAG, offset=offset)


@fuzzed
@given(texts(TRACE, f"01-{'a' * 32}-{'b' * 16}-ff-more", f"00-{'0' * 32}-{'b' * 16}-01", "vendor=x,other=y"))
def test_a_place_in_a_trace_has_one_spelling_and_nothing_in_it_that_was_not_understood(text):
    context = TraceContext.parse(text)
    assert trace_id_of(text) == (None if context is None else context.trace_id)
    if context is not None:
        assert re.fullmatch("00-[0-9a-f]{32}-[0-9a-f]{16}-0[01]", str(context))
        assert TraceContext.parse(str(context)) == context


@fuzzed
@given(st.lists(st.tuples(st.sampled_from([b"x-request-id", b"traceparent"]), inputs(TRACE.encode(), b"id-1.x"))))
def test_a_requests_id_goes_into_headers_and_logs_and_holds_nothing_that_ends_a_line(headers):
    request_id, _ = measured._identified(headers)
    assert re.fullmatch(rb"[A-Za-z0-9._-]{1,64}", request_id)


@fuzzed
@given(texts("text/plain; charset=utf-8", "application/json", 'a/b;c="d"'))
def test_a_media_type_that_evidence_is_served_under_holds_nothing_that_ends_a_header(text):
    given_type = refused(evidence._media_type, bearing(("content-type", text)))
    assert given_type is None or (given_type.isascii() and given_type.isprintable() and len(given_type) < 256)


class Here:
    """A gate of one host."""

    routes = ()

    def is_ours(self, host: str) -> bool:
        return host == "memory.example"


@fuzzed
@given(texts("https://memory.example", "https://[::1]:8443", "null", "http://[", "https://memory\u2100example"))
def test_an_origin_is_this_hosts_or_another_and_never_an_error(origin):
    request = bearing(("host", "memory.example"), ("origin", origin))
    ours = origin.partition("://")[2] == "memory.example"
    with contextlib.nullcontext() if ours else pytest.raises(ForbiddenError):
        check_origin(request)
    assert (Guarded(None, Here())._refusal(request.scope) is None) is ours


VISITOR = Visitor(desk=None, secret=b"s" * 32)
FORM = urlencode({"token": VISITOR.token, "candidate": "c", "reason": "é", "heard": '[["tom", "accept"]]'}).encode()


@fuzzed
@given(inputs(FORM))
async def test_a_form_is_read_or_refused(body):
    pieces = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive():
        return pieces.pop()

    request = Request({"type": "http", "method": "POST", "headers": []}, receive)
    with contextlib.suppress(InvalidInputError, StrangeFormError):
        fields = await form(request, VISITOR)
        refused(decisions._decision, fields)
        refused(decisions._heard, fields.get("heard", ""))


@fuzzed
@given(texts('[["tom", "accept"]]', "[[1, 2]]", "{}") | JSONS.map(json.dumps) | st.just("[" * 30_000))
def test_what_a_reviewer_had_heard_is_read_or_refused(text):
    assert isinstance(refused(decisions._heard, text), set | None)


SEALED = Sealing([b"k" * 32], "session", seconds=60, now=lambda: 0.0)


@fuzzed
@given(inputs(SEALED.seal({"name": "ada"}).encode()) | altered(SEALED.seal({"name": "x" * 500}).encode()))
def test_a_session_is_one_that_was_sealed_here_or_none(raw):
    opened = SEALED.open(raw.decode("latin-1"))
    assert opened in (None, {"name": "ada"}, {"name": "x" * 500})
    assert SEALED.open("A" * (COOKIE_BYTES + 1)) is None
