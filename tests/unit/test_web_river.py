"""The history of a Baseline, drawn as a river that arms leave and come back to."""

from __future__ import annotations

from types import SimpleNamespace

from anabranch.web.pages.baselines import Run, river


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
