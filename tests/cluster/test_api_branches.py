"""An agent's own branch over HTTP: creating it, keeping notes, handing in evidence and findings, closing the run."""

from __future__ import annotations

import asyncio
import secrets

import pytest
from tests.cluster.places import BASELINE, eventually, finding, told

from anabranch.model.answers import BranchPending
from anabranch.model.canonical import canonical_bytes, content_hash, hash_text, sha256
from anabranch.model.errors import (
    ConflictError,
    ForbiddenError,
    InvalidInputError,
    NotFoundError,
    PreconditionFailedError,
    TooLargeError,
)
from anabranch.model.objects import FindingBatch, Publication, Receipt, RunCompletion, batch_hash
from anabranch.model.requests import BranchRequest


@pytest.fixture(scope="module")
async def agent(place):
    return await place.client("agent", "anabranch-agent")


@pytest.fixture(scope="module")
async def other(place):
    """Another agent with every grant that agents have, and more."""
    return await place.client("other", "anabranch-agent", "anabranch-reviewer", "anabranch-publisher")


@pytest.fixture
async def branch(place, agent):
    return await place.branch(agent, task="find out")


def request(**members) -> BranchRequest:
    return BranchRequest(**{"name": f"run-{secrets.token_hex(4)}", "baseline": BASELINE, **members})


async def test_an_agent_creates_its_branch_and_gets_it_forked(place, agent, branch):
    assert (branch.agent_id, branch.phase) == ("agent", "Active")
    parent = await agent.manifest(place.namespace, BASELINE, branch.parent.generation)
    assert (branch.parent.baseline_id, branch.parent_snapshot_id) == (parent.baseline_id, parent.baseline_id)
    assert branch.baseline == f"{place.namespace}/{BASELINE}"
    resource = place.stack.cluster.get("branches", branch.name, "--namespace", place.namespace)
    assert resource["metadata"]["annotations"]["anabranch.dev/created-by"].endswith(":agent")
    assert resource["spec"]["agent"]["serviceAccountName"] == "agent"
    for ref in (branch.name, branch.branch_id):
        assert (await agent.branch(place.namespace, ref)).run_id == branch.run_id
    assert branch.name in [found.name async for found in agent.branches(place.namespace)]


async def test_the_same_request_again_is_the_same_branch_and_another_one_is_refused(place, agent, other):
    wanted = request(task="once", agent_instance="two")
    first, second = await asyncio.gather(*(agent.create_branch(place.namespace, wanted) for _ in range(2)))
    assert first == second
    assert await agent.create_branch(place.namespace, wanted) == first
    with pytest.raises(ConflictError):
        await agent.create_branch(place.namespace, wanted.model_copy(update={"task": "twice"}))
    with pytest.raises(ConflictError):
        await other.create_branch(place.namespace, wanted)


async def test_nobody_creates_a_branch_for_another_agent_without_delegate(place, agent, other):
    with pytest.raises(ForbiddenError) as caught:
        await agent.create_branch(place.namespace, request(service_account="other"))
    assert caught.value.extra["grant"] == "agents:delegate"
    place.allow("other", "agents", "delegate", "agent")
    await asyncio.sleep(5.1)  # a refusal may be remembered for five seconds
    made = await other.create_branch(place.namespace, request(service_account="agent"))
    assert made.agent_id == "agent"
    with pytest.raises(ForbiddenError):
        await other.create_branch(place.namespace, request(service_account="default"))


async def test_creating_branches_needs_its_grant(place):
    viewer = await place.client("looks", "anabranch-viewer")
    with pytest.raises(ForbiddenError) as caught:
        await viewer.create_branch(place.namespace, request())
    assert caught.value.extra["grant"] == "branches:create"


async def test_a_branch_of_a_baseline_that_is_absent_or_not_granted_is_pending_with_one_reason(place, agent):
    await place.client("ungranted", "create,get branches")
    unforkable = await place.client("ungranted")
    answers = [
        await place.raw(agent, "POST", "branches", content=request(baseline="absent").model_dump_json()),
        await place.raw(unforkable, "POST", "branches", content=request().model_dump_json()),
    ]
    for answer in answers:
        assert answer.status_code == 202, answer.text
        pending = BranchPending.model_validate_json(answer.content)
        assert (pending.phase, pending.reason) == ("Pending", "BaselineUnavailable")
        assert answer.headers["location"] == f"/v1/namespaces/{place.namespace}/branches/{pending.name}"


