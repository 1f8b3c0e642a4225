"""Baselines, manifests and records over HTTP: what is read, by whom, and what may be kept of it."""

from __future__ import annotations

import pytest
from tests.cluster.places import BASELINE, RECORDS, told

from anabranch.domain.trie import InvalidProofError
from anabranch.model.canonical import content_hash
from anabranch.model.errors import DigestMismatchError, ForbiddenError, NotFoundError

SHARED = [key for key, (scope, _) in RECORDS.items() if scope == "shared"]


@pytest.fixture(scope="module")
async def viewer(place):
    return await place.client("viewer", "anabranch-viewer")


@pytest.fixture(scope="module")
async def narrow(place):
    """Somebody who may read the baseline, but only in the scope `shared`."""
    client = await place.client("narrow", "get baselines,baselines/records", "watch baselines/events")
    place.allow("narrow", "scopes", "read", "shared")
    return client


@pytest.fixture(scope="module")
async def stranger(place):
    return await place.client("stranger")


async def keys(client, place, **options):
    return [record.key async for record in client.records(place.namespace, BASELINE, **options)]


async def test_a_baseline_tells_where_its_line_is(place, viewer):
    state = await viewer.baseline(place.namespace, BASELINE)
    manifest = await viewer.manifest(place.namespace, BASELINE)
    assert (state.current.generation, state.current.manifest_hash) == (1, manifest.manifest_hash)
    assert state.head == state.current
    assert BASELINE in [found.name async for found in viewer.baselines(place.namespace)]
    assert (manifest.records, manifest.origin["kind"]) == (3, "import")


async def test_a_manifest_is_named_by_generation_id_current_and_head_alike(place, viewer):
    one = await viewer.manifest(place.namespace, BASELINE, 1)
    for ref in (one.baseline_id, "current", "head"):
        assert await viewer.manifest(place.namespace, BASELINE, ref) == one
    assert [found async for found in viewer.manifests(place.namespace, BASELINE)] == [one]
    for ref in (2, "never", "bl_x", "0", "-1", "9" * 30):
        with pytest.raises(NotFoundError):
            await viewer.manifest(place.namespace, BASELINE, ref)


async def test_records_come_by_key_in_pages_and_by_prefix(place, viewer):
    assert await keys(viewer, place) == sorted(RECORDS)
    assert await keys(viewer, place, prefix="build/") == ["build/cache", "build/exit-137"]
    first = (await place.raw(viewer, "GET", f"baselines/{BASELINE}/manifests/current/records?limit=2")).json()
    assert [item["key"] for item in first["items"]] == ["build/cache", "build/exit-137"]
    path = f"baselines/{BASELINE}/manifests/current/records?limit=2&cursor={first['next_cursor']}"
    rest = (await place.raw(viewer, "GET", path)).json()
    assert ([item["key"] for item in rest["items"]], rest["next_cursor"]) == (["setup/python"], None)
    assert first["manifest"] == rest["manifest"]


async def test_a_cursor_is_refused_by_another_list(place, viewer):
    path = f"baselines/{BASELINE}/manifests/current/records?limit=1"
    cursor = (await place.raw(viewer, "GET", path)).json()["next_cursor"]
    for other in (f"{path}&prefix=b", f"baselines/{BASELINE}/manifests/1/records?limit=1", "baselines?limit=1"):
        answer = await place.raw(viewer, "GET", f"{other}&cursor={cursor}")
        assert (answer.status_code, answer.json()["code"]) == (422, "InvalidCursor")


async def test_a_reader_sees_the_records_of_the_scopes_that_are_theirs(place, narrow):
    assert await keys(narrow, place) == sorted(SHARED)
    assert (await narrow.record(place.namespace, BASELINE, "build/cache")).scope == "shared"


async def test_a_record_in_a_hidden_scope_looks_like_an_absent_one(place, narrow):
    refusals = []
    for key in ("build/exit-137", "build/exit-999"):
        for proof in (False, True):
            with pytest.raises(NotFoundError) as caught:
                await narrow.record(place.namespace, BASELINE, key, proof=proof)
            refusals.append(str(caught.value).replace(key, "KEY"))
    assert len(set(refusals)) == 1


