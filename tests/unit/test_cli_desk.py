"""A decision from the page reaches the cluster by kubectl, unless something has changed since its reviewer looked."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from anabranch.cli.connection import Connection
from anabranch.cli.desk import REMEMBERED_SECONDS, TOKEN_SECONDS, TRIES, KubectlDesk
from anabranch.model.errors import ConflictError, ForbiddenError, NotFoundError, UnauthenticatedError
from anabranch.model.requests import DecisionRequest, GroupDecisionRequest
from anabranch.web.desk import DecidedMeanwhileError, Voice

CANDIDATE = f"cand_{'0' * 26}_{'0' * 26}"
HASH = f"sha256:{'a' * 64}"
DECISION = DecisionRequest(
    candidate_id=CANDIDATE, content_hash=HASH, base_revision="2", action="accept", reason="Tried."
)


@dataclass(frozen=True)
class FakeKubectl:
    """A cluster with one job."""

    namespace: str | None = "memory"
    reviews: list[dict[str, Any]] = field(default_factory=list)
    patches: list[dict[str, Any]] = field(default_factory=list)
    busy: list[str] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)

    def username(self):
        return "rosa"

    def get(self, kind, _name=None, *, everywhere=False):
        self.calls.append(kind)
        if kind == "baselines":
            if everywhere and "forbidden" in self.busy:
                raise ForbiddenError("you cannot list")
            return [{"metadata": {"namespace": namespace}} for namespace in ("b", "a", "b")]
        return {"metadata": {"resourceVersion": "7"}, "spec": {"reviews": self.reviews}}

    def patch(self, _kind, _name, patch):
        if self.busy:
            self.busy.pop()
            raise ConflictError("changed")
        self.patches.append(patch)

    def allowed(self, verb, resource, subresource="", *, namespace):
        self.calls.append(verb)
        return (verb, resource, subresource) != ("update", "consolidationjobs", "review") or namespace == "memory"


class FakeClient:
    def __init__(self, **candidate):
        canonical = SimpleNamespace(revision="2")
        self.candidate = SimpleNamespace(
            **{
                "candidate_id": CANDIDATE,
                "state": "waiting",
                "reason": "",
                "hold": None,
                "content_hash": HASH,
                "canonical": canonical,
                **candidate,
            }
        )
        self.said = []

    async def candidates(self, _namespace, _job):
        yield self.candidate

    async def reviews(self, _namespace, _job):
        return self.said

    async def groups(self, _namespace, _job):
        return [SimpleNamespace(group_id=CANDIDATE, digest=HASH, acceptable=False)]

    async def close(self):
        pass


def on_group(**changed):
    said = {"group_id": CANDIDATE, "digest": HASH, "action": "reject", "reason": "Junk."}
    return GroupDecisionRequest.model_validate({**said, **changed})


async def test_a_decision_on_a_group_goes_into_the_persons_own_entry():
    kubectl = FakeKubectl(busy=["the operator wrote its status"])
    await desk(kubectl).decide_group("memory", "job", on_group())
    (patch,) = kubectl.patches
    entry = {"groupId": CANDIDATE, "digest": HASH, "action": "reject", "reason": "Junk."}
    assert patch["spec"]["reviews"] == [{"reviewer": "rosa", "decisions": [], "groups": [entry]}]


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({"digest": f"sha256:{'b' * 64}"}, ConflictError),
        ({"action": "accept"}, ConflictError),
        ({"group_id": CANDIDATE[:-1] + "1"}, NotFoundError),
    ],
)
async def test_a_group_that_is_another_or_gone_or_mixed_is_not_decided(changed, error):
    kubectl = FakeKubectl()
    with pytest.raises(error):
        await desk(kubectl).decide_group("memory", "job", on_group(**changed))
    assert kubectl.patches == []


def desk(kubectl=None, client=None, **settings) -> KubectlDesk:
    made = KubectlDesk(Connection(kubectl=kubectl or FakeKubectl()), **settings)
    made._client, made._made_at = client or FakeClient(), made._clock()
    return made


def entry(reviewer, action):
    return SimpleNamespace(candidate_id=CANDIDATE, reviewer=reviewer, action=action)


def standing(reviewer, action):
    return {"reviewer": reviewer, "decisions": [{"candidateId": CANDIDATE, "action": action}]}


async def test_a_decision_goes_into_the_persons_own_entry_bound_to_what_they_saw():
    kubectl = FakeKubectl(reviews=[{"reviewer": "tom", "decisions": [{"candidateId": "other", "action": "reject"}]}])
    await desk(kubectl).decide("memory", "j", DECISION, heard=[])
    (patch,) = kubectl.patches
    assert patch["metadata"] == {"resourceVersion": "7"}
    seen = {"contentHash": HASH, "baseRevision": "2"}
    own = {"candidateId": CANDIDATE, **seen, "action": "accept", "reason": "Tried."}
    assert patch["spec"]["reviews"] == [kubectl.reviews[0], {"reviewer": "rosa", "decisions": [own]}]


@pytest.mark.parametrize("noted", [True, False])
async def test_what_another_reviewer_said_meanwhile_comes_first(noted):
    """Whether the operator has noted it already, or it stands in the resource alone."""
    kubectl, client = FakeKubectl(reviews=[] if noted else [standing("tom", "reject")]), FakeClient()
    client.said = [entry("tom", "reject")] if noted else []
    made = desk(kubectl, client)
    for heard in ([], [Voice("tom", "accept")]):
        with pytest.raises(DecidedMeanwhileError, match="tom rejected it while you were reading"):
            await made.decide("memory", "j", DECISION, heard=heard)
    assert kubectl.patches == []
    await made.decide("memory", "j", DECISION, heard=[Voice("tom", "reject")])
    assert len(kubectl.patches) == 1


async def test_ones_own_earlier_decision_may_be_changed():
    kubectl = FakeKubectl(reviews=[standing("rosa", "reject")])
    await desk(kubectl).decide("memory", "j", DECISION, heard=[])
    ((own,),) = [patch["spec"]["reviews"] for patch in kubectl.patches]
    assert [each["action"] for each in own["decisions"]] == ["accept"]


async def test_the_operators_own_writes_are_no_other_reviewer():
    kubectl = FakeKubectl(busy=["x"] * (TRIES - 1))
    await desk(kubectl).decide("memory", "j", DECISION, heard=[])
    assert len(kubectl.patches) == 1
    with pytest.raises(ConflictError):
        await desk(FakeKubectl(busy=["x"] * TRIES)).decide("memory", "j", DECISION, heard=[])


@pytest.mark.parametrize(
    ("candidate", "error"),
    [
        ({"state": "published"}, DecidedMeanwhileError),
        ({"content_hash": f"sha256:{'b' * 64}"}, ConflictError),
        ({"canonical": SimpleNamespace(revision="3")}, ConflictError),
        ({"canonical": None}, ConflictError),
        ({"candidate_id": "another"}, NotFoundError),
    ],
)
async def test_a_decision_on_what_is_another_by_now_is_not_made(candidate, error):
    kubectl = FakeKubectl()
    with pytest.raises(error):
        await desk(kubectl, FakeClient(**candidate)).decide("memory", "j", DECISION, heard=[])
    assert kubectl.patches == []


async def test_namespaces_are_the_one_that_was_named_or_all_with_a_baseline():
    assert await desk().namespaces() == ["memory"]
    assert await desk(FakeKubectl(namespace=None)).namespaces() == ["a", "b"]


async def test_what_kubectl_said_is_held_for_a_moment():
    kubectl, now = FakeKubectl(), [100.0]
    made = desk(kubectl, clock=lambda: now[0])
    assert [await made.may_decide("memory"), await made.may_decide("memory")] == [True, True]
    assert len(kubectl.calls) == 2
    assert not await made.may_decide("elsewhere")
    now[0] += REMEMBERED_SECONDS + 1
    await made.may_decide("memory")
    assert len(kubectl.calls) == 6


async def test_a_token_is_minted_anew_before_it_ends_and_when_it_is_refused(monkeypatch):
    now, made = [100.0], []
    monkeypatch.setattr(Connection, "client", lambda _self: made.append(FakeClient()) or made[-1])
    place = desk(clock=lambda: now[0])
    async with place.client() as first:
        assert made == []
    now[0] += TOKEN_SECONDS + 1
    async with place.client() as second:
        assert second is not first
    with contextlib.suppress(UnauthenticatedError):
        async with place.client():
            raise UnauthenticatedError("it ended")
    async with place.client():
        assert len(made) == 2
