"""Resources that are another store's: what this one has of them it gives up, and it is asked for many at once."""

from __future__ import annotations

import asyncio

import pytest
from tests.store.world import AGENTS, AUTOMATIC, World

from anabranch.branches import reconcile as branch_resources
from anabranch.controllers.homes import Homes
from anabranch.controllers.keys import Key
from anabranch.controllers.reconciler import Controller, Reconciler
from anabranch.kube.kinds import BRANCH, JOB
from anabranch.model.crd import BranchResource, ConsolidationJobResource
from anabranch.model.ids import new_branch_id, new_line_id
from anabranch.store import branches, drift, waiting


@pytest.fixture
async def world(db):
    world = World(db)
    await world.import_documents({"a": "one"}, **AUTOMATIC)
    return world


class Kube:
    """Where nothing is to be looked up."""

    async def find(self, _kind, **_):
        raise AssertionError


@pytest.fixture
async def east(world):
    """The reconciler of the store `east`, on the test's database."""

    async def never(resource):
        raise AssertionError(f"{resource.name} is another store's")

    async def forget(key, uid):
        await branch_resources.forget(world.db, namespace=key.namespace, name=key.name, uid=uid)

    controllers = {
        "Branch": Controller(BRANCH, BranchResource, never, forget),
        "ConsolidationJob": Controller(JOB, ConsolidationJobResource, never, forget),
    }
    kube = Kube()
    homes = Homes(kube, own="east", others=("east",))
    made = Reconciler(controllers, db=world.db, kube=kube, changed=lambda: None, homes=homes)
    yield made
    await made.close()


@pytest.fixture
def questions(monkeypatch):
    """How many were asked about, each time."""
    asked, held = [], drift.held

    async def counted(conn, **about):
        asked.append(len(about["places"]))
        return await held(conn, **about)

    monkeypatch.setattr(drift, "held", counted)
    return asked


def told(name, status, *, uid=""):
    """A Branch as the API server has it."""
    metadata = {"namespace": AGENTS, "name": name, "uid": uid or f"uid-of-{name}", "generation": 1}
    return {"metadata": metadata, "spec": {}, "status": {"observedGeneration": 1, **status}}


async def row(world, name):
    async with world.db.connection() as conn:
        return await branches.by_uid(conn, namespace=AGENTS, name=name, uid=f"uid-of-{name}")


@pytest.mark.parametrize("event", ["found", "noticed", "seen"])
async def test_a_run_that_another_store_has_forked_too_is_given_up_here(world, east, event):
    run = await world.apply_branch("run")
    other = new_branch_id(new_line_id())
    await getattr(east, event)("Branch", told("run", {"branchId": other}))
    assert (await row(world, "run")).deleted_at is not None
    assert (await row(world, "run")).branch_id == run.branch_id, "what it brought stays, and goes its way"


async def test_a_run_is_not_given_up_for_a_namesake_nor_for_a_status_that_names_it_in_the_wrong_store(world, east):
    run = await world.apply_branch("run")
    await east.found("Branch", told("run", {"branchId": new_branch_id(new_line_id())}, uid="another"))
    await east.found("Branch", told("run", {"branchId": run.branch_id, "store": "default"}))
    await east.found("Branch", told("run", {"store": "default"}))
    assert (await row(world, "run")).deleted_at is None


async def test_what_was_waited_for_while_it_was_nobodys_is_waited_for_no_more(world, east):
    async with world.db.connection() as conn:
        await waiting.upsert(
            conn,
            namespace=AGENTS,
            kind="Branch",
            name="run",
            uid="uid-of-run",
            observed_generation=1,
            condition="Reconciling",
            reason="BaselineUnavailable",
            message="There is none.",
            needs_namespace=AGENTS,
            needs_name="facts",
            due_in=None,
        )
    await east.found("Branch", told("run", {"branchId": new_branch_id(new_line_id())}, uid="another"))
    assert await world.waits("Branch", "run") == "BaselineUnavailable", "that was a namesake"
    await east.found("Branch", told("run", {"branchId": new_branch_id(new_line_id())}))
    assert await world.waits("Branch", "run") is None


async def test_thousands_of_others_cost_one_question_and_none_the_next_time(east, questions):
    others = [told(f"run-{number}", {"branchId": new_branch_id(new_line_id())}) for number in range(50)]
    for _ in range(2):
        await asyncio.gather(*(east.found("Branch", other) for other in others))
        await asyncio.gather(*(east.noticed("Branch", other) for other in others))
    assert questions == [50]
    await east.gone(Key("Branch", AGENTS, "run-0"), "uid-of-run-0")
    await east.found("Branch", others[0])
    assert questions == [50, 1], "one that is gone is not remembered"