async def test_a_baseline_that_one_may_not_see_looks_like_an_absent_one(place, stranger, viewer):
    said = set()
    for name, client in ((BASELINE, stranger), ("absent", stranger), ("absent", viewer)):
        for path in ("", "/manifests", "/manifests/1", "/manifests/1/records", "/manifests/1/records/k", "/events"):
            answer = await place.raw(client, "GET", f"baselines/{name}{path}")
            assert answer.status_code == 404
            said.add(told(answer, name))
    assert len(said) == 1
    assert [found async for found in stranger.baselines(place.namespace)] == []


async def test_who_sees_a_baseline_learns_which_grant_is_missing(place):
    client = await place.client("sees-only", "get baselines")
    with pytest.raises(ForbiddenError) as caught:
        await client.record(place.namespace, BASELINE, "build/cache")
    assert caught.value.extra["grant"] == "baselines/records:get"


async def test_a_proof_leads_from_the_root_to_the_record_and_to_no_other(place, viewer):
    manifest = await viewer.manifest(place.namespace, BASELINE, 1)
    proven = await viewer.record(place.namespace, BASELINE, "build/exit-137", ref=1, proof=True)
    proven.check(manifest.manifest_hash)
    forged = proven.record.model_copy(update={"content": "all is well", "content_hash": content_hash("all is well")})
    with pytest.raises(InvalidProofError):
        proven.model_copy(update={"record": forged}).check(manifest.manifest_hash)
    with pytest.raises(DigestMismatchError):
        proven.model_copy(update={"record": proven.record.model_copy(update={"content": "x"})}).check(
            manifest.manifest_hash
        )
    other = await viewer.record(place.namespace, BASELINE, "setup/python", ref=1, proof=True)
    with pytest.raises(InvalidProofError):
        proven.model_copy(update={"proof": other.proof}).check(content_hash("another root"))


async def test_what_cannot_change_may_be_kept_for_ever_and_what_moves_must_be_asked_about(place, viewer):
    base = f"baselines/{BASELINE}/manifests"
    for path in ("1", "1/records/build/cache", "1/records/build/cache?proof=true"):
        answer = await place.raw(viewer, "GET", f"{base}/{path}")
        assert answer.headers["cache-control"] == "private, max-age=31536000, immutable"
    for path in ("current", "head", "current/records/build/cache", "1/records"):
        answer = await place.raw(viewer, "GET", f"{base}/{path}")
        assert answer.headers["cache-control"] == "private, no-cache"
        again = await place.raw(viewer, "GET", f"{base}/{path}", headers={"If-None-Match": answer.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")
        other = await place.raw(viewer, "GET", f"{base}/{path}", headers={"If-None-Match": '"other"'})
        assert other.content == answer.content


async def test_pages_of_two_readers_have_different_tags(place, viewer, narrow):
    path = f"baselines/{BASELINE}/manifests/1/records"
    tags = [(await place.raw(client, "GET", path)).headers["etag"] for client in (viewer, narrow)]
    assert tags[0] != tags[1]
    assert (await place.raw(narrow, "GET", path, headers={"If-None-Match": tags[0]})).status_code == 200


async def test_two_manifests_are_compared_within_the_scopes_of_the_reader(place, viewer, narrow):
    agent = await place.client("compares", "anabranch-agent")
    place.baseline("compared", review={"mode": "Automatic"})
    from tests.cluster.places import finding

    branch = await place.branch(agent, baseline="compared")
    await place.submit(agent, branch, finding("new/a", 1), finding("new/b", 2, scope="team/build"))
    publication = await place.publication(agent, branch)
    assert publication.generation == 2

    async def changed(client, **generations):
        found = [entry async for entry in client.diff(place.namespace, "compared", **generations)]
        return {entry.key: (entry.before is not None, entry.after is not None) for entry in found}

    assert await changed(viewer, from_generation=1) == {"new/a": (False, True), "new/b": (False, True)}
    assert await changed(viewer, from_generation=2, to_generation=1) == {"new/a": (True, False), "new/b": (True, False)}
    assert await changed(narrow, from_generation=1) == {"new/a": (False, True)}
    assert await changed(viewer, from_generation=2) == {}
    first = (await place.raw(viewer, "GET", "baselines/compared/diff?from=1&limit=1")).json()
    path = f"baselines/compared/diff?from=1&limit=1&cursor={first['next_cursor']}"
    assert (await place.raw(viewer, "GET", path)).json()["items"][0]["key"] == "new/b"
