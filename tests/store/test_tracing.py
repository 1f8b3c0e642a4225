"""Traces, as the API answers them: where a record comes from, where it went, and only what the caller may see."""

from __future__ import annotations

import pytest
from tests.store import retaining
from tests.store.test_retractions import poisoned
from tests.store.world import TEAM

from anabranch.cli.lineage import told, tree
from anabranch.client.worker import Evidence, Finding
from anabranch.consolidation import deriving
from anabranch.identity import grants
from anabranch.memory import outbox
from anabranch.model.errors import ForbiddenError, NotFoundError
from anabranch.store import derivations

PROOF = Evidence(b"a log", "text/plain")


@pytest.fixture
async def told_of(place):
    """The API, and the poisoned line behind it."""
    facts = await poisoned(place.served.world.db, name="poisoned")
    return place.served, facts, await place.served.client("ada")


async def test_a_trace_tells_of_sources_candidates_reviews_and_all_that_was_derived(told_of):
    served, facts, client = told_of
    await deriving.turn(served.world.db)
    found = await client.trace(TEAM, "poisoned", "poison")
    assert (found.revision, found.complete) == (str(facts.poison), True)
    assert [(one.key, one.steps, one.cites, one.current, one.state) for one in found.items] == [
        ("one", 1, (f"record:poison@{facts.poison}",), True, "reviewed"),
        ("two", 2, (f"record:one@{facts.one}",), True, "reviewed"),
    ]
    (version,) = found.versions
    assert [(source.locator[:9], source.status) for source in version.sources] == [("evidence:", "verified")]
    assert version.made_by["kind"] == "publication"
    (candidate,) = found.candidates
    assert (candidate.state, candidate.author) == ("published", "system:serviceaccount:agents:run-poisoned")
    assert [(one.key, one.state) for one in found.citing] == [("one", "published")]

    done = await facts.retract()
    found = await client.trace(TEAM, "poisoned", "poison")
    assert [one.state for one in found.retractions] == ["published"]
    tombstone = found.candidates[0]
    assert [(entry.reviewer, entry.action) for entry in tombstone.reviews] == [("ada", "accept")]
    assert tombstone.job_id == done.job_id
    assert {(one.key, one.state) for one in found.items if one.current} == {
        ("one", "sourceRetracted"),
        ("two", "sourceRetracted"),
    }
    lines = "\n".join(tree(found.model_dump(mode="json")))
    assert "withdrawn in generation" in lines
    assert "   one  revision" in lines.replace("│", " ").replace("├─", "  ").replace("└─", "  ")


async def test_what_is_not_in_the_index_yet_is_found_all_the_same(told_of):
    served, facts, client = told_of
    async with served.world.db.connection() as conn:
        known = await derivations.known(conn, line=facts.line)
    assert known.through < known.head_generation
    assert {one.key for one in (await client.trace(TEAM, "poisoned", "poison")).items} == {"one", "two"}


async def test_a_page_goes_on_where_the_one_before_ended(told_of):
    _, facts, client = told_of
    for number in range(5):
        await facts.publish(f"more-{number}", number, f"record:one@{facts.one}")
    seen, cursor = [], None
    while True:
        page = await client.trace(TEAM, "poisoned", "poison", limit=2, cursor=cursor)
        seen += [one.key for one in page.items]
        if (cursor := page.next_cursor) is None:
            break
    assert seen == ["one", *(f"more-{number}" for number in range(5)), "two"]


async def test_nothing_is_traced_through_a_scope_that_the_caller_may_not_read(told_of):
    served, facts, client = told_of
    hidden = await facts.publish("hidden", "secret", f"record:poison@{facts.poison}", scope="team/secret")
    await facts.publish("behind", "open", f"record:hidden@{hidden}")
    assert {one.key for one in (await client.trace(TEAM, "poisoned", "poison")).items} >= {"hidden", "behind"}
    served.world.permissions.deny(grants.SCOPE_READ, name="team/secret")
    assert {one.key for one in (await client.trace(TEAM, "poisoned", "poison")).items} == {"one", "two"}
    with pytest.raises(NotFoundError):
        await client.trace(TEAM, "poisoned", "hidden")


async def test_candidates_and_branches_are_told_to_those_alone_who_may_see_them(told_of):
    served, _, client = told_of
    served.world.permissions.deny(grants.SEE_CANDIDATES)
    served.world.permissions.deny(grants.FOLLOW_EVENTS)
    found = await client.trace(TEAM, "poisoned", "poison")
    assert (found.candidates, found.citing, found.branches) == (None, None, None)


