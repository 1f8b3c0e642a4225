"""What is wrong is refused at either door in words for its sender, and leaves nothing behind."""

from __future__ import annotations

import base64
import hashlib
import json
import secrets

import asyncpg
import httpx
import pytest
from tests.cluster.places import BASELINE

from anabranch.client import AnabranchClient
from anabranch.devcluster.errors import DevclusterError
from anabranch.model.errors import UnauthenticatedError
from anabranch.model.objects import batch_hash

BRANCH = {"baselineRef": {"name": BASELINE}, "agent": {"serviceAccountName": "worker"}}
JOB = {"branchRef": {"name": "b"}, "batches": {"from": 1, "through": 1}}


@pytest.fixture(scope="module")
async def agent(place):
    return await place.client("agent", "anabranch-agent")


# --------------------------------------------------------------------------------------------------------- as resources


@pytest.mark.parametrize(
    ("kind", "spec", "words"),
    [
        ("Branch", '{"task": "x", "nonsense": 1}', 'unknown field "spec.nonsense"'),
        ("Branch", json.dumps({**BRANCH, "task": "x" * 2_000}), "spec.task"),
        ("Branch", json.dumps({**BRANCH, "task": "a\0b"}), "spec.task"),
        ("Branch", json.dumps({**BRANCH, "baselineRef": {"name": "Not A Name"}}), "spec.baselineRef.name"),
        ("Branch", json.dumps({**BRANCH, "sharingPolicy": {"scopes": [f"s{n}" for n in range(33)]}}), "at most 32"),
        ("Branch", json.dumps({**BRANCH, "sharingPolicy": {"scopes": ["e\u0301"]}}), "spec.sharingPolicy.scopes[0]"),
        ("Baseline", '{"pin": {"generation": 9223372036854775808}}', "spec.pin.generation"),
        ("Baseline", '{"pin": {"generation": 1.5}}', "spec.pin.generation"),
        ("Baseline", '{"pin": {"generation": NaN}}', ""),
        ("Baseline", '{"import": {"archive": {"digest": "md5:1"}}}', "spec.import.archive.digest"),
        ("Baseline", "[" * 20_000 + "]" * 20_000, ""),
        ("ConsolidationJob", json.dumps({**JOB, "batches": {"from": 1, "through": 2**53}}), "spec.batches.through"),
        ("ConsolidationJob", json.dumps({**JOB, "batches": {"from": -1, "through": 1}}), "spec.batches.from"),
        ("ConsolidationJob", json.dumps({**JOB, "batches": {"from": 7, "through": 1}}), "is greater than"),
    ],
    ids=lambda value: value[:40],
)
def test_a_resource_that_is_not_one_is_refused_by_its_field(place, kind, spec, words):
    body = (
        f'{{"apiVersion": "anabranch.dev/v1alpha1", "kind": "{kind}", "metadata": {{"name": "bad"}}, "spec": {spec}}}'
    )
    with pytest.raises(DevclusterError) as refused:
        place.kubectl("create", "--dry-run=server", "--filename=-", stdin=body)
    assert words in str(refused.value)


# ------------------------------------------------------------------------------------------------------------ over HTTP


def batch(branch, **members):
    whole = {
        "branch_id": branch.branch_id,
        "sequence": 1,
        "changes": [{"key": "k", "content": 1}],
        "source_locators": [[]],
        "base_revisions": ["0"],
        **members,
    }
    return {**whole, "content_hash": batch_hash(whole)}


