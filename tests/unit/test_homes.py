"""Whose a resource is: every operator comes to the same answer, from resources alone."""

from __future__ import annotations

import pytest

from anabranch.controllers.homes import LABEL, Homes
from anabranch.controllers.keys import Key
from anabranch.controllers.reconciler import Controller, Reconciler
from anabranch.kube.kinds import BASELINE, BRANCH
from anabranch.model.crd import BaselineResource
from anabranch.model.errors import UnavailableError

STORES = ("default", "east", "west")
TEAM = "team"


class Kube:
    """What is there.

    Attributes:
        objects: By kind and name.
        asked: What was looked up.
    """

    def __init__(self) -> None:
        self.objects = {}
        self.asked = []

    async def find(self, kind, *, namespace, name):
        self.asked.append((kind.name, namespace, name))
        found = self.objects.get((kind.name, namespace, name))
        if isinstance(found, Exception):
            raise found
        return found


@pytest.fixture
def kube():
    return Kube()


@pytest.fixture
def operators(kube):
    """An operator's view for each store."""
    return {store: Homes(kube, own=store, others=("east", "west")) for store in STORES}


def body(name, *, spec=None, status=None, labels=None, namespace=TEAM):
    metadata = {"namespace": namespace, "name": name, "uid": f"uid-{name}", "generation": 1, "labels": labels or {}}
    return {"metadata": metadata, "spec": spec or {}, "status": status or {}}


def put(kube, kind, made):
    kube.objects[kind.name, made["metadata"]["namespace"], made["metadata"]["name"]] = made


async def owners(operators, kind, made):
    key = Key(kind, made["metadata"]["namespace"], made["metadata"]["name"])
    return [store for store, homes in operators.items() if await homes.is_own(key, made)]


def branch(**more):
    return body("run", spec={"baselineRef": {"name": "facts"}}, **more)


def job(**more):
    return body("job", spec={"branchRef": {"namespace": "agents", "name": "run"}}, **more)


@pytest.mark.parametrize(
    ("spec", "owner"), [({}, "default"), ({"store": "east"}, "east"), ({"store": "nowhere"}, "default")]
)
async def test_a_baseline_is_its_stores_and_the_default_ones_if_nobody_knows_that(operators, spec, owner):
    assert await owners(operators, "Baseline", body("facts", spec=spec)) == [owner]


async def test_a_branch_is_its_baselines_until_its_status_says_whose_it_is(operators, kube):
    put(kube, BASELINE, body("facts", spec={"store": "east"}))
    assert await owners(operators, "Branch", branch()) == ["east"]
    assert await owners(operators, "Branch", branch(status={"branchId": "br_1", "store": "west"})) == ["west"]
    assert await owners(operators, "Branch", branch(status={"branchId": "br_1"})) == ["default"]
    assert await owners(operators, "Branch", branch(status={"branchId": "br_1", "store": "nowhere"})) == ["default"]


async def test_a_branch_of_no_baseline_is_the_default_ones_until_the_baseline_comes(operators, kube):
    assert await owners(operators, "Branch", branch()) == ["default"]
    came = body("facts", spec={"store": "east"})
    put(kube, BASELINE, came)
    assert await owners(operators, "Baseline", came) == ["east"]
    baseline = Key("Baseline", TEAM, "facts")
    for homes in operators.values():
        assert homes.found(baseline) == [Key("Branch", TEAM, "run")], "each operator looks at it again"
    assert await owners(operators, "Branch", branch()) == ["east"]
    assert operators["east"].found(baseline) == []


async def test_a_branch_is_looked_at_again_where_its_baseline_is_made_anew(operators, kube):
    baseline = Key("Baseline", TEAM, "facts")
    there, here = body("facts", spec={"store": "east"}), body("facts")
    put(kube, BASELINE, there)
    assert await owners(operators, "Baseline", there) == ["east"]
    assert await owners(operators, "Branch", branch()) == ["east"]
    assert [homes.found(baseline) for homes in operators.values()] == [[], [], []], "nothing has changed for anybody"
    for homes in operators.values():
        homes.forget(baseline)
    put(kube, BASELINE, here)
    assert await owners(operators, "Baseline", here) == ["default"]
    assert operators["default"].found(baseline) == [Key("Branch", TEAM, "run")]
    assert operators["west"].found(baseline) == []
    assert await owners(operators, "Branch", branch()) == ["default"]
    assert operators["default"].found(baseline) == []
    await owners(operators, "Branch", branch(status={"branchId": "br_1"}))
    assert operators["west"]._elsewhere == {}, "what says whose it is, is looked out for no more"