async def test_a_branch_that_is_pending_is_asked_for_again_and_is_pending_still(place, agent, other):
    wanted = request(baseline="absent").model_dump_json()
    first, again = [await place.raw(agent, "POST", "branches", content=wanted) for _ in range(2)]
    assert (first.status_code, again.status_code) == (202, 202), again.text
    assert first.headers["location"] == again.headers["location"]
    # Whose it is cannot be told yet, and what it waits for is told to nobody else.
    others = await place.raw(other, "POST", "branches", content=wanted)
    assert (others.status_code, others.json()["reason"]) == (202, "")
    assert "absent" not in others.text


async def test_what_the_api_server_refuses_of_a_branch_is_told(place, agent):
    with pytest.raises(InvalidInputError, match=r"spec\.task"):
        await agent.create_branch(place.namespace, request(task="é" * 1000))


async def test_private_records_are_written_conditionally(place, agent, branch):
    where = (place.namespace, branch.name, "notes/plan")
    first = await agent.put_private(*where, {"step": 1}, if_none_match=True)
    assert (first.revision, first.visibility, first.base_revision) == ("1", "private", "0")
    with pytest.raises(PreconditionFailedError):
        await agent.put_private(*where, {"step": 9}, if_none_match=True)
    second = await agent.put_private(*where, {"step": 2}, if_match="1", visibility="shareable")
    with pytest.raises(PreconditionFailedError) as caught:
        await agent.put_private(*where, {"step": 3}, if_match="1")
    assert caught.value.extra["revision"] == second.revision == "2"
    answer = await place.raw(agent, "GET", f"branches/{branch.name}/records/notes/plan")
    assert (answer.headers["etag"], answer.json()["content"]) == ('"2"', {"step": 2})
    with pytest.raises(PreconditionFailedError):
        await agent.delete_private(*where, if_match="1")
    await agent.delete_private(*where, if_match="2")
    with pytest.raises(NotFoundError):
        await agent.get_private(*where)
    assert (await agent.put_private(*where, 1)).revision == "4", "a number, once seen, names no other content"


@pytest.mark.parametrize("headers", [{"If-Match": "2"}, {"If-Match": '"1", "2"'}, {"If-None-Match": '"1"'}])
async def test_a_precondition_that_is_not_understood_is_refused_and_not_ignored(place, agent, branch, headers):
    path = f"branches/{branch.name}/records/k"
    answer = await place.raw(agent, "PUT", path, json={"content": 1}, headers=headers)
    assert answer.status_code == 422


@pytest.mark.parametrize("key", ["a/../b", "..", "a//b/", "/x", "sp ace?#%&+", "ключ/日本", "x" * 512])
async def test_any_key_travels_through_the_path(place, agent, branch, key):
    await agent.put_private(place.namespace, branch.branch_id, key, key)
    assert (await agent.get_private(place.namespace, branch.branch_id, key)).content == key
    assert [record.key async for record in agent.private_records(place.namespace, branch.name)] == [key]


async def test_a_view_names_its_layer_and_revision(place, agent, branch):
    key = "build/cache"

    async def view(layer):
        return await agent.view(place.namespace, branch.name, key, layer=layer)

    base = await view("base")
    assert (base.layer, base.revision, base.base_revision) == ("base", "1", "1")
    assert await view("merged") == base
    with pytest.raises(NotFoundError):
        await view("private")
    own = await agent.put_private(place.namespace, branch.name, key, "Mine.")
    assert own.base_revision == "1"
    for layer in ("private", "merged"):
        seen = await view(layer)
        assert (seen.layer, seen.content, seen.base_revision) == ("private", "Mine.", "1")
    assert await view("base") == base
    assert await agent.base_revision(place.namespace, branch.name, "never/written") == "0"


async def test_a_view_shows_the_parent_only_in_scopes_that_its_agent_may_read(place):
    narrow = await place.client(
        "narrow-agent", "get baselines,baselines/records", "create baselines/fork,branches", "update branches/data"
    )
    place.allow("narrow-agent", "scopes", "read", "shared")
    branch = await place.branch(narrow)
    assert (await narrow.view(place.namespace, branch.name, "build/cache")).layer == "base"
    with pytest.raises(NotFoundError):
        await narrow.view(place.namespace, branch.name, "build/exit-137")
    hidden = await narrow.put_private(place.namespace, branch.name, "build/exit-137", "?")
    assert hidden.base_revision == "0", "a base revision would tell that there is a record"


