"""kill -9 of the operator at every durable step of a job: nothing is published or told twice, no receipt is lost.

The processes are the real ones. Where each of them dies is chosen in Postgres: a trigger makes the armed step of a line
wait for a lock that the test holds. Once every line stands still at its own step the operator is killed, and the lock
let go: what Postgres was still to do for the dead process it then does, or rolls back, as after any crash.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
from typing import NamedTuple

import asyncpg
import pytest
from tests.cluster.places import Place, eventually, finding

from anabranch.model.objects import BranchManifest, Publication
from anabranch.model.requests import BranchRequest
from anabranch.store import manifests, trie
from anabranch.store.database import Database

pytestmark = pytest.mark.long

ROUNDS = int(os.environ.get("ANABRANCH_CHAOS_ROUNDS", "3"))


class Step(NamedTuple):
    """What a step writes.

    Attributes:
        table: Where.
        condition: By what its row is known.
        line: Of the row.
        action: What it does there.
    """

    table: str
    condition: str = "true"
    line: str = "NEW.line"
    action: str = "INSERT"


STEPS = {
    "opened": Step("transitions", "NEW.to_state = 'received'"),
    "begun": Step("transitions", "NEW.to_state = 'importing'"),
    "candidates": Step("candidates", "NEW.origin_job = NEW.job_id AND NEW.key LIKE 'second/%'"),
    "imported": Step("transitions", "NEW.to_state = 'validating'"),
    "split": Step("transitions", "NEW.to_state = 'awaiting_review'"),
    "validated": Step("transitions", "NEW.to_state = 'publishing'"),
    "noticed": Step("agent_outbox", "NEW.kind = 'finding.published'"),
    "generation": Step("manifests", "NEW.generation > 1"),
    "published": Step("transitions", "NEW.to_state = 'published'"),
    "told": Step(
        "agent_events",
        line="(SELECT l.line FROM lines AS l WHERE l.namespace = NEW.data->'baseline'->>'namespace'"
        " AND l.name = NEW.data->'baseline'->>'name')",
    ),
    "settled": Step("agent_outbox", line="OLD.line", action="DELETE"),
}
"""`candidates` is between two batches of one job; after it, its agent is `told`, and that is `settled`."""

MOMENTS = ("writing", "committing")
"""`writing`: the transaction is lost, unless the statement is a transaction of its own. `committing`: it succeeds after
the death of whoever began it, who never learns."""

POINTS = [f"{step}-{moment}" for step in STEPS for moment in MOMENTS]

ONE_AT_A_TIME = (
    [f"opened-{moment}" for moment in MOMENTS],
    ["told-committing", "settled-writing", "told-writing", "settled-committing"],
)
"""Points of which an operator reaches one at a time, since it does this for one line after the other."""

_LOCK = 7_401
_BLOCKED = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = $1 AND NOT granted"


class Crossing:
    """Makes armed lines wait at their step. Use as a context; a kill comes while it is closed."""

    def __init__(self, conn: asyncpg.Connection) -> None:
        self._conn = conn

    async def install(self) -> None:
        await self._conn.execute("CREATE TABLE IF NOT EXISTS crossings (line text, point text)")
        for step, (table, condition, line, action) in STEPS.items():
            for moment in MOMENTS:
                name = f"cross_{step}_{moment}"
                when = "DEFERRABLE INITIALLY DEFERRED" if moment == "committing" else ""
                await self._conn.execute(
                    f"""
                    CREATE OR REPLACE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
                    SET lock_timeout = 0 AS $$
                    BEGIN
                        IF {condition} AND EXISTS (SELECT FROM crossings
                                                   WHERE line = {line} AND point = '{step}-{moment}') THEN
                            PERFORM pg_advisory_xact_lock_shared({_LOCK});
                        END IF;
                        RETURN NULL;
                    END $$;
                    CREATE CONSTRAINT TRIGGER {name} AFTER {action} ON {table} {when}
                    FOR EACH ROW EXECUTE FUNCTION {name}();
                    """
                )

    async def remove(self) -> None:
        for step in STEPS:
            for moment in MOMENTS:
                await self._conn.execute(f"DROP FUNCTION IF EXISTS cross_{step}_{moment} CASCADE")
        await self._conn.execute("DROP TABLE IF EXISTS crossings")

    @contextlib.asynccontextmanager
    async def closed(self):
        await self._conn.execute("SELECT pg_advisory_lock($1::bigint)", _LOCK)
        try:
            yield
        finally:
            await self._conn.execute("DELETE FROM crossings")
            await self._conn.execute("SELECT pg_advisory_unlock($1::bigint)", _LOCK)

    async def arm(self, line: str, point: str) -> None:
        await self._conn.execute("INSERT INTO crossings VALUES ($1, $2)", line, point)

    async def blocked(self, many: int) -> None:
        async def reached() -> bool:
            return await self._conn.fetchval(_BLOCKED, _LOCK) >= many

        await eventually(reached, within=25)  # before the operator's own statement_timeout


@pytest.fixture
async def conn(stack):
    conn = await asyncpg.connect(stack.admin_dsn)
    yield conn
    await conn.close()


@pytest.fixture
async def crossing(conn):
    crossing = Crossing(conn)
    await crossing.remove()
    await crossing.install()
    yield crossing
    await crossing.remove()


@pytest.fixture
def many_workers(stack):
    """An operator that can stand still at every point at once; an ordinary one afterwards."""
    stack.stop("operator")
    stack.start_operator(workers=len(POINTS))
    yield
    stack.stop("operator")  # it gives its Lease back: what comes next need not wait for the end of that
    stack.start_operator()


@pytest.fixture
async def lines(stack, conn, many_workers):
    """A namespace with a Baseline for each point; gives the place and the line of each point."""
    place = Place(stack)
    stack.make_namespace(place.namespace)
    data = {"facts.jsonl": json.dumps({"key": "known", "content": "known"}) + "\n"}
    metadata = {"namespace": place.namespace}
    stack.cluster.apply(
        [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "facts", **metadata}, "data": data}]
        + [
            {
                "apiVersion": "anabranch.dev/v1alpha1",
                "kind": "Baseline",
                "metadata": {"name": point, **metadata},
                "spec": {"import": {"configMap": {"name": "facts"}}, "review": {"mode": "Automatic"}},
            }
            for point in POINTS
        ]
    )
    place.kubectl("wait", "--for=condition=Ready", "baselines", "--all", "--timeout=60s")
    rows = await conn.fetch("SELECT name, line FROM lines WHERE namespace = $1", place.namespace)
    yield place, {row["name"]: row["line"] for row in rows}
    await place.close()


async def fork(place, agent, point):
    """A fresh branch; a successor of a killed operator leads only once that one's Lease has run out."""
    request = BranchRequest(name=f"run-{secrets.token_hex(4)}", baseline=point)

    async def active():
        branch = await agent.create_branch(place.namespace, request)
        return branch if isinstance(branch, BranchManifest) and branch.phase == "Active" else None

    return await eventually(active)


