"""What made a generation, and what differs between two, in the words that people read."""

import click
import pytest

from anabranch.cli.diff import Difference, report
from anabranch.cli.history import made_by, marks
from anabranch.model.canonical import content_hash
from anabranch.model.objects import PublishedFact

HASH = content_hash("x")


@pytest.mark.parametrize(
    ("origin", "words"),
    [
        ({"kind": "import", "config_map": "handbook", "digest": HASH}, "import of ConfigMap handbook"),
        ({"kind": "import", "archive": HASH}, f"import of archive {HASH[:19]}…"),
        ({"kind": "publication", "job_id": "job_1", "branch_id": "br_1"}, "publication of job_1"),
        ({"kind": "publication", "job_ids": ["job_1", "job_2"]}, "publication of 2 jobs"),
        ({"kind": "restore", "generation": 3, "id": "r1"}, "restore of generation 3 (r1)"),
        ({"kind": "merge", "of": "two"}, "merge (of two)"),
        ({"kind": "merge"}, "merge"),
    ],
)
def test_what_made_a_manifest_is_told_in_a_few_words(origin, words):
    assert made_by(origin) == words


def test_a_generation_is_marked_with_all_that_it_is():
    state = {
        "current": {"generation": 1},
        "previous": {"generation": 3},
        "head": {"generation": 3},
        "pinned_generation": 1,
    }
    assert [list(marks(state, generation)) for generation in (1, 2, 3)] == [
        ["current", "pinned"],
        [],
        ["previous", "head"],
    ]
    empty = {"current": None, "previous": None, "head": None, "pinned_generation": None}
    assert list(marks(empty, 1)) == []


def side(revision, *, scope="shared", tombstone=False):
    return {"revision": str(revision), "scope": scope, "tombstone": tombstone}


def fact(content, *sources):
    return PublishedFact.model_construct(content=content, source_locators=sources)


ENTRIES = [
    Difference({"key": "a", "before": side(1), "after": side(4)}, fact("one\ntwo"), fact("one\n2", "https://x")),
    Difference({"key": "b", "before": None, "after": side(5)}, None, fact({"n": 1})),
    Difference({"key": "c", "before": side(2), "after": side(6, tombstone=True)}, fact("bye"), None),
    Difference({"key": "d", "before": side(3, tombstone=True), "after": side(7, scope="team/build")}),
]


def test_a_key_is_added_changed_or_deleted_as_readers_see_it():
    assert [difference.kind for difference in ENTRIES] == ["changed", "added", "deleted", "added"]
    deleted_again = {"key": "e", "before": side(1, tombstone=True), "after": side(2, tombstone=True)}
    assert Difference(deleted_again).kind == "changed"


def test_a_diff_reads_as_a_count_then_each_record_in_full_then_the_others_by_key():
    lines = [click.unstyle(line) for line in report("m/team: generation 1 to 2", ENTRIES, limit=3)]
    assert lines == [
        "m/team: generation 1 to 2: 2 added, 1 changed, 1 deleted",
        "",
        "~ a  revision 1 to 4  scope shared",
        "      one",
        "    - two",
        "    + 2",
        "    + source https://x",
        "",
        "+ b  revision 5  scope shared",
        "    + n: 1",
        "",
        "- c  revision 2 to 6  scope shared",
        "    - bye",
        "+ d  revision 3 to 7  scope shared to team/build",
    ]


def test_a_mark_shows_as_what_it_changes():
    marked = fact("one", "record:poison@3").model_copy(update={"retracted_sources": ("record:poison@3",)})
    entry = Difference({"key": "a", "before": side(1), "after": side(4)}, fact("one", "record:poison@3"), marked)
    lines = [click.unstyle(line) for line in report("t", [entry], limit=1)]
    assert lines[-2:] == ["    - source record:poison@3", "    + source record:poison@3 (withdrawn)"]


def test_no_difference_is_said_to_be_none():
    assert list(report("m/team: generation 1 to 1", [], limit=3)) == ["m/team: generation 1 to 1: no difference"]
