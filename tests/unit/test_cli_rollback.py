"""A rollback before it happens: where it goes, who owns the spec, what it will change, and whether it has happened."""

import pytest

from anabranch.cli import consequences as looking
from anabranch.cli import rollback
from anabranch.cli.connection import Connection
from anabranch.model.errors import ForbiddenError, InvalidInputError, NotFoundError, NotReadyError, UnavailableError

METADATA = {"namespace": "memory", "name": "team", "generation": 4}


def baseline(*, current=3, head=3, previous=None, history=(3, 2, 1), pin=None, managers=(), observed=4, stalled=None):
    conditions = [{"type": "Stalled", "status": "True", "reason": "PinTargetPruned", "message": stalled}]
    return {
        "apiVersion": "anabranch.dev/v1alpha1",
        "metadata": {**METADATA, "managedFields": list(managers)},
        "spec": {"pin": pin} if pin else {},
        "status": {
            "observedGeneration": observed,
            "current": {"generation": current, "baselineId": f"bl_{current}"},
            "head": {"generation": head, "baselineId": f"bl_{head}"},
            **({"previous": {"generation": previous}} if previous else {}),
            "history": [{"generation": generation} for generation in history],
            "conditions": conditions if stalled else [],
        },
    }


def manager(name, *members):
    return {"manager": name, "operation": "Apply", "fieldsV1": {f"f:{member}": {} for member in members}}


def branch(name, parent, *, namespace="agents", of=("memory", "team")):
    ref = {"name": of[1]} if of[0] == namespace else {"namespace": of[0], "name": of[1]}
    return {
        "metadata": {"namespace": namespace, "name": name},
        "spec": {"baselineRef": ref},
        "status": {"parent": {"generation": parent}} if parent else {},
    }


def job(name, of=None, *, condition=None, state="publishing"):
    conditions = [{"type": condition, "status": "True"}] if condition else []
    spec = {"branchRef": {"namespace": "agents", "name": of}} if of else {}
    status = {"state": state, "conditions": conditions}
    return {"metadata": {"namespace": "memory", "name": name}, "spec": spec, "status": status}


class FakeKubectl:
    """Answers `get` of a kind with a list, or with an error where there is one for it."""

    namespace = None

    def __init__(self, **answers):
        self.answers = answers

    def get(self, kind, *, everywhere=False):
        answer = self.answers[f"all_{kind}" if everywhere else kind]
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.mark.parametrize("name", ["argocd-controller", "argocd-application-controller", "kustomize-controller", "Flux"])
def test_a_gitops_tool_that_manages_the_spec_is_its_owner(name):
    managers = [manager("kubectl", "spec"), manager(name, "metadata", "spec")]
    assert rollback.gitops_owner(baseline(managers=managers)) == name


@pytest.mark.parametrize(
    "managers",
    [[], [manager("kubectl-client-side-apply", "spec")], [manager("helm", "spec")], [manager("argocd", "metadata")]],
)
def test_nobody_else_is_taken_for_a_gitops_tool(managers):
    assert rollback.gitops_owner(baseline(managers=managers)) is None


@pytest.mark.parametrize(
    ("found", "target"),
    [
        ({"current": 3, "previous": 1}, 1),
        ({"current": 3, "previous": None}, 2),
        ({"current": 2, "previous": 3}, 1),  # after a rollback: not forward again
        ({"current": 3, "previous": 3}, 2),
    ],
)
def test_without_a_target_it_goes_to_what_readers_had_before(found, target):
    assert rollback.previous(baseline(**found)) == target


def test_the_first_generation_has_none_to_go_back_to():
    with pytest.raises(NotFoundError, match="no earlier generation"):
        rollback.previous(baseline(current=1, head=1, history=(1,)))


def test_a_target_must_have_been_made():
    rollback.check_target(baseline(head=3), 3)
    with pytest.raises(NotFoundError, match="no generation 4; the newest is 3"):
        rollback.check_target(baseline(head=3), 4)
    with pytest.raises(NotReadyError, match="no generation yet"):
        rollback.check_target({"metadata": METADATA}, 1)


def test_what_is_applied_says_nothing_but_the_pin():
    assert rollback.manifest(baseline(), 2)["spec"] == {"pin": {"generation": 2}}
    assert rollback.manifest(baseline(), None)["spec"] == {}
    assert rollback.manifest(baseline(), 2)["metadata"] == {"namespace": "memory", "name": "team"}


