"""Events on the wire of a stream: one line of ASCII each, whatever the key, and an end that says why."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from anabranch.api import frames
from anabranch.client.sse import Parser
from anabranch.domain.cursor import Sealer
from anabranch.feed.cursor import Position, unseal
from anabranch.feed.ends import ending
from anabranch.model.cloudevents import TYPES, CloudEvent
from anabranch.model.errors import ForbiddenError
from anabranch.model.objects import SharedEvent
from anabranch.store.events import EventRow

SEALER = Sealer([b"sixteen bytes at least"])
MADE = frames.Frames("ln_x", SEALER, source="/v1/namespaces/n/baselines/b")


def row(**changes) -> EventRow:
    values = {
        "line": "ln_x",
        "sequence": 7,
        "event_id": "ev_x",
        "kind": "published",
        "scope": "shared",
        "key": "deploy/rollback",
        "revision": 3,
        "content_hash": b"\x01" * 32,
        "origin_branch": None,
        "generation": 4,
        "published_baseline_id": "bl_x",
        "created_at": datetime(2026, 1, 1, tzinfo=UTC),
    }
    return EventRow(**{**values, **changes})


def message(body: bytes):
    (made,) = Parser().feed(body)
    return made


@pytest.mark.parametrize("key", ["deploy/rollback", "ключ", "a\u2028b", 'data: "x"'])
def test_an_event_is_a_cloud_event_on_a_line_of_its_own_with_the_cursor_behind_it(key):
    body = MADE.event(row(key=key), epoch=2)
    assert body.isascii()
    assert body.count(b"\n") == 4
    made = message(body)
    event = CloudEvent.model_validate_json(made.data)
    assert unseal(SEALER, "ln_x", made.last_id) == Position(2, 7)
    assert (made.event, event.type) == ("dev.anabranch.record.published",) * 2
    assert (event.id, event.subject, event.source) == ("ev_x", key, "/v1/namespaces/n/baselines/b")
    assert (event.data.key, event.data.revision, event.data.sequence) == (key, "3", 7)


def test_an_event_about_the_whole_line_has_no_subject_and_every_kind_has_a_type():
    body = MADE.event(row(kind="rollback", key=None, scope=None, revision=None, content_hash=None), epoch=1)
    assert "subject" not in json.loads(message(body).data)
    assert list(TYPES) == list(SharedEvent.model_fields["kind"].annotation.__args__)


def test_a_bookmark_is_a_cursor_and_nothing_to_be_told():
    made = message(MADE.bookmark(Position(1, 9)))
    assert (made.event, made.data, unseal(SEALER, "ln_x", made.last_id)) == ("bookmark", "", Position(1, 9))


@pytest.mark.parametrize(
    ("error", "reason", "status"),
    [(ending(), "ending", 503), (ForbiddenError("No.", hint="Ask.", grant="g"), "forbidden", 403)],
)
def test_an_end_says_why_as_a_problem_and_in_a_word(error, reason, status):
    made = message(frames.end(error))
    told = json.loads(made.data)
    assert (made.event, told["reason"], told["status"], told["code"]) == ("end", reason, status, error.code)
    assert told.get("grant") == error.extra.get("grant")


def test_those_who_come_back_do_not_all_come_at_once():
    assert len({frames.opening() for _ in range(50)}) > 10
