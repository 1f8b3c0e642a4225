"""Every query of the store, held to the store's rules."""

from __future__ import annotations

import re

import asyncpg
import pytest

from anabranch.store import queries

pytestmark = pytest.mark.long

CATALOGUE = queries.catalogue()

WITHOUT_LINE = {
    name: reason
    for reason, names in {
        "about the server, whatever its lines": (
            "durability.settle",
            "durability.waiting",
            "durability.waits",
            "durability.let_go",
            "durability.promises",
        ),
        "the directory: by namespace, before the line is known": (
            "lines.find",
            "lines.list_by_namespace",
            "lines.directory",
            "lines.adopted",
            "lines.retire_namesakes",
            "adoption.kept",
            "purging.line_of",
            "branches.by_name",
            "branches.list_by_namespace",
            "branches.namespaces",
            "jobs.by_name",
        ),
        "a queue: what is due in any line, by an index of its own": (
            "lines.claim_due",
            "retention.claim",
            "leases.claim",
            "purging.claim",
            "batches.unassigned",
            "batches.untold",
            "completions.ready",
            "presence.due",
            "followers.due",
            "outbox.claim",
            "agent_expiry.drop_events",
            "agent_expiry.drop_receipts",
            "jobs.unborn",
            "projection.dirty",
            "backlog.look",
            "backlog.baselines",
            "indexing.next",
            "indexing.uncounted",
            "vectors.claim",
            "quality.next",
            "recall.next",
            "expiry.due",
            "derivations.next",
            "backups.claim",
            "retractions.requested",
            "proposals.lines",
        ),
        "resources that have no line yet": (
            "waiting.upsert",
            "waiting.delete",
            "waiting.settle",
            "waiting.get",
            "waiting.due",
            "waiting.wake",
            "projection.mark_waiting",
        ),
        "the database as a whole was set back: each line is gone to by itself": ("reviving.all_lines",),
        "agents: by namespace, whichever lines they work on": (
            "agents.claim",
            "agents.owner",
        ),
        "an agent as a whole: how many instances it has": (
            "envelopes.instances",
            "envelopes.one_at_a_time",
        ),
        "what the cluster lacks, of any line: a sweep compares all there is": (
            "drift.absent_baselines",
            "drift.absent_branches",
            "drift.absent_jobs",
        ),
        "what the cluster shows of a resource, whose line it does not tell": (
            "drift.take_back_branch",
            "drift.rewind_baseline",
            "drift.rewind_branch",
            "drift.rewind_job",
            "drift.held_branches",
            "drift.held_jobs",
            "drift.held_waits",
        ),
        "words of a text: no table is read": ("kv_memories.terms",),
        "settings of one transaction, or temporary tables of its own": (
            "importing.be_patient",
            "trie.relax",
            "retention.be_patient",
            "restoring.be_patient",
            "restoring.make_stage",
            "restoring.staged",
            "restoring.more_live",
            "indexing.be_patient",
            "quality.be_patient",
            "derivations.be_patient",
            "searching.be_brief",
            "searching.hash_joins",
        ),
    }.items()
    for name in names
}
"""Queries that take no line, each with the reason."""


OF_AGENTS = ("envelopes", "sections", "exchanges", "agent_events", "agent_queue")
"""Modules whose tables belong to agents: their keys begin with namespace, agent and instance instead of the line."""


def takes(query, *names) -> bool:
    return all(not {name, f"{name}s"}.isdisjoint(query.signature.parameters) for name in names)


@pytest.mark.parametrize("name", CATALOGUE)
def test_a_query_takes_the_line_or_the_agent_or_has_a_reason_not_to(name):
    leads = ("namespace", "agent_id", "instance") if name.partition(".")[0] in OF_AGENTS else ("line",)
    assert takes(CATALOGUE[name], *leads) != (name in WITHOUT_LINE)


@pytest.mark.parametrize("name", CATALOGUE)
def test_a_query_is_described_in_words(name):
    description = CATALOGUE[name].doc_comments
    assert description.endswith("."), name
    assert description[0].isupper()


@pytest.mark.parametrize("name", CATALOGUE)
def test_rows_that_are_named_by_their_places_are_found_by_nothing_else(name):
    """A connection plans a statement once for good: while a table is small, by its line seems the better way."""
    assert not re.search(r"\bline = \$\d AND [^()]*\bctid = ANY", CATALOGUE[name].sql)


async def test_postgres_accepts_every_query(database):
    conn = await asyncpg.connect(database.operator)
    async with conn.transaction():
        await conn.execute(CATALOGUE["restoring.make_stage"].sql)
        for name, query in CATALOGUE.items():
            if not name.startswith("restoring.make"):
                await conn.prepare(query.sql)
    await conn.close()


async def test_a_wrong_parameter_is_refused(database):
    conn = await asyncpg.connect(database.operator)
    with pytest.raises(TypeError, match="takes"):
        await queries.load("lines").get(conn, line="x", other="y")
    await conn.close()
