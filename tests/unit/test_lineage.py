"""What follows from what, and what a retraction marks."""

from dataclasses import dataclass

from anabranch.domain.lineage import Step, cited, depths, locator, marks


@dataclass(frozen=True)
class Record:
    revision: int
    tombstone: bool = False


def step(source, version):
    return Step(source=source, version=version, scope="shared")


CHAIN = [step(("x", 1), ("y", 2)), step(("y", 2), ("z", 3)), step(("x", 1), ("z", 3)), step(("z", 3), ("w", 4))]


def test_a_locator_names_the_version_that_it_was_made_of():
    keys = ("plain", "with@7", "a/b c", "ä")
    assert cited(locator((key, 12)) for key in keys) == {locator((key, 12)): (key, 12) for key in keys}


def test_other_sources_cite_no_record():
    assert cited(["evidence:sha256:" + "0" * 64, "https://example.org/record:a@1"]) == {}


def test_a_version_is_as_far_as_its_shortest_way():
    assert depths(CHAIN, root="x") == {("y", 2): 1, ("z", 3): 1, ("w", 4): 2}


def test_a_walk_in_a_circle_ends():
    assert depths([*CHAIN, step(("w", 4), ("x", 5)), step(("x", 5), ("y", 2))], root="x")[("x", 5)] == 3


def test_live_records_are_marked_with_the_sources_that_lead_there():
    head = {"y": Record(2), "z": Record(3), "w": Record(4)}
    assert marks(CHAIN, head=head) == {
        "y": ["record:x@1"],
        "z": ["record:x@1", "record:y@2"],
        "w": ["record:z@3"],
    }


def test_what_was_replaced_or_deleted_is_not_marked():
    head = {"y": Record(9), "z": Record(3, tombstone=True), "w": Record(4)}
    assert list(marks(CHAIN, head=head)) == ["w"]