async def test_no_grant_opens_a_branch_to_anybody_but_its_agent(place, agent, other, branch):
    await agent.put_private(place.namespace, branch.name, "secret", "s")
    locator = await agent.put_evidence(place.namespace, branch.name, b"mine")
    digest = locator.rpartition(":")[2]
    said = set()
    for ref in (branch.name, branch.branch_id, "run-absent"):
        for path in ("records", "records/secret", "view/secret", f"evidence/{digest}", "batches", "completion"):
            answer = await place.raw(other, "GET", f"branches/{ref}/{path}")
            assert answer.status_code == 404
            said.add(told(answer, ref))
        for path, body in (("records/secret", {"content": 1}), ("batches/1", {}), ("completion", {})):
            answer = await place.raw(other, "PUT", f"branches/{ref}/{path}", json=body)
            said.add(told(answer, ref))
        said.add(told(await place.raw(other, "DELETE", f"branches/{ref}/records/secret"), ref))
    assert len(said) == 1
    assert (await other.branch(place.namespace, branch.name)).branch_id == branch.branch_id, "its manifest is no secret"


async def test_evidence_answers_its_own_branch_by_digest(place, agent, branch):
    body = secrets.token_bytes(100)
    locator = await agent.put_evidence(place.namespace, branch.name, body, media_type="text/html")
    assert locator == f"evidence:{hash_text(sha256(body))}"
    assert await agent.get_evidence(place.namespace, branch.name, locator) == body
    path = f"branches/{branch.name}/evidence/{sha256(body).hex()}"
    assert (await place.raw(agent, "PUT", path, content=body)).status_code == 200
    assert (await place.raw(agent, "HEAD", path)).status_code == 200
    answer = await place.raw(agent, "GET", path)
    assert (answer.headers["content-type"], answer.headers["content-disposition"]) == ("text/html", "attachment")
    assert answer.headers["content-security-policy"] == "sandbox"
    again = await place.raw(agent, "GET", path, headers={"If-None-Match": answer.headers["etag"]})
    assert again.status_code == 304
    second = await place.branch(agent)
    with pytest.raises(NotFoundError):
        await agent.get_evidence(place.namespace, second.name, locator)


async def test_evidence_that_is_not_what_its_path_names_is_refused(place, agent, branch):
    path = f"branches/{branch.name}/evidence/{sha256(b'whole').hex()}"
    answer = await place.raw(agent, "PUT", path, content=b"torn")
    assert (answer.status_code, answer.json()["code"]) == (400, "DigestMismatch")
    assert (await place.raw(agent, "HEAD", path)).status_code == 404
    too_large = b"x" * ((4 << 20) + 1)
    with pytest.raises(TooLargeError) as caught:
        await agent.put_evidence(place.namespace, branch.name, too_large)
    assert caught.value.extra["limit"] == 4 << 20


async def test_the_same_batch_has_the_same_receipt_and_another_one_is_a_conflict_that_names_both(place, agent, branch):
    change = finding("once", 1)
    first = await place.submit(agent, branch, change)
    assert isinstance(first, Receipt)
    assert first.contiguous_through == 1
    with pytest.raises(ConflictError) as caught:
        await place.submit(agent, branch, finding("once", 2))
    assert caught.value.extra["received"] == first.content_hash
    assert caught.value.extra["submitted"] != first.content_hash
    publication = await place.publication(agent, branch)
    assert publication.receipt_id == first.receipt_id


async def test_a_submission_is_acknowledged_by_its_receipt_and_later_by_its_publication(place, agent, branch):
    key = f"found/{secrets.token_hex(4)}"
    evidence = await agent.put_evidence(place.namespace, branch.name, b"seen")
    batch = {
        "sequence": 1,
        "changes": [finding(key, {"n": 1.5})],
        "sources": [[evidence]],
        "base_revisions": ["0"],
    }
    first = await agent.submit_batch(place.namespace, branch.branch_id, **batch)
    publication = await place.publication(agent, branch)
    again = await agent.submit_batch(place.namespace, branch.branch_id, **batch)
    assert isinstance(again, Publication)
    assert (again, again.receipt_id) == (publication, first.receipt_id)
    record = await agent.record(place.namespace, BASELINE, key, ref=publication.generation)
    assert (record.revision, record.origin_runs) == (publication.revision, (branch.run_id,))
    (state,) = [found async for found in agent.batches(place.namespace, branch.name)]
    assert (state.sequence, state.changes, state.job_id) == (1, 1, publication.job_id)


async def test_a_batch_must_be_what_it_says_and_where_it_says(place, agent, branch):
    whole = {
        "branch_id": branch.branch_id,
        "sequence": 1,
        "changes": [{"key": "k", "content": 1, "visibility": "shareable"}],
        "source_locators": [[]],
        "base_revisions": ["0"],
    }
    whole["content_hash"] = batch_hash(whole)

    async def put(place_in_path, **members):
        return await place.raw(
            agent, "PUT", f"branches/{branch.name}/batches/{place_in_path}", json={**whole, **members}
        )

    for answer, status, named in (
        (await put(1, changes=[{"key": "k", "content": 2, "visibility": "shareable"}]), 400, "content_hash"),
        (await put(2), 422, "sequence"),
        (await put(1, colour="red"), 422, "colour"),
        (await put(1, sequence="1"), 422, "sequence"),
        (await put(1, base_revisions=[]), 422, "base_revisions"),
        (await put(0), 422, "sequence"),
    ):
        assert answer.status_code == status, answer.text
        assert named in answer.json()["detail"]
    other = await place.branch(agent)
    answer = await place.raw(agent, "PUT", f"branches/{other.name}/batches/1", json=whole)
    assert (answer.status_code, branch.branch_id in answer.json()["detail"]) == (422, True)
    assert (await put(1)).status_code == 200


