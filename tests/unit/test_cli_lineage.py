"""A record's lineage as a person reads it."""

import click
import pytest

from anabranch.cli.lineage import told, tree

FOUND = {
    "key": "poison",
    "revision": "3",
    "versions": [],
    "retractions": [],
    "candidates": None,
    "citing": None,
    "branches": None,
    "items": [],
}


def drawn(**members):
    return [click.unstyle(line) for line in tree({**FOUND, **members})]


def derived(key, steps, *cites, **members):
    return {"key": key, "revision": "1", "scope": "shared", "steps": steps, "cites": list(cites), "current": True,
            "state": "reviewed", **members}  # fmt: skip


def test_what_was_derived_stands_below_what_it_was_derived_from():
    items = [
        derived("one", 1, "record:poison@3"),
        derived("other", 1, "record:poison@3", state="sourceRetracted"),
        derived("two", 2, "record:one@1", state=None, current=False),
    ]
    assert drawn(items=items) == [
        "poison  revision 3",
        "└─ derived (2)",
        "   ├─ one  revision 1, scope shared: reviewed",
        "   │  └─ two  revision 1, scope shared: pruned, not current",
        "   └─ other  revision 1, scope shared: sourceRetracted",
    ]


def test_a_long_list_says_how_much_it_leaves_out():
    lines = drawn(items=[derived(f"k{number}", 1, "record:poison@3") for number in range(60)])
    assert lines[1] == "└─ derived (60)"
    assert lines[-1] == "   └─ … and 10 more"


def test_no_key_and_no_reason_paints_over_what_stands_beside_it():
    retraction = {"state": "rejected", "reason": "\x1b[2Jfine", "generation": None, "job_id": None, "detail": ""}
    lines = drawn(key="build/\u202ekey", items=[derived("\x1b[3A", 1)], retractions=[retraction])
    assert not set("".join(lines)) & set("\x1b\u202e")


@pytest.mark.parametrize(
    ("members", "words"),
    [
        ({"state": "requested"}, "asked for; the operator is about to make a job of it"),
        ({"state": "proposed", "job_id": "job_1"}, "waits for reviewers in job_1"),
        ({"state": "published", "generation": 7}, "withdrawn in generation 7"),
        ({"state": "reinstated"}, "withdrawn, and published again since"),
        ({"state": "void", "detail": "nothing of it is left"}, "nothing to decide: nothing of it is left"),
    ],
)
def test_what_became_of_a_retraction_is_told_in_a_few_words(members, words):
    assert told(members) == words