async def submit_run(place, agent, branch):
    """Submit two batches of new findings and a conflict so that they become one job."""
    run = branch.name
    await place.submit(agent, branch, finding(f"second/{run}", run), sequence=2)
    await place.submit(agent, branch, finding(f"first/{run}", run), finding("known", run), sequence=1)


async def let_leases_run_out(conn):
    await conn.execute(
        "UPDATE jobs SET lease_deadline = now() - interval '1 s', due_at = now() - interval '1 s' "
        "WHERE holder IS NOT NULL AND finished_at IS NULL; "
        "UPDATE agent_outbox SET due_at = now() - interval '1 s'"
    )


async def all_published(place, agent, branches, *, within):
    async def ended():
        answers = [
            await agent.batch(place.namespace, branch.branch_id, sequence) for branch in branches for sequence in (1, 2)
        ]
        return all(isinstance(answer, Publication) for answer in answers)

    await eventually(ended, within=within)


async def all_told(conn, lines, *, within):
    async def told():
        return not await conn.fetchval("SELECT count(*) FROM agent_outbox WHERE line = ANY($1)", list(lines))

    await eventually(told, within=within)


@pytest.mark.timeout(600 + 120 * ROUNDS)
async def test_an_operator_killed_at_any_durable_step_publishes_everything_once(stack, conn, crossing, lines):
    place, line_of = lines
    agent = await place.client("agent", "anabranch-agent")
    runs = {point: [] for point in POINTS}
    late = {point: [] for point in POINTS}
    for turn in range(ROUNDS):
        opening, telling = (points[turn % len(points)] for points in ONE_AT_A_TIME)
        # No line gets further while the operator stands still at an opening, so that comes last.
        others = [telling, *(point for point in POINTS if not any(point in points for points in ONE_AT_A_TIME))]
        branches = await asyncio.gather(*(fork(place, agent, point) for point in [*others, opening]))
        for point in others[:3]:
            late[point].append(await fork(place, agent, point))
        async with crossing.closed():
            for point, branch in zip([*others, opening], branches, strict=True):
                await crossing.arm(line_of[point], point)
                runs[point].append(branch)
            await asyncio.gather(*(submit_run(place, agent, branch) for branch in branches[:-1]))
            await crossing.blocked(len(others))
            await submit_run(place, agent, branches[-1])
            await crossing.blocked(len(others) + 1)
            stack.kill("operator")
        for point in others[:3]:
            await submit_run(place, agent, late[point][-1])  # receipt does not need an operator
        stack.start_operator(workers=len(POINTS))
        if turn:  # the first time they run out by themselves
            await let_leases_run_out(conn)
        await all_published(
            place, agent, [branch for each in (runs, late) for made in each.values() for branch in made[-1:]], within=60
        )

    await all_told(conn, line_of.values(), within=60)
    db = await Database.open(stack.operator_dsn, application_name="test")
    try:
        for point in POINTS:
            await check(conn, db, line=line_of[point], runs=[*runs[point], *late[point]])
    finally:
        await db.close()


