"""Tokens that are not good here, at every door: of others, of another time, and of who is no more."""

from __future__ import annotations

import asyncio
import base64
import json
import re
import time
from typing import Any

import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from tests.cluster.places import BASELINE, Place, eventually
from tests.cluster.test_grants_matrix import OPERATIONS, Run, mcp
from tests.pace import allowed

from anabranch.api.app import create_app
from anabranch.identity import Identity
from anabranch.kube.client import KubeClient
from anabranch.model.errors import UnauthenticatedError

STREAM = "text/event-stream"
DOCUMENT = create_app().openapi()["paths"]
STREAMED = {
    operation
    for operation in OPERATIONS
    if operation.startswith("GET ")
    and STREAM in json.dumps(DOCUMENT[f"/v1/namespaces/{{namespace}}/{operation.removeprefix('GET ')}"]["get"])
}
KINDS = (
    "none", "forged", "of the API server's audience", "of another service's audience", "expired",
    "of a deleted account", "of a deleted pod",
)  # fmt: skip


async def test_what_is_tried_has_the_streams_in_it():
    assert {"GET baselines/{baseline}/events", "GET agents/{agent}/{instance}/events"} == STREAMED


@pytest.fixture(scope="module")
async def run(place) -> Run:
    """A run whose agent asks, where there is not much to ask about: who asks is found out before that."""
    for name in ("owner", "leaver"):
        place.account(name, "anabranch-agent", "anabranch-reviewer", "anabranch-publisher")
    branch = await place.branch(await place.client("owner"))
    parameters = {name: "1" for operation in OPERATIONS for name in re.findall(r"{(\w+)}", operation)}
    named = {"baseline": BASELINE, "branch": branch.name, "agent": "owner", "sha256": "0" * 64}
    return Run(place, {**parameters, "fact": "build/cache", "memory": "memory-1", **named}, {})


@pytest.fixture(scope="module")
async def tokens(run) -> dict[str, str | None]:
    """By what is wrong with them. Those of the dead have not been shown here while they were good."""
    place = run.place
    gone = {"of a deleted account": place.stack.token(place.namespace, "leaver")}
    make_pod(place.stack.cluster, place.namespace, "worker", account="owner")
    gone["of a deleted pod"] = of_pod(place.stack.cluster, place.namespace, place.stack.audience)
    siblings = (
        place.stack.token(place.namespace, "leaver"),
        of_pod(place.stack.cluster, place.namespace, place.stack.audience),
    )
    for good in siblings:  # that it is the account, and the pod, that they lack
        assert (await run.ask("GET baselines/{baseline}", good)).status_code == 200
    place.kubectl("delete", "serviceaccount/leaver", "pod/worker")
    for token in gone.values():
        await eventually(lambda token=token: refused_by_cluster(place, token))
    good = place.account("owner")
    expired = resigned(place, good, seconds=-60) if place.stack.cluster.kind == "local" else None
    if expired:  # that it is the time that it lacks
        assert (await run.ask("GET baselines/{baseline}", resigned(place, good, seconds=300))).status_code == 200
    return {
        "none": None,
        "forged": f"{good.rpartition('.')[0]}.{'A' * 86}",
        "of the API server's audience": place.kubectl("create", "token", "owner").strip(),
        "of another service's audience": place.kubectl("create", "token", "owner", "--audience=vault").strip(),
        "expired": expired,
        **gone,
    }


