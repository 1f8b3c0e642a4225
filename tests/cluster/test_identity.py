"""The API server's judgement on tokens and grants, its admission guard and its Leases, as this system asks for them."""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets

import pytest
from tests.cluster.conftest import await_policies
from tests.pace import allowed

from anabranch.devcluster import accounts
from anabranch.identity import Caller, Grants, Identity, grants
from anabranch.kube import kinds, watch
from anabranch.kube.client import KubeClient
from anabranch.kube.errors import (
    AlreadyExistsError,
    ObjectNotFoundError,
    ObjectRefusedError,
    RightMissingError,
    StaleObjectError,
)
from anabranch.kube.events import ObjectRef, Occurrence, emit
from anabranch.kube.guard import ReviewGuard
from anabranch.kube.leader import Leadership, Pace
from anabranch.model.errors import UnauthenticatedError, UnavailableError

AUDIENCE = "anabranch.test"
QUICK = Pace(duration=3, renew_deadline=2.0, retry=0.2)


@pytest.fixture
async def client(installed):
    client = await KubeClient.open(str(installed.kubeconfig))
    yield client
    await client.close()


@pytest.fixture
def agent(installed, namespace, person):
    """Makes a ServiceAccount with grants, and gives its identity."""

    def make(name, *held):
        person(name, *held)
        return Caller.for_service_account(namespace, name)

    return make


def mint(cluster, namespace, name, audience=AUDIENCE):
    return accounts.mint(cluster, namespace=namespace, name=name, audience=audience).value


def baseline(namespace, name="kb", **spec):
    return {"metadata": {"name": name, "namespace": namespace}, "spec": spec}


async def test_a_token_for_this_audience_names_its_service_account(client, installed, namespace, agent):
    agent("scout")
    caller = await Identity(client, audience=AUDIENCE).authenticate(mint(installed, namespace, "scout"))
    assert caller.service_account == (namespace, "scout")
    assert f"system:serviceaccounts:{namespace}" in caller.groups


@pytest.mark.parametrize("audience", ["anabranch.other", None], ids=["another installation's", "the API server's"])
async def test_a_token_for_another_audience_opens_nothing(client, installed, namespace, agent, audience):
    agent("scout")
    with pytest.raises(UnauthenticatedError):
        await Identity(client, audience=AUDIENCE).authenticate(mint(installed, namespace, "scout", audience))


async def test_the_operators_own_questions_about_an_agent_are_answered_as_the_agents(client, agent, namespace):
    scout = agent("scout", "anabranch-agent")
    stranger = agent("stranger")
    asked = Grants(client)
    for caller, wanted in ((scout, True), (stranger, False)):
        assert await asked.allowed(caller, grants.FORK, namespace=namespace, name="kb") is wanted
        assert await asked.allowed(caller, grants.SCOPE_WRITE, namespace=namespace, name="team/build") is wanted
        assert not await asked.allowed(caller, grants.SCOPE_TOMBSTONE, namespace=namespace, name="team/build")


async def test_a_role_can_name_single_scopes_slashes_and_all(client, installed, agent, namespace):
    scout = agent("scout")
    rule = {"apiGroups": ["anabranch.dev"], "resources": ["scopes"], "verbs": ["read"], "resourceNames": ["team/build"]}
    version, metadata = "rbac.authorization.k8s.io/v1", {"name": "build", "namespace": namespace}
    installed.apply([{"apiVersion": version, "kind": "Role", "metadata": metadata, "rules": [rule]}])
    subject = f"--serviceaccount={namespace}:scout"
    installed.kubectl("create", "rolebinding", "build", "--role=build", subject, f"--namespace={namespace}")
    scopes = ["shared", "team/build", "team"]
    assert await Grants(client).readable_scopes(scout, namespace=namespace, scopes=scopes) == ["team/build"]