async def test_batches_that_are_refused_leave_nothing_and_do_not_take_the_place_of_a_good_one(place, agent):
    branch = await place.branch(agent)
    good = batch(branch)
    refused = [
        (batch(branch, nonsense=1), 422, "nonsense: there is no such field"),
        (batch(branch, changes=[{"key": "a\nb"}]), 422, "changes[0].key: key 'a\\nb' holds a control character."),
        (batch(branch, sequence=2), 422, "The batch has the sequence 2, the path 1."),
        ({**good, "content_hash": f"sha256:{'0' * 64}"}, 400, "and the batch that arrived has sha256:"),
        (batch(branch, branch_id=f"br_{'0' * 26}_{'0' * 26}"), 422, "The batch names the branch"),
    ]
    for path in ("batches/1", "batches"):
        for body, status, words in refused:
            if path == "batches":
                if words.startswith("The batch has the sequence"):
                    continue  # here the batch says itself where it goes
                answer = await place.raw(agent, "POST", f"branches/{branch.name}/batches", json={"batches": [body]})
                (result,) = answer.json()["results"]
                told, found = result["status"], result["answer"]
            else:
                answer = await place.raw(agent, "PUT", f"branches/{branch.name}/{path}", json=body)
                told, found = answer.status_code, answer.json()
            assert (told, found["hint"] != "") == (status, True), found
            assert words in found["detail"]
    assert [found async for found in agent.batches(place.namespace, branch.name)] == []
    answer = await place.raw(agent, "PUT", f"branches/{branch.name}/batches/1", json=good)
    assert (answer.status_code, answer.json()["ack"]) == (200, "receipt")


@pytest.mark.parametrize(("ahead", "status"), [(1_024, 200), (1_025, 422), (2**53 - 1, 422), (2**53, 422)])
async def test_a_sequence_far_ahead_is_refused_with_the_window_and_where_it_begins(place, agent, ahead, status):
    branch = await place.branch(agent)
    body = batch(branch, sequence=min(ahead, 2**53 - 1))
    answer = await place.raw(agent, "PUT", f"branches/{branch.name}/batches/{ahead}", json=body)
    assert answer.status_code == status, answer.text
    if status != 200:
        assert answer.json()["hint"]
        assert "1024" in answer.text or "9007199254740991" in answer.text


async def test_a_token_that_expired_is_refused_with_what_to_do_and_the_file_is_read_again(place, agent, tmp_path):
    good = place.account("agent")
    head, payload, signature = good.split(".")
    claims = json.loads(base64.urlsafe_b64decode(payload + "=="))
    old = json.dumps({**claims, "exp": 1_700_000_000}).encode()
    file = tmp_path / "token"
    file.write_text(f"{head}.{base64.urlsafe_b64encode(old).decode().rstrip('=')}.{signature}")
    async with AnabranchClient(place.stack.api_url, token_file=file) as client:
        with pytest.raises(UnauthenticatedError, match="The token expired at 2023-11-14T22:13:20") as refused:
            await client.baseline(place.namespace, BASELINE)
        assert "read the mounted token file anew" in refused.value.hint
        file.write_text(good)
        assert (await client.baseline(place.namespace, BASELINE)).name == BASELINE


# ------------------------------------------------------------------------------------------------------------- archives


@pytest.fixture(scope="module")
async def publisher(place):
    return await place.client("publisher", "anabranch-publisher")


async def test_an_api_that_is_killed_under_an_upload_leaves_nothing_and_the_next_upload_is_whole(place, publisher):
    data = secrets.token_bytes(8 << 20)
    digest = hashlib.sha256(data)
    path = f"/v1/namespaces/{place.namespace}/baselines/{BASELINE}/archives/{digest.hexdigest()}"
    place.stack.start_api("victim")
    try:
        token = {"Authorization": f"Bearer {place.account('publisher')}"}

        async def pieces():
            for start in range(0, len(data), 1 << 20):
                if start == 4 << 20:
                    place.stack.kill("victim")
                yield data[start : start + (1 << 20)]

        async with httpx.AsyncClient(base_url=place.stack.url("victim"), trust_env=False) as http:
            with pytest.raises(httpx.TransportError):
                await http.put(path, content=pieces(), headers=token)
    finally:
        place.stack.stop("victim")
    conn = await asyncpg.connect(place.stack.admin_dsn)
    try:
        kept = "SELECT count(*) FROM archive_chunks WHERE digest = $1"
        assert await conn.fetchval(kept, digest.digest()) == 0
        assert (await place.raw(publisher, "HEAD", path)).status_code == 404
        assert (await place.raw(publisher, "PUT", path, content=data)).status_code == 201
        assert (await place.raw(publisher, "PUT", path, content=data)).status_code == 200
        assert await conn.fetchval(kept, digest.digest()) == 8
    finally:
        await conn.close()