def make_pod(cluster, namespace: str, name: str, *, account: str) -> None:
    """A pod that no node is to run: only that it is there counts."""
    spec = {
        "serviceAccountName": account,
        "schedulingGates": [{"name": "anabranch.dev/never"}],
        "containers": [{"name": "it", "image": "none.invalid/none"}],
    }
    cluster.apply(
        [{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": namespace}, "spec": spec}]
    )


def of_pod(cluster, namespace: str, audience: str) -> str:
    """A token of the agent that ends with its pod, as the kubelet asks for it."""
    bound = ("--bound-object-kind=Pod", "--bound-object-name=worker", f"--audience={audience}")
    return cluster.kubectl("create", "token", "owner", *bound, f"--namespace={namespace}").strip()


async def refused_by_cluster(place: Place, token: str) -> bool:
    """Whether the API server says no, which remembers a yes for ten seconds."""
    spec = {"token": token, "audiences": [place.stack.audience]}
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": spec}
    answer = await asyncio.to_thread(
        place.kubectl, "create", "--filename=-", "--output=json", stdin=json.dumps(body), scoped=False
    )
    return not json.loads(answer)["status"].get("authenticated")


def resigned(place: Place, token: str, *, seconds: float) -> str:
    """The same token for another time, signed by the cluster's own key: good for so many seconds from now."""

    def part(value: Any) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")

    head, claims = (json.loads(base64.urlsafe_b64decode(f"{each}==")) for each in token.split(".")[:2])
    end = int(time.time() + seconds)
    signed = f"{part(head)}.{part(claims | {'iat': end - 600, 'nbf': end - 600, 'exp': end})}"
    key_file = next(place.stack.cluster.kubeconfig.parent.rglob("sa.key"))
    key = serialization.load_pem_private_key(key_file.read_bytes(), password=None)
    r, s = decode_dss_signature(key.sign(signed.encode(), ec.ECDSA(hashes.SHA256())))
    signature = base64.urlsafe_b64encode(r.to_bytes(32, "big") + s.to_bytes(32, "big")).decode().rstrip("=")
    return f"{signed}.{signature}"


@pytest.mark.parametrize("kind", KINDS)
async def test_every_route_stream_and_tool_refuses_a_token_that_is_not_good_for_it(run, tokens, kind):
    token = tokens[kind]
    if kind == "expired" and token is None:
        pytest.skip("only a local control plane lends the key that signs")
    async with asyncio.timeout(allowed(120)):  # a stream that began would have no end
        answers = {operation: await run.ask(operation, token) for operation in OPERATIONS}
        for operation in STREAMED:
            path = operation.removeprefix("GET ").format(**run.parameters)
            headers = {"Accept": STREAM} | ({} if token is None else {"Authorization": f"Bearer {token}"})
            answers[f"{operation} as a stream"] = await run.place.raw(None, "GET", path, headers=headers)
        answers["the tools of agents"] = await mcp(run, token, "tools/list")
        door = f"/v1/namespaces/{run.place.namespace}/branches/{run.parameters['branch']}/kv/mcp"
        answers["the tools of instantKV"] = await mcp(run, token, "tools/list", door=door)
    for where, answer in answers.items():
        assert answer.status_code == 401, (where, answer.text)
        assert answer.headers["www-authenticate"] == "Bearer", where
        if not where.startswith("HEAD"):
            # In the words of routes, of instantKV's contract, or of MCP.
            assert re.search(r'"code": ?("Unauthenticated"|"unauthorized")', answer.text), (where, answer.text)
            assert "kubectl create token" in answer.text, (where, answer.text)
            assert token is None or token not in answer.text, where


async def test_the_same_doors_open_for_the_token_that_is_good(run):
    token = run.place.account("owner")
    door = f"/v1/namespaces/{run.place.namespace}/branches/{run.parameters['branch']}/kv/mcp"
    for answer in (await mcp(run, token, "tools/list"), await mcp(run, token, "tools/list", door=door)):
        assert answer.status_code == 200, answer.text


async def test_who_is_gone_is_remembered_for_a_minute_and_no_longer(installed, namespace):
    for name in ("owner", "leaver"):
        installed.kubectl("create", "serviceaccount", name, f"--namespace={namespace}")
    make_pod(installed, namespace, "worker", account="owner")
    account = installed.kubectl("create", "token", "leaver", "--audience=here", f"--namespace={namespace}").strip()
    remembered = [account, of_pod(installed, namespace, "here")]
    clock = [1000.0]
    client = await KubeClient.open(str(installed.kubeconfig))
    try:
        identity = Identity(client, audience="here", clock=lambda: clock[0])
        for token in remembered:
            await identity.authenticate(token)
        installed.kubectl("delete", "serviceaccount/leaver", "pod/worker", f"--namespace={namespace}")

        async def forgotten() -> bool:  # by the API server, which remembers for ten seconds itself
            for token in remembered:
                try:
                    await Identity(client, audience="here").authenticate(token)
                except UnauthenticatedError:
                    continue
                return False
            return True

        await eventually(forgotten)
        clock[0] += 59.0
        for token in remembered:
            await identity.authenticate(token)
        clock[0] += 1.0
        for token in remembered:
            with pytest.raises(UnauthenticatedError, match="its ServiceAccount or pod is gone"):
                await identity.authenticate(token)
            with pytest.raises(UnauthenticatedError):  # nor does anything of it serve while the API server is away
                await identity.authenticate(token, stale=True)
    finally:
        await client.close()