async def test_a_revoked_grant_is_seen_by_the_next_question(client, installed, agent, namespace):
    scout = agent("scout", "anabranch-agent")
    assert await Grants(client).allowed(scout, grants.FORK, namespace=namespace, name="kb")
    installed.kubectl("delete", "rolebindings", "--all", f"--namespace={namespace}")
    async with asyncio.timeout(30):
        while await Grants(client).allowed(scout, grants.FORK, namespace=namespace, name="kb"):  # noqa: ASYNC110
            await asyncio.sleep(0.05)


async def test_an_account_that_may_not_ask_says_which_right_is_missing(installed, namespace, person, tmp_path):
    powerless = person("powerless")
    client = await KubeClient.open(str(powerless.kubeconfig))
    try:
        with pytest.raises(RightMissingError, match='cannot create resource "tokenreviews"'):
            await Identity(client, audience=AUDIENCE).authenticate(mint(installed, namespace, "powerless"))
    finally:
        await client.close()


async def test_a_rotated_token_is_used_from_the_moment_the_old_one_is_refused(installed, namespace, person):
    reader = person("reader", "anabranch-viewer")
    account = accounts.Account(namespace=namespace, name="reader", folder=reader.kubeconfig.parent)
    good = account.token_file.read_text()
    account.token_file.write_text("expired")
    client = await KubeClient.open(str(reader.kubeconfig))
    try:
        with pytest.raises(RightMissingError, match="does not accept"):
            await client.find(kinds.BASELINE, namespace=namespace, name="kb")
        account.token_file.write_text(good)
        assert await client.find(kinds.BASELINE, namespace=namespace, name="kb") is None
    finally:
        await client.close()


async def test_an_api_server_that_is_away_is_unavailable_and_named(tmp_path):
    nowhere = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    path = tmp_path / "kubeconfig"
    path.write_text(json.dumps(nowhere))
    client = await KubeClient.open(str(path))
    try:
        with pytest.raises(UnavailableError, match=r"https://127\.0\.0\.1:1 cannot be reached"):
            await client.get(kinds.NAMESPACE, name="default")
    finally:
        await client.close()


async def test_refusals_of_the_api_server_are_errors_of_this_system(client, namespace):
    made = await client.create(kinds.BASELINE, baseline(namespace), namespace=namespace)
    with pytest.raises(AlreadyExistsError):
        await client.create(kinds.BASELINE, baseline(namespace), namespace=namespace)
    with pytest.raises(ObjectRefusedError, match=r"spec\.suspend"):
        await client.create(kinds.BASELINE, baseline(namespace, "other", suspend="perhaps"), namespace=namespace)
    with pytest.raises(ObjectNotFoundError):
        await client.get(kinds.BASELINE, namespace=namespace, name="absent")
    made["spec"]["suspend"] = True
    await client.replace(kinds.BASELINE, made, namespace=namespace)
    with pytest.raises(StaleObjectError):
        await client.replace(kinds.BASELINE, made, namespace=namespace)


async def test_a_status_is_written_only_to_the_object_of_its_uid(client, namespace):
    made = await client.create(kinds.BASELINE, baseline(namespace), namespace=namespace)
    target = {"namespace": namespace, "name": "kb"}
    status = {"observedGeneration": 1, "lineId": "ln_x"}
    with pytest.raises(StaleObjectError):
        await client.write_status(kinds.BASELINE, **target, uid="another", status=status)
    with pytest.raises(ObjectNotFoundError):
        await client.write_status(kinds.BASELINE, namespace=namespace, name="absent", uid="any", status=status)
    uid = made["metadata"]["uid"]
    await client.write_status(kinds.BASELINE, **target, uid=uid, status=status)
    part = {"observedGeneration": 2}
    written = await client.write_status(kinds.BASELINE, **target, uid=uid, status=part, whole=False)
    assert written["status"] == {**status, **part}
    assert written["metadata"]["generation"] == 1
    whole = await client.write_status(kinds.BASELINE, **target, uid=uid, status=part)
    assert whole["status"] == part
    with pytest.raises(ObjectRefusedError):
        await client.write_status(kinds.BASELINE, **target, uid=uid, status={"observedGeneration": "two"})