@pytest.mark.parametrize(
    ("found", "done"),
    [
        ({"pin": {"generation": 2}, "current": 2}, True),
        ({"pin": {"baselineId": "bl_2"}, "current": 2}, True),
        ({"pin": {"generation": 2}, "current": 3}, False),
        ({"pin": {"generation": 2}, "current": 2, "observed": 3}, False),
        ({"current": 2, "head": 3}, False),
        ({"current": 5, "head": 5}, True),  # consolidation went on meanwhile
    ],
)
def test_it_has_happened_when_readers_have_what_the_newest_spec_asks_for(found, done):
    assert rollback.settled(baseline(**found)) is done


def test_a_pin_that_will_never_hold_ends_the_wait():
    with pytest.raises(NotReadyError, match="Readers stay where they are: Generation 2 is gone"):
        rollback.settled(baseline(pin={"generation": 2}, stalled="Generation 2 is gone."))


def test_branches_of_the_baseline_that_forked_later_are_named():
    branches = [branch("a", 3), branch("b", 2), branch("c", None)]
    assert looking.forked_after(branches, 2) == ["agents/a (generation 3)"]


def test_a_branch_without_a_namespace_in_its_reference_means_its_own():
    assert looking.of_baseline(branch("a", 1, namespace="memory"), METADATA)
    assert looking.of_baseline(branch("a", 1), METADATA)
    assert not looking.of_baseline(branch("a", 1, of=("agents", "team")), METADATA)
    assert not looking.of_baseline(branch("a", 1, of=("memory", "other")), METADATA)


def test_unfinished_jobs_are_held_unless_their_branch_is_of_another_baseline():
    branches = [branch("mine", 1), branch("theirs", 1, of=("memory", "other"))]
    jobs = [
        job("a", "mine"),
        job("b", "theirs"),
        job("c", "mine", condition="Complete"),
        job("d", "mine", condition="Failed"),
        job("e", "unseen", condition="AwaitingReview", state="awaiting_review"),
        job("f"),
    ]
    assert looking.held(jobs, branches, METADATA) == ["a (publishing)", "e (awaiting_review)", "f (publishing)"]


def test_long_lists_are_cut_and_counted():
    lines = list(looking.named("Things", [str(n) for n in range(25)]))
    assert lines[0] == "Things: 25"
    assert (len(lines), lines[-1]) == (22, "  … and 5 more")


def told(target=2, **answers):
    connection = Connection(kubectl=FakeKubectl(**answers))
    return list(looking.consequences(baseline(), target, connection))


def test_the_consequences_are_told_as_far_as_the_person_may_look():
    with pytest.raises(InvalidInputError, match="Give --url") as no_address:
        Connection(kubectl=FakeKubectl()).client()
    lines = told(all_branches=[branch("a", 3)], consolidationjobs=[job("j", "a")])
    assert lines == [
        "memory/team: readers go from generation 3 to 2.",
        f"Records that change for readers: not known. {no_address.value}",
        "Branches forked from a withdrawn generation, which they keep: 1",
        "  agents/a (generation 3)",
        "Jobs held until the pin goes: 1",
        "  j (publishing)",
    ]


def test_who_has_an_address_and_no_token_is_told_how_to_mint_one():
    connection = Connection(kubectl=FakeKubectl(all_branches=[], consolidationjobs=[]), url="http://api")
    said = "\n".join(looking.consequences(baseline(), 2, connection))
    assert "Records that change for readers: not known. There is no token" in said
    assert "--service-account NAME to mint one by kubectl" in said


def test_what_a_person_may_not_list_does_not_stand_in_the_way():
    refused = ForbiddenError("you cannot list branches at the cluster scope")
    lines = told(all_branches=refused, branches=[branch("a", 3)], consolidationjobs=UnavailableError("it is away"))
    assert "  agents/a (generation 3)" in lines
    assert "  not all are known: you cannot list branches at the cluster scope" in lines
    assert lines[-1] == "Jobs held until the pin goes: not known. it is away"


def test_a_pin_of_what_readers_have_says_that_it_only_pauses():
    lines = told(3, all_branches=[], consolidationjobs=[])
    assert lines[0] == "memory/team: readers have generation 3 already; the pin pauses consolidation."