async def test_a_batch_that_touches_a_scope_without_a_grant_is_refused_whole_and_by_name(place):
    narrow = await place.client("writes-shared", "anabranch-viewer", "create baselines/fork,branches")
    place.allow("writes-shared", "scopes", "write", "shared")
    place.account("writes-shared", "update branches/data")
    branch = await place.branch(narrow)
    with pytest.raises(ForbiddenError) as caught:
        await place.submit(narrow, branch, finding("ok", 1), finding("not ok", 1, scope="team/build"))
    assert caught.value.extra["missing"] == ["`write` on scope team/build"]
    assert [found async for found in narrow.batches(place.namespace, branch.name)] == []
    tombstone = finding("ok", None).model_copy(update={"op": "tombstone"})
    with pytest.raises(ForbiddenError, match="tombstone"):
        await place.submit(narrow, branch, tombstone)
    assert isinstance(await place.submit(narrow, branch, finding("ok", 1)), Receipt)


def batch_of(branch, sequence, **members) -> dict:
    whole = {
        "branch_id": branch.branch_id,
        "sequence": sequence,
        "changes": [],
        "source_locators": [],
        "base_revisions": [],
        **members,
    }
    return {**whole, "content_hash": batch_hash(whole)}


async def test_a_bulk_request_receives_or_refuses_each_batch_by_itself(place, agent, branch):
    torn = {**batch_of(branch, 3), "content_hash": content_hash("other")}
    body = {"batches": [batch_of(branch, 1), batch_of(branch, 2), torn, {"sequence": "x"}, batch_of(branch, 5000)]}
    answer = await place.raw(agent, "POST", f"branches/{branch.name}/batches", content=canonical_bytes(body))
    assert answer.status_code == 200, answer.text
    results = answer.json()["results"]
    assert [(result["sequence"], result["status"]) for result in results] == [
        (1, 200), (2, 200), (3, 400), (None, 422), (5000, 422)
    ]  # fmt: skip
    assert results[1]["answer"]["contiguous_through"] == 2
    assert results[4]["answer"]["limit"] == 1024
    for batches in ([], [batch_of(branch, 1)] * 101):
        answer = await place.raw(agent, "POST", f"branches/{branch.name}/batches", json={"batches": batches})
        assert answer.status_code == 422


async def test_a_run_is_completed_once_every_batch_is_in(place, agent, branch):
    completion = RunCompletion(
        run_id=branch.run_id,
        branch_id=branch.branch_id,
        agent_id=branch.agent_id,
        baseline_id=branch.parent_snapshot_id,
        last_submitted_sequence=2,
        delta_hash=content_hash([]),
    )
    await agent.submit(place.namespace, FindingBatch.model_validate(batch_of(branch, 2)))
    with pytest.raises(NotFoundError):
        await agent.completion(place.namespace, branch.name)
    early = await agent.complete(place.namespace, branch.name, completion)
    assert (early.closed_at, early.contiguous_through) == (None, 0)
    await agent.submit(place.namespace, FindingBatch.model_validate(batch_of(branch, 1)))
    closed = await agent.complete(place.namespace, branch.name, completion)
    assert (closed.closed_at is not None, closed.content_hash) == (True, early.content_hash)
    assert (await agent.branch(place.namespace, branch.name)).phase == "Completed"
    with pytest.raises(ConflictError):
        await agent.complete(place.namespace, branch.name, completion.model_copy(update={"last_submitted_sequence": 3}))
    with pytest.raises(ConflictError):
        await agent.submit(place.namespace, FindingBatch.model_validate(batch_of(branch, 3)))
    with pytest.raises(ConflictError):
        await agent.put_private(place.namespace, branch.name, "late", 1)


async def test_a_branch_whose_resource_is_deleted_is_absent(place, agent, branch):
    place.kubectl("delete", "branch", branch.name)
    for ref in (branch.name, branch.branch_id):

        async def gone(ref=ref):
            return (await place.raw(agent, "GET", f"branches/{ref}")).status_code == 404

        assert await eventually(gone)