async def test_an_occurrence_told_twice_is_one_event(client, namespace):
    made = await client.create(kinds.BASELINE, baseline(namespace), namespace=namespace)
    about = ObjectRef(kinds.BASELINE, namespace, "kb", made["metadata"]["uid"])
    published = Occurrence("Published", "Generation 2 is the new head." + "…" * 1_000, key="2")
    assert await emit(client, about, published, instance="one")
    assert not await emit(client, about, published, instance="two")
    assert await emit(client, about, Occurrence("Published", "Generation 3.", key="3"), instance="one")
    found = [event async for event in client.items(kinds.EVENT, namespace=namespace)]
    assert sorted(event["note"][:13] for event in found) == ["Generation 2 ", "Generation 3."]


async def test_reviews_are_guarded_while_the_policies_are_in_force_and_not_a_moment_longer(client, installed):
    clock = [0.0]
    guard = ReviewGuard(client, clock=lambda: clock[0])
    assert await guard.gaps() == []
    binding = installed.get("validatingadmissionpolicybindings", "anabranch-job-reviews")
    installed.kubectl("delete", "validatingadmissionpolicybindings", "anabranch-job-reviews")
    try:
        assert await guard.gaps() == []
        clock[0] = 15.1
        (gap,) = await guard.gaps()
        assert "anabranch-job-reviews" in gap
    finally:
        metadata = {member: binding["metadata"][member] for member in ("name", "labels")}
        installed.apply([{**binding, "metadata": metadata}])
        await asyncio.to_thread(await_policies, installed)  # others count on it


async def test_one_of_two_leads_and_the_other_as_soon_as_it_gives_the_lease_back(client, namespace):
    first, second = (
        Leadership(client, namespace=namespace, name="it", identity=identity, pace=QUICK) for identity in "ab"
    )
    loop = asyncio.get_running_loop()
    async with contextlib.AsyncExitStack() as first_runs:
        async with second.campaign():
            await asyncio.wait_for(second.acquired(), 30)
            await first_runs.enter_async_context(first.campaign())
            await asyncio.sleep(1)
            assert (first.leading, second.leading) == (False, True)
        given_back = loop.time()
        await asyncio.wait_for(first.acquired(), 30)
        assert loop.time() - given_back < allowed(QUICK.duration - 1)


async def test_the_lease_of_a_leader_that_died_runs_out(client, namespace):
    dead = Leadership(client, namespace=namespace, name="it", identity="dead", pace=QUICK)
    await dead._try()
    assert dead.leading
    heir = Leadership(client, namespace=namespace, name="it", identity="heir", pace=QUICK)
    loop = asyncio.get_running_loop()
    began = loop.time()
    async with heir.campaign():
        await asyncio.wait_for(heir.acquired(), 60)
    assert loop.time() - began >= QUICK.duration
    assert not dead.leading


async def test_a_leader_whose_api_server_is_away_stops_leading_before_another_begins(client, namespace, monkeypatch):
    leader = Leadership(client, namespace=namespace, name="it", identity="a", pace=QUICK)
    async with leader.campaign():
        await asyncio.wait_for(leader.acquired(), 30)

        async def away(*_, **__):
            raise UnavailableError("away")

        monkeypatch.setattr(client, "find", away)
        await asyncio.wait_for(leader.lost(), allowed(QUICK.renew_deadline + 1))
        assert not leader.leading


async def test_changes_of_config_maps_arrive_by_name_after_a_resync(client, installed, namespace):
    seen = watch.changes(client, kinds.CONFIG_MAP, namespace=namespace)
    assert await anext(seen) == watch.RESYNC
    name = f"guide-{secrets.token_hex(2)}"
    change = asyncio.create_task(anext(seen))
    await asyncio.sleep(0.2)
    await asyncio.to_thread(
        installed.kubectl, "create", "configmap", name, "--from-literal=a=b", f"--namespace={namespace}"
    )
    while (found := await asyncio.wait_for(change, 60)).name != name:
        change = asyncio.create_task(anext(seen))
    assert found == watch.Changed(namespace, name)
    await seen.aclose()
