"""The history of a Baseline, drawn as a river that arms leave and come back to."""

from __future__ import annotations

from types import SimpleNamespace

from anabranch.web.pages.baselines import Run, curves, recall_curve, river
from anabranch.web.rendering import environment


def manifest(generation: int, records: int, branch: str | None = None):
    return SimpleNamespace(generation=generation, records=records, origin={"branch_id": branch} if branch else {})


def run(parent: int, state: str) -> Run:
    branch = SimpleNamespace(parent=SimpleNamespace(generation=parent), phase="Active")
    return Run(branch=branch, peer=SimpleNamespace(state=state))


def drawn(bends):
    return {
        bend.manifest.generation: (len(bend.forks), bend.origin is not None, bend.above, bend.below) for bend in bends
    }


MANIFESTS = [manifest(4, 12), manifest(3, 11, "back"), manifest(2, 8), manifest(1, 9)]


def test_a_run_leaves_where_it_forked_and_comes_back_where_it_published():
    bends = river(MANIFESTS, {"back": run(1, "completed")}, whole=True)
    assert drawn(bends) == {
        4: (0, False, False, False),
        3: (0, True, False, True),
        2: (0, False, True, True),
        1: (1, False, True, False),
    }


def test_a_live_run_goes_on_beside_the_newest_generation():
    bends = river(MANIFESTS, {"back": run(2, "active")}, whole=True)
    assert drawn(bends) == {
        4: (0, False, True, True),
        3: (0, True, True, True),
        2: (1, False, True, False),
        1: (0, False, False, False),
    }


def test_a_run_that_brought_nothing_back_ends_where_it_began():
    bends = river(MANIFESTS, {"lost": run(2, "completed")}, whole=True)
    assert drawn(bends)[2] == (1, False, False, False)


def test_generations_tell_how_many_records_came_or_went():
    assert [bend.change for bend in river(MANIFESTS, {}, whole=True)] == [1, 3, -1, 9]
    assert [bend.change for bend in river(MANIFESTS[:2], {}, whole=False)] == [1, None]


def test_of_a_run_that_one_may_not_see_its_peers_tell():
    assert Run(branch=None, peer=SimpleNamespace(state="stale")).live
    assert Run(branch=SimpleNamespace(phase="Expired"), peer=None).state == "expired"


def point(records: int, sourced: int, verified: int | None):
    return SimpleNamespace(records=records, sourced=sourced, verified=verified)


def test_counts_are_drawn_to_one_scale_the_oldest_on_the_left():
    records, sourced, verified = curves([point(4, 2, 1), point(2, 0, None)])
    assert (records.now, records.points) == (4, "0.0,15.0 100.0,1.0")
    assert (sourced.now, sourced.points) == (2, "0.0,29.0 100.0,15.0")
    assert (verified.now, verified.points) == (1, "100.0,22.0")  # nobody had to look before


def test_an_empty_baseline_makes_no_curve_and_one_generation_a_point():
    assert curves([]) == curves([point(0, 0, 0)] * 2) == []
    assert [curve.points for curve in curves([point(2, 1, 0)])] == ["0.0,1.0", "0.0,15.0", "0.0,29.0"]


def answered(generation: int, recall: float, questions: str = "the set"):
    return SimpleNamespace(generation=generation, recall=recall, questions=questions, k=5)


def test_recall_is_drawn_from_0_to_1_of_what_was_asked_the_same():
    drawn = recall_curve([answered(12, 1.0), answered(10, 0.5), answered(8, 0.0), answered(7, 1.0, "another set")])
    assert drawn.points == "0.0,29.0 50.0,15.0 100.0,1.0"
    assert [one.generation for one in drawn.rows] == [12, 10, 8]
    assert recall_curve([]) is None


def test_recall_is_told_as_a_table_too_whose_questions_are_escaped():
    figures = {"recall_at_1": 0.5, "tasks": 42, "low": -0.2, "high": 0.0, "worse": ("<b>exit",)}
    rows = [answered(12, 0.9), answered(11, 1.0)]
    for one, change in zip(rows, (-0.1, None), strict=True):
        vars(one).update(figures, change=change)
    page = environment().get_template("_recall.html").render(recall=recall_curve(rows))
    assert "recall@5 of 42 questions" in page
    assert '<th scope="row">12</th><td>0.900</td>' in page
    assert "<td>-0.100</td><td>-0.200 to +0.000</td>" in page
    assert "&lt;b&gt;exit" in page
    assert "<b>exit" not in page