async def test_a_baseline_of_another_namespace_is_looked_up_there(operators, kube):
    put(kube, BASELINE, body("facts", spec={"store": "east"}, namespace="others"))
    made = body("run", spec={"baselineRef": {"namespace": "others", "name": "facts"}})
    assert await owners(operators, "Branch", made) == ["east"]


async def test_a_job_is_whose_label_or_branch_it_is_until_its_status_says_it(operators, kube):
    put(kube, BASELINE, body("facts", spec={"store": "east"}, namespace="agents"))
    assert await owners(operators, "ConsolidationJob", job()) == ["default"], "there is no such branch"
    put(kube, BRANCH, body("run", spec={"baselineRef": {"name": "facts"}}, namespace="agents"))
    assert await owners(operators, "ConsolidationJob", job()) == ["east"]
    assert await owners(operators, "ConsolidationJob", job(labels={LABEL: "west"})) == ["west"]
    assert await owners(operators, "ConsolidationJob", job(status={"jobId": "job_1", "store": "west"})) == ["west"]
    assert await owners(operators, "ConsolidationJob", job(status={"jobId": "job_1"})) == ["default"]
    assert await owners(operators, "ConsolidationJob", body("job", spec={"origin": "Import"})) == ["default"]


async def test_nobodys_answer_is_guessed_while_the_api_server_is_away(operators, kube):
    kube.objects["Baseline", TEAM, "facts"] = UnavailableError("away")
    for homes in operators.values():
        with pytest.raises(UnavailableError):
            await homes.is_own(Key("Branch", TEAM, "run"), branch())


async def test_a_baseline_is_looked_up_once_for_many_branches_and_again_after_a_while(kube):
    now = [0.0]
    homes = Homes(kube, own="east", others=("east",), clock=lambda: now[0])
    put(kube, BASELINE, body("facts", spec={"store": "east"}))
    for _ in range(3):
        assert await homes.is_own(Key("Branch", TEAM, "run"), branch())
    assert len(kube.asked) == 1
    now[0] = 11.0
    put(kube, BASELINE, body("facts"))
    assert not await homes.is_own(Key("Branch", TEAM, "run"), branch())


async def test_where_there_is_one_store_everything_is_its_own_and_nothing_is_looked_up(kube):
    homes = Homes(kube)
    assert await homes.is_own(Key("Branch", TEAM, "run"), branch())
    assert kube.asked == []
    assert homes.unknown("Baseline", body("facts", spec={"store": "east"})) == "east"


def test_what_is_anothers_by_its_own_word_is_not_observed(operators):
    there = body("facts", spec={"store": "east"})
    assert [store for store, homes in operators.items() if homes.is_others("Baseline", there)] == ["default", "west"]
    assert [store for store, homes in operators.items() if homes.is_others("Branch", branch())] == []


class Refusing:
    """A database that is not to be gone to."""

    def connection(self):
        raise UnavailableError("nobody should ask")


async def test_an_operator_does_not_release_what_another_one_is_to_delete(kube):
    """Its own database has nothing of it: it would let the resource go, and the data would stay."""
    released = []

    async def release(gone):
        released.append(gone["metadata"]["name"])

    async def never(*_):
        raise AssertionError

    controller = Controller(BASELINE, BaselineResource, never, never, needs_visit=lambda _: True, release=release)
    made = body("facts", spec={"store": "east", "deletionPolicy": "Delete"})
    made["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    gone = body("lost", spec={"store": "nowhere", "deletionPolicy": "Delete"})
    gone["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    reconcilers = {
        store: Reconciler(
            {"Baseline": controller},
            db=Refusing(),
            kube=kube,
            changed=lambda: None,
            homes=Homes(kube, own=store, others=("east", "west")),
        )
        for store in STORES
    }
    for reconciler in reconcilers.values():
        await reconciler.seen("Baseline", made)
        await reconciler.seen("Baseline", gone)
        await reconciler.close()
    assert released == ["facts"]
    gone["spec"]["deletionPolicy"] = "Retain"
    await reconcilers["default"].seen("Baseline", gone)
    assert released == ["facts", "lost"], "what is to stay anyway may go"
    await reconcilers["default"].close()
