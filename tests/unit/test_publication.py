from dataclasses import dataclass
from datetime import UTC, datetime

import pytest

from anabranch.domain.facts import FACT_SOURCES, Fact
from anabranch.domain.publication import Room, plan
from anabranch.model.errors import ConflictError

NOW = datetime(2026, 1, 2, tzinfo=UTC)


@dataclass(frozen=True)
class Candidate:
    key: str = "k"
    op: str = "put"
    scope: str = "shared"
    content_hash: bytes = b"new"
    base_revision: int = 0
    branch_id: str | None = "br"
    origin_runs: tuple[str, ...] = ("run",)
    canonical_revision: int | None = None
    mark: str | None = None
    origin: str = "finding"
    conflicting: bool = False


@dataclass(frozen=True)
class Record:
    revision: int = 3
    scope: str = "shared"
    content_hash: bytes = b"old"
    tombstone: bool = False
    fact_hash: bytes = b"fact"


FACT = Fact(source_locators=("import:a",), origin_runs=("first",), supersedes=(1,))
ROOM = Room(records=10, scopes=frozenset({"shared"}), new_scopes=10)


def planned(candidate, record=None, *, sources=("evidence:1",), fact=FACT, room=ROOM):
    return planned_all([candidate], {} if record is None else {candidate.key: record}, sources, fact, room)


def planned_all(candidates, head, sources=("evidence:1",), fact=FACT, room=ROOM):
    cited = {candidate.key: sources for candidate in candidates}
    return plan(candidates, head=head, facts={b"fact": fact}, sources=cited, room=room, validated_at=NOW)


def events(result):
    return [(event.kind, event.scope, event.revision) for event in result.events]


def test_a_new_key_is_published_with_its_provenance():
    result = planned(Candidate())

    assert result.writes[0].fact == Fact(source_locators=("evidence:1",), origin_runs=("run",), validated_at=NOW)
    assert events(result) == [("published", "shared", None)]


def test_an_update_replaces_without_superseding():
    result = planned(Candidate(base_revision=3, canonical_revision=3), Record())

    assert result.writes[0].fact.supersedes == ()
    assert result.writes[0].fact.source_locators == ("evidence:1",)
    assert events(result) == [("published", "shared", None)]


def test_a_conflict_that_was_accepted_names_the_revision_it_supersedes():
    result = planned(Candidate(base_revision=2, canonical_revision=3, conflicting=True), Record())

    assert result.writes[0].fact.supersedes == (3,)
    assert events(result) == [("superseded", "shared", 3), ("published", "shared", None)]
    assert result.events[0].content_hash == b"old"


@pytest.mark.parametrize(("seen", "record"), [(2, Record()), (None, Record()), (3, None)])
def test_nobody_accepted_a_replacement_of_a_record_that_moved(seen, record):
    result = planned(Candidate(base_revision=seen or 0, canonical_revision=seen, conflicting=True), record)

    assert [c.key for c in result.moved] == ["k"]
    assert not result.writes
    assert not result.events


def test_equal_content_with_a_new_source_confirms_the_record():
    result = planned(Candidate(content_hash=b"old", base_revision=1, canonical_revision=2), Record())

    fact = result.writes[0].fact
    assert fact.source_locators == ("import:a", "evidence:1")
    assert fact.origin_runs == ("first", "run")
    assert fact.supersedes == (1,)
    assert events(result) == [("published", "shared", None)]


def test_equal_content_without_a_new_source_says_nothing_new():
    result = planned(Candidate(content_hash=b"old"), Record(), sources=("import:a",))

    assert [c.key for c in result.duplicates] == ["k"]
    assert not result.writes


def test_a_fact_with_all_the_sources_it_may_have_takes_no_more():
    full = Fact(source_locators=tuple(f"https://example.org/{n}" for n in range(FACT_SOURCES)))

    assert planned(Candidate(content_hash=b"old"), Record(), fact=full).duplicates


def test_a_deletion_is_announced_as_one():
    result = planned(Candidate(op="tombstone", content_hash=b"null", base_revision=3, canonical_revision=3), Record())

    assert events(result) == [("tombstone", "shared", None)]
    assert result.writes[0].candidate.op == "tombstone"


def test_deleting_what_is_gone_says_nothing_new():
    gone = Record(tombstone=True, content_hash=b"null")

    assert planned(Candidate(op="tombstone", content_hash=b"null"), gone).duplicates
    assert planned(Candidate(op="tombstone", content_hash=b"null")).duplicates


def test_readers_of_the_old_scope_learn_that_a_record_left():
    result = planned(Candidate(base_revision=3, canonical_revision=3, scope="team/build"), Record())

    assert events(result) == [("superseded", "shared", 3), ("published", "team/build", None)]


def test_writing_over_a_deletion_supersedes_nothing_that_anyone_sees():
    gone = Record(tombstone=True, content_hash=b"null", scope="team/build")

    assert events(planned(Candidate(base_revision=3, canonical_revision=3), gone)) == [("published", "shared", None)]


def test_two_candidates_for_one_key_are_never_planned():
    with pytest.raises(ConflictError, match="'k'"):
        planned_all([Candidate(), Candidate(content_hash=b"other")], {})


def test_a_line_that_is_full_takes_no_new_key_but_changes_those_it_has():
    full = Room(records=1, scopes=frozenset({"shared"}), new_scopes=1)
    update = Candidate(key="c", base_revision=3, canonical_revision=3)

    result = planned_all([Candidate(key="a"), Candidate(key="b"), update], {"c": Record()}, room=full)

    assert [w.candidate.key for w in result.writes] == ["a", "c"]
    assert [(c.key, reason) for c, reason, _ in result.refused] == [("b", "RecordLimit")]


def test_writing_over_a_deletion_needs_room_and_deleting_needs_none():
    full = Room(records=0, scopes=frozenset({"shared"}), new_scopes=0)
    gone = Record(tombstone=True, content_hash=b"null")
    revival = Candidate(key="a", base_revision=3, canonical_revision=3)
    deletion = Candidate(key="b", op="tombstone", content_hash=b"null", base_revision=3, canonical_revision=3)

    result = planned_all([revival, deletion], {"a": gone, "b": Record()}, room=full)

    assert [c.key for c, _, _ in result.refused] == ["a"]
    assert [w.candidate.key for w in result.writes] == ["b"]


def test_a_line_takes_no_more_scopes_than_it_may():
    one = Room(records=9, scopes=frozenset({"shared"}), new_scopes=1)

    result = planned_all([Candidate(key=k, scope=s) for k, s in [("a", "x"), ("b", "y"), ("c", "x")]], {}, room=one)

    assert [w.candidate.key for w in result.writes] == ["a", "c"]
    assert [(c.key, reason) for c, reason, _ in result.refused] == [("b", "ScopeLimit")]