async def test_a_retraction_is_asked_for_and_followed_by_http(told_of):
    served, facts, client = told_of
    asked = await client.retract(TEAM, "poisoned", "poison", reason="it was poisoned")
    assert asked.state == "requested"
    assert (await client.retract(TEAM, "poisoned", "poison", reason="again")).retraction_id == asked.retraction_id
    await served.world.work()
    proposed = await client.retraction(TEAM, "poisoned", asked.retraction_id)
    assert told(proposed.model_dump(mode="json")) == f"waits for reviewers in {proposed.job_id}"
    await served.world.decide(proposed.job_id)
    await served.world.work()
    assert [one.state async for one in client.retractions(TEAM, "poisoned")] == ["published"]
    record = await client.record(TEAM, "poisoned", "one")
    assert (record.state, record.retracted_sources) == ("sourceRetracted", (f"record:poison@{facts.poison}",))
    proven = await client.record(TEAM, "poisoned", "one", proof=True)
    proven.check(proven.manifest.manifest_hash)
    hit = (await client.search(TEAM, "poisoned", "safe")).items[0]
    assert (hit.state, hit.retracted_sources) == (record.state, record.retracted_sources)


async def test_who_lacks_the_grant_asks_for_nothing(told_of):
    served, _, client = told_of
    served.world.permissions.deny(grants.PROPOSE_RETRACTION)
    with pytest.raises(ForbiddenError):
        await client.retract(TEAM, "poisoned", "poison", reason="it was poisoned")


async def test_a_chain_holds_though_a_piece_in_its_middle_was_pruned_and_goes_once_nothing_cites_it(told_of):
    served, facts, client = told_of
    db = served.world.db

    async def prune(key, **options):
        await facts.publish(key, "another matter", **options)
        await facts.publish(f"beside-{key}", "so that no kept generation shows what was before")
        await deriving.catch_up(db, facts.line)
        await retaining.retain(db, facts.line)

    async def chain():
        async with db.connection() as conn:
            rows = await conn.fetch(
                "SELECT source_key, key FROM derivations WHERE line = $1 AND source_key <> 'a'", facts.line
            )
        return {(row["source_key"], row["key"]) for row in rows}

    await prune("one", base=facts.one)
    found = {(one.key, one.state) for one in (await client.trace(TEAM, "poisoned", "poison")).items}
    assert found == {("one", None), ("two", "reviewed")}
    await prune("two", base=facts.two)
    assert await chain() == {("poison", "one")}, "a candidate cites it, which may be published yet"
    async with db.connection() as conn:
        await conn.execute("DELETE FROM candidates WHERE line = $1", facts.line)
    await prune("three")
    assert await chain() == set()


async def test_a_poisoned_finding_that_ten_runs_have_is_withdrawn_from_each_of_them(place):
    """The issue's: published, derived from twice, followed by ten branches offline and online, then retracted."""
    world = place.served.world
    finder = await place.open("finder.db", name="finder", account="finder")
    runs = [await place.open(f"run-{number}.db", name=f"run-{number}", account="ada") for number in range(8)]
    for run in (finder, *runs):
        await run.sync()

    async def find(key, content, *sources):
        await finder.submit(Finding(key, content, sources=[*sources] or [PROOF]))
        await finder.sync()
        await world.work()
        await finder.sync()
        return (await finder.read(key)).revision

    poison = await find("poison", "drink it")
    one = await find("one", "it is safe", f"record:poison@{poison}")
    late = [await place.open(f"late-{number}.db", name=f"late-{number}", account="ada") for number in range(2)]
    await find("two", "serve it", f"record:one@{one}")
    offline, online = runs[:4], [*runs[4:], *late]
    for run in (*runs, *late):  # all of them have it; two forked with it
        await run.sync()
        await run.write("note", "I have seen it")
    client = await place.served.client("ada")
    seen = await client.trace(TEAM, "facts", "poison")
    assert len(seen.branches) == 11
    assert sum(one.forked for one in seen.branches) == 2

    asked = await client.retract(TEAM, "facts", "poison", reason="it was poisoned")
    await world.work()
    proposed = await client.retraction(TEAM, "facts", asked.retraction_id)
    await world.decide(proposed.job_id)
    await world.work()
    newcomer = await place.open("newcomer.db", name="newcomer", account="newcomer")
    await newcomer.sync()
    while await outbox.drain(world.db):
        pass
    assert await told_of_a_withdrawal(world.db) == {"ada": asked.retraction_id, "finder": asked.retraction_id}

    for run in online:
        await run.sync()
    # One that is away goes on from what it knows, and comes back.
    await offline[0].submit(Finding("three", "served cold", sources=[f"record:one@{one}"]))
    for run in offline:
        assert (await run.read("one")).state == "reviewed"
        await run.sync()
    await world.work()
    for run in (*offline, *online, finder):
        await run.sync()
        with pytest.raises(NotFoundError):
            await run.read("poison")
        assert [(await run.read(key)).state for key in ("one", "two", "three")] == ["sourceRetracted"] * 3
        if run is not finder:
            assert (await run.read("note")).state == "claim"
    head = (await world.state(place.line)).head.head_generation
    assert await world.check_roots(place.line) == head


async def told_of_a_withdrawal(db):
    """Which retraction each agent was told of."""
    async with db.connection() as conn:
        rows = await conn.fetch("SELECT agent_id, data FROM agent_events WHERE kind = 'record.retracted'")
    assert len(rows) == len({row["agent_id"] for row in rows}), "once each, however many runs it has"
    return {row["agent_id"]: row["data"]["retractionId"] for row in rows}
