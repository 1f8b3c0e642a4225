from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import pytest
import rfc8785

from anabranch.domain.facts import Fact
from anabranch.model.canonical import sha256

FACT = Fact(
    source_locators=("evidence:sha256:" + "0" * 64, "https://example.org/ä"),
    origin_runs=("run_1",),
    validated_at=datetime(2026, 3, 4, 5, 6, 7, 89, tzinfo=UTC),
    supersedes=(9007199254740993,),
)


def test_a_fact_survives_its_bytes():
    assert Fact.parse(FACT.canonical()) == FACT
    assert Fact.parse(Fact().canonical()) == Fact()


def test_the_bytes_are_fixed():
    assert Fact().canonical() == b'{"origin_runs":[],"source_locators":[],"supersedes":[],"validated_at":null}'
    assert b'"supersedes":["9007199254740993"]' in FACT.canonical()
    assert b'"validated_at":"2026-03-04T05:06:07.000089Z"' in FACT.canonical()
    assert FACT.hash == sha256(FACT.canonical())


def test_a_fact_that_is_not_marked_has_the_bytes_that_it_had_before_there_were_marks():
    assert b"retracted" not in FACT.canonical()
    assert FACT.state == "reviewed"


def test_a_mark_is_part_of_the_bytes():
    marked = replace(FACT, retracted_sources=FACT.source_locators[:1])
    members = {
        "source_locators": list(FACT.source_locators),
        "origin_runs": ["run_1"],
        "validated_at": "2026-03-04T05:06:07.000089Z",
        "supersedes": ["9007199254740993"],
        "retracted_sources": list(FACT.source_locators[:1]),
    }
    assert marked.canonical() == rfc8785.dumps(members)
    assert Fact.parse(marked.canonical()) == marked
    assert marked.state == "sourceRetracted"


def test_one_moment_has_one_form_whatever_its_zone():
    east = timezone(timedelta(hours=5))
    there = Fact(validated_at=datetime(2026, 1, 1, 5, tzinfo=east))

    assert there.hash == Fact(validated_at=datetime(2026, 1, 1, tzinfo=UTC)).hash


@pytest.mark.parametrize("text", ["", "ä €🜁", '"quoted" \\ / and', "\x00\x1f\x7f\x85\u2028", "\b\f\n\r\t"])
def test_the_bytes_are_rfc_8785_whatever_the_texts_hold(text):
    fact = Fact(source_locators=(text, "b"), origin_runs=(text,))
    members = {"source_locators": [text, "b"], "origin_runs": [text], "validated_at": None, "supersedes": []}
    assert fact.canonical() == rfc8785.dumps(members)
