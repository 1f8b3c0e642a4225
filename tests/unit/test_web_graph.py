"""The drawing of a lineage: everything has a place of its own, and each line joins what led to what."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from anabranch.model.lineage import DerivedVersion, Trace, TracedSource, TracedVersion, Witness
from anabranch.web.graph import HIGH, WIDE, draw

ACROSS = WIDE + 70

HASH = f"sha256:{'0' * 64}"
EVIDENCE = f"evidence:sha256:{'a' * 64}"


def version(revision="3", *sources, state="reviewed", tombstone=False):
    return TracedVersion(
        revision=revision,
        from_generation=2,
        through_generation=None,
        scope="shared",
        content_hash=HASH,
        tombstone=tombstone,
        state=state,
        sources=[TracedSource(locator=text, status="verified", detail="", retracted=False) for text in sources],
        origin_runs=(),
        validated_at=datetime(2026, 11, 30, tzinfo=UTC),
        supersedes=(),
        made_by=None,
    )


def derived(key, steps, *cites, current=True, state="reviewed"):
    return DerivedVersion(key=key, revision="9", scope="shared", steps=steps, cites=cites, current=current, state=state)


def witness(branch_id, *, forked):
    return Witness(branch_id=branch_id, agent_id="agent", state="active", forked=forked, applied=not forked)


def trace(*items, versions=None, branches=None):
    return Trace(
        items=items,
        next_cursor=None,
        key="fact",
        revision="3",
        content_hash=HASH,
        versions=(version("3", EVIDENCE),) if versions is None else versions,
        retractions=(),
        complete=True,
        branches=branches,
        candidates=None,
        citing=None,
    )


def ends(line):
    """Where a line begins and ends."""
    first, _, rest = line.path.removeprefix("M").partition("C")
    return tuple(map(int, first.split())), tuple(map(int, rest.split()[-2:]))


def joined(graph):
    """The lines as pairs of what they join."""
    right = {(box.x + WIDE, box.y + HIGH // 2): box.title for box in graph.boxes}
    left = {(box.x, box.y + HIGH // 2): box.title for box in graph.boxes}
    return {(right[start], left[end]) for start, end in map(ends, graph.lines)}


def test_lines_lead_from_sources_over_what_was_derived_to_the_runs():
    graph = draw(
        trace(
            derived("near", 1, "record:fact@3"),
            derived("also", 1, "record:fact@2"),  # which says the same
            derived("far", 2, "record:near@9", "record:also@9"),
            branches=(witness("br_old", forked=True), witness("br_new", forked=False)),
        )
    )
    assert joined(graph) == {
        (EVIDENCE, "fact"),
        ("fact", "near"),
        ("fact", "also"),
        ("near", "far"),
        ("also", "far"),
        ("fact", "br_old"),
        ("fact", "br_new"),
    }
    assert [line.firm for line in graph.lines[-2:]] == [True, False]
    assert {box.title: box.x // ACROSS for box in graph.boxes}["far"] == 3


@pytest.mark.parametrize(
    ("found", "state"),
    [
        (trace(versions=()), "pruned"),
        (trace(versions=(version(tombstone=True),)), "deleted"),
        (trace(versions=(version(state="sourceRetracted"),)), "sourceRetracted"),
    ],
)
def test_a_fact_that_is_not_what_it_was_looks_so(found, state):
    (fact,) = draw(found).boxes
    assert (fact.kind, fact.state, fact.x, fact.y) == ("fact", state, ACROSS, 0)


def test_boxes_do_not_lie_on_each_other_and_what_is_too_much_is_counted():
    many = [derived(f"key/{number}", 1, "record:fact@3") for number in range(40)]
    graph = draw(trace(*many, derived("deep", 7, "record:key/39@9"), branches=(witness("br", forked=True),)))
    places = {(box.x, box.y) for box in graph.boxes}
    assert len(places) == len(graph.boxes)
    assert all(0 <= box.x <= graph.width - WIDE and 0 <= box.y <= graph.height - HIGH for box in graph.boxes)
    assert [box.text for box in graph.boxes if box.kind == "more"] == ["and 28 more"]
    assert ("fact", "deep") in joined(graph), "what it cites is not drawn"


def test_names_are_cut_to_their_boxes_and_told_whole():
    graph = draw(trace(derived("k" * 100, 1, "record:fact@3", current=False)))
    (box,) = [box for box in graph.boxes if box.kind == "derived"]
    assert (len(box.text), box.title, box.state) == (26, "k" * 100, "past")
