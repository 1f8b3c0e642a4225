"""The proposal's story, over a real Postgres: two runs, a finding on its way, a conflict, a rollback, a restore."""

from __future__ import annotations

from tests.store.world import AUTOMATIC, World, decisions


async def test_the_proposals_story(db):
    world = World(db)
    known = {f"runbook/{n:02}": f"what is known of {n}" for n in range(60)}
    line = (await world.import_documents(known, **AUTOMATIC)).line.line
    first = await world.contents(line, 1)
    assert len(first) == 60

    # Two agents fork generation 1.
    build, docs = await world.apply_branch("build"), await world.apply_branch("docs")
    assert (build.parent_generation, docs.parent_generation) == (1, 1)

    # The first submits a finding during its run; the second sees it before that run ends.
    receipt = await world.submit(build, 1, {"key": "runbook/07", "content": "use 8 GiB", "base": 1})
    assert (receipt.ack, receipt.contiguous_through) == ("receipt", 1)
    await world.work()
    assert await world.events(line) == [("published", "runbook/07", 2)]
    again = await world.submit(build, 1, {"key": "runbook/07", "content": "use 8 GiB", "base": 1})
    assert (again.ack, again.generation, again.revision) == ("publication", 2, "2")
    assert build.phase == "Active"

    # A private note is refused by name, and stays unseen.
    await world.submit(build, 2, {"key": "note", "content": "a secret", "visibility": "private"})
    await world.work()
    assert (await world.outcomes())["note"] == [("rejected", "ExportNotPermitted")]

    # The second one worked from generation 1: its finding conflicts, waits, and holds nothing else up.
    await world.submit(
        docs,
        1,
        {"key": "runbook/07", "content": "use 4 GiB", "base": 1},
        {"key": "setup", "content": "run make demo"},
    )
    await world.work()
    assert (await world.contents(line))["setup"] == '"run make demo"'
    assert (await world.contents(line))["runbook/07"] == '"use 8 GiB"'
    origin = next(job for job in await world.jobs() if job.branch_id == docs.branch_id and job.origin == "Branch")
    assert (origin.state, origin.counts["held"], origin.counts["conflicting"]) == ("published", 1, 1)
    held = await world.job(origin.held_job)
    assert (held.origin, held.state) == ("Held", "awaiting_review")
    (conflict,) = await world.candidates(held)
    assert (conflict.conflicting, conflict.canonical_revision) == (True, 2)

    # A reviewer accepts: the canonical record is superseded.
    await world.apply_job(
        held.name,
        origin="Held",
        branchRef={"namespace": "agents", "name": "docs"},
        reviews=[{"reviewer": "ada", "decisions": decisions([conflict])}],
    )
    await world.work()
    assert (await world.job(held.name)).state == "published"
    assert (await world.contents(line))["runbook/07"] == '"use 4 GiB"'
    assert (await world.events(line))[-2:] == [("superseded", "runbook/07", 2), ("published", "runbook/07", 4)]

    # A pin rolls back and pauses; its removal returns to the head.
    spec = {"import": {"configMap": {"name": "facts"}}, **AUTOMATIC}
    state = await world.apply_baseline(generation=2, pin={"generation": 2}, **spec)
    assert (state.head.current_generation, state.head.head_generation) == (2, 4)
    assert (await world.contents(line))["runbook/07"] == '"use 8 GiB"'
    assert await world.conditions(line) == {"ConsolidationPaused": "Pinned"}
    await world.submit(docs, 2, {"key": "later", "content": "held while pinned"})
    await world.work()
    assert (await world.state(line)).head.head_generation == 4
    state = await world.apply_baseline(generation=3, **spec)
    assert (state.head.current_generation, state.head.previous_generation) == (4, 2)
    await world.work()
    assert (await world.contents(line))["later"] == '"held while pinned"'

    # A restore publishes generation 2 anew, once.
    state = await world.apply_baseline(generation=4, restore={"generation": 2, "id": "back"}, **spec)
    state = await world.apply_baseline(generation=4, restore={"generation": 2, "id": "back"}, **spec)
    assert state.head.head_generation == 6
    assert await world.contents(line) == await world.contents(line, 2)
    kinds = [kind for kind, _, _ in await world.events(line)]
    assert kinds[-4:] == ["rollback", "resumed", "published", "restored"]

    # Every root is what its records say, and generation 1 is what it was, bit for bit.
    assert await world.check_roots(line) == 6
    assert await world.contents(line, 1) == first
