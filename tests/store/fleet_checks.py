"""What must hold of consolidation after anything that happened, read from the rows alone."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from tests.store.building import digest
from tests.store.fleet_agents import IMPORTED

from anabranch.consolidation import receipt
from anabranch.model.canonical import parse_json
from anabranch.store import branches

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from tests.store.fleet import Fleet
    from tests.store.fleet_agents import Agent

    from anabranch.store.database import Database

PATH: Final = {
    (None, "received"),
    (None, "awaiting_review"),  # split off from another job
    ("received", "importing"),
    ("importing", "validating"),
    ("validating", "awaiting_review"),
    ("validating", "publishing"),
    ("validating", "published"),
    ("awaiting_review", "publishing"),
    ("awaiting_review", "published"),
    ("publishing", "awaiting_review"),  # what was accepted has moved
    ("publishing", "published"),
}
"""Where a job may go. It may also note something where it stands."""

_UNDECIDED: Final = {"pending", "waiting", "accepted"}
_TABLES: Final = ("batches", "jobs", "candidates", "transitions", "publications", "events", "reviews", "contents")


@dataclass(frozen=True)
class Ledger:
    """All rows of a line, as of one moment."""

    rows: Mapping[str, Sequence[Any]]

    @classmethod
    async def read(cls, db: Database, line: str) -> Ledger:
        async with db.transaction(readonly=True, isolation="repeatable_read") as conn:
            return cls({
                table: await conn.fetch(f"SELECT * FROM {table} WHERE line = $1", line) for table in _TABLES
            })  # fmt: skip

    @property
    def generation_of(self) -> dict[str, int]:
        """What each job has published."""
        return {row["job_id"]: row["generation"] for row in self.rows["publications"]}

    def published(self) -> list[Any]:
        return [row for row in self.rows["candidates"] if row["state"] == "published"]


async def check(fleet: Fleet, *, policy: Mapping[str, Any]) -> Ledger:
    """Everything that holds at any time."""
    ledger = await Ledger.read(fleet.db, fleet.line)
    _check_batches(ledger, fleet.agents)
    _check_jobs(ledger)
    _check_transitions(ledger)
    _check_feed(ledger)
    _check_reviews(ledger, policy, overwriting=_overwriting(ledger, IMPORTED))
    for agent in fleet.agents:
        if not agent.exports:
            assert not any(agent.secret.encode() in row["body"] for row in ledger.rows["contents"])
        await _check_run(fleet, agent, ledger)
    await _check_records(fleet, ledger)
    return ledger


def check_settled(ledger: Ledger, agents: Sequence[Agent]) -> None:
    """What holds once nothing is due and nothing waits: whatever could be decided is."""
    assert all(row["state"] == "published" for row in ledger.rows["jobs"])
    assert not any(row["state"] in _UNDECIDED for row in ledger.rows["candidates"])
    through = {agent.branch.branch_id: agent.complete_through() for agent in agents}
    for batch in ledger.rows["batches"]:
        assert (batch["job_id"] is not None) == (batch["sequence"] <= through[batch["branch_id"]])


def _check_batches(ledger: Ledger, agents: Sequence[Agent]) -> None:
    """What was acknowledged is there, and nothing else; each of its changes has one fate, in one job."""
    rows = {(row["branch_id"], row["sequence"]): row for row in ledger.rows["batches"]}
    assert {place: row["receipt_id"] for place, row in rows.items()} == {
        (agent.branch.branch_id, sequence): receipt_id
        for agent in agents
        for sequence, receipt_id in agent.receipts.items()
    }
    outboxes = {agent.branch.branch_id: agent.outbox for agent in agents}
    imported = defaultdict(list)
    for row in sorted(ledger.rows["candidates"], key=lambda row: row["ordinal"]):
        imported[row["origin_job"]].append(row)
    taken = Counter(row["job_id"] for row in rows.values() if row["job_id"])
    for job in ledger.rows["jobs"]:
        if job["origin"] != "Branch":
            continue
        sequences = range(job["from_sequence"], job["through_sequence"] + 1)
        assert taken[job["job_id"]] == len(sequences)
        assert all(rows[job["branch_id"], sequence]["job_id"] == job["job_id"] for sequence in sequences)
        found = imported.pop(job["job_id"], [])
        changes = [change["key"] for sequence in sequences for change in outboxes[job["branch_id"]][sequence - 1][0]]
        whole = job["state"] not in ("received", "importing")
        assert [row["key"] for row in found] == (changes if whole else changes[: len(found)])
        assert [row["ordinal"] for row in found] == list(range(len(found)))
    assert not imported


def _check_jobs(ledger: Ledger) -> None:
    """A job that is done has nothing undecided; what waits has a job that waits."""
    jobs = {row["job_id"]: row for row in ledger.rows["jobs"]}
    for job in jobs.values():
        done = job["state"] == "published"
        assert not job["failed"]
        assert (job["finished_at"] is not None) == done
        assert not (done and job["holder"])
        assert (job["published_generation"] or None) == ledger.generation_of.get(job["job_id"])
    for row in ledger.rows["candidates"]:
        state = jobs[row["job_id"]]["state"]
        assert row["state"] not in _UNDECIDED or state != "published"
        assert row["state"] != "waiting" or state == "awaiting_review"
        assert row["state"] != "accepted" or state == "publishing"
        assert row["state"] != "published" or row["job_id"] in ledger.generation_of


def _check_transitions(ledger: Ledger) -> None:
    """Each job has gone a legal path, under fences that only rise, each of which one worker had."""
    log = defaultdict(list)
    for row in sorted(ledger.rows["transitions"], key=lambda row: row["ordinal"]):
        log[row["job_id"]].append(row)
    for job in ledger.rows["jobs"]:
        steps = log.pop(job["job_id"])
        assert steps[-1]["to_state"] == job["state"]
        assert all(before["to_state"] == after["from_state"] for before, after in pairwise(steps))
        assert all(before["fence"] <= after["fence"] for before, after in pairwise(steps))
        assert {(s["from_state"], s["to_state"]) for s in steps if s["from_state"] != s["to_state"]} <= PATH
        assert sum(step["to_state"] == "published" for step in steps) == (job["state"] == "published")
        for fence in {step["fence"] for step in steps}:
            moved = {s["holder"] for s in steps if s["fence"] == fence and s["from_state"] != s["to_state"]}
            assert len(moved - {None}) <= 1
    assert not log


def _check_feed(ledger: Ledger) -> None:
    """Every published change was told once, in its generation, and nothing else was."""
    events = sorted(ledger.rows["events"], key=lambda row: row["sequence"])
    assert [row["sequence"] for row in events] == list(range(1, len(events) + 1))
    told = Counter((r["kind"], r["key"], r["generation"]) for r in events if r["kind"] in ("published", "tombstone"))
    assert told == Counter(
        ("published" if row["op"] == "put" else "tombstone", row["key"], ledger.generation_of[row["job_id"]])
        for row in ledger.published()
    )
    assert set(told.values()) <= {1}


def _overwriting(ledger: Ledger, imported: Mapping[str, str]) -> set[str]:
    """The published candidates whose author did not know the record that they have replaced by something else."""
    newest: dict[str, tuple[int, bytes | None]] = {key: (1, digest(content)) for key, content in imported.items()}
    found = set()
    for row in sorted(ledger.published(), key=lambda row: ledger.generation_of[row["job_id"]]):
        revision, content = newest.get(row["key"], (0, None))
        says = row["content_hash"] if row["op"] == "put" else None
        if row["base_revision"] != revision and (revision == 0 or says != content):
            found.add(row["candidate_id"])
        newest[row["key"]] = (ledger.generation_of[row["job_id"]], says)
    return found


def _check_reviews(ledger: Ledger, policy: Mapping[str, Any], *, overwriting: Collection[str]) -> None:
    """What needed a review was accepted, for what it is and against the record that it replaced."""
    accepts = {
        (row["candidate_id"], row["content_hash"], row["base_revision"])
        for row in ledger.rows["reviews"]
        if row["action"] == "accept"
    }
    for row in ledger.published():
        if policy["mode"] == "Manual" or row["candidate_id"] in overwriting or row["op"] == "tombstone":
            assert (row["candidate_id"], row["content_hash"], row["canonical_revision"] or 0) in accepts
        assert row["conflicting"] == (row["candidate_id"] in overwriting)
        if policy.get("requireSources", True) and row["op"] == "put":
            assert any(source["status"] == "verified" for source in row["sources"])


async def _check_run(fleet: Fleet, agent: Agent, ledger: Ledger) -> None:
    """A run is over when all that it spoke of is in; and the service says of each batch what became of it."""
    async with fleet.db.connection() as conn:
        branch = await branches.get(conn, agent.branch.branch_id)
    assert branch is not None
    if agent.completion is None:
        assert branch.phase == "Active"
    elif branch.phase == "Completed":
        assert agent.complete_through() == agent.completion["last_submitted_sequence"]
    states = {row["job_id"]: row["state"] for row in ledger.rows["jobs"]}
    jobs = {row["sequence"]: row["job_id"] for row in ledger.rows["batches"] if row["branch_id"] == branch.branch_id}
    for sequence in agent.receipts:
        ack = await receipt.acknowledgement(fleet.db, branch=agent.branch, sequence=sequence)
        assert ack.ack == ("publication" if states.get(jobs[sequence]) == "published" else "receipt")


async def _check_records(fleet: Fleet, ledger: Ledger) -> None:
    """The head is what was imported, and then every publication in the order of its generation."""
    bodies = {row["content_hash"]: parse_json(row["body"]) for row in ledger.rows["contents"]}
    expected: dict[str, Any] = dict(IMPORTED)
    for row in sorted(ledger.published(), key=lambda row: ledger.generation_of[row["job_id"]]):
        expected.pop(row["key"], None)
        if row["op"] == "put":
            expected[row["key"]] = bodies[row["content_hash"]]
    head = (await fleet.world.state(fleet.line)).head
    found = await fleet.world.contents(fleet.line, head.head_generation)
    assert {key: parse_json(body.encode()) for key, body in found.items()} == expected
    assert head.head_generation == max([1, *ledger.generation_of.values()])
    assert set(range(2, head.head_generation + 1)) == set(ledger.generation_of.values())