async def check(conn, db, *, line, runs):
    """Every finding of a line was published, and each of them once, in a history without gaps."""
    names = sorted(f"{which}/{run.name}" for run in runs for which in ("first", "second"))
    events = await conn.fetch("SELECT sequence, kind, key, generation FROM events WHERE line = $1 ORDER BY 1", line)
    assert sorted(event["key"] for event in events) == names, "each finding was published once"
    assert [event["sequence"] for event in events] == list(range(1, len(events) + 1))
    versions = await conn.fetch("SELECT key FROM record_versions WHERE line = $1", line)
    assert sorted(row["key"] for row in versions) == sorted(["known", *names])
    jobs = await conn.fetch("SELECT * FROM jobs WHERE line = $1", line)
    done = [job for job in jobs if job["origin"] == "Branch"]
    assert {job["state"] for job in done} <= {"published"}
    assert not any(job["failed"] for job in jobs)
    published = [job["published_generation"] for job in done if job["published_generation"]]
    generations = await conn.fetch("SELECT generation FROM manifests WHERE line = $1 ORDER BY 1", line)
    assert [row["generation"] for row in generations] == [1, *sorted(published)], "a generation for each job"
    candidates = await conn.fetch("SELECT state, key, run_id FROM candidates WHERE line = $1", line)
    assert sorted((row["key"], row["run_id"]) for row in candidates) == sorted(
        (key, run.run_id) for run in runs for key in (f"first/{run.name}", f"second/{run.name}", "known")
    )
    assert {row["state"] for row in candidates if row["key"] == "known"} <= {"waiting"}
    outcomes = ("finding.conflict", "finding.published")
    told = await conn.fetch(
        "SELECT e.event_id, e.kind, e.data->'branch'->>'runId' AS run, r.exchange_id FROM agent_events AS e "
        "LEFT JOIN agent_receipts AS r ON r.exchange_id = e.event_id WHERE e.data->'branch'->>'runId' = ANY($1)",
        [run.run_id for run in runs],
    )
    assert sorted((row["run"], row["kind"]) for row in told) == sorted(
        (run.run_id, outcome) for run in runs for outcome in outcomes
    ), "its agent was told of each outcome once"
    assert all(row["exchange_id"] for row in told)
    async with db.transaction() as reading:
        for manifest in await manifests.history(reading, line, 1000):
            root = await trie.recompute_root(reading, line=line, generation=manifest.generation)
            assert bytes(root) == bytes(manifest.manifest_hash)
