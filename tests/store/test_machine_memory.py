"""Agents' memories under all that may be done to them, in any order and at once, against a model of the rules.

Writers of sections, runtimes that sync, chat platforms, pollers that are slow, that crash, or that acknowledge too
late: after each step every table reads as the model says.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections import defaultdict
from dataclasses import replace
from datetime import timedelta
from uuid import uuid4

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, rule
from tests.store.machine import TIMEOUT, Machine, explore
from tests.store.memory_model import Answers, Delete, EnvelopeModel, Note, Put, Sync
from tests.store.remembering import exchange, put, sync_of

from anabranch.domain import digest
from anabranch.memory import delivery, envelopes, syncing
from anabranch.model.agent_events import MemoryDigest
from anabranch.model.canonical import parse_json
from anabranch.model.errors import ClaimLostError, ConflictError, NotFoundError, PreconditionFailedError
from anabranch.model.memory import AgentKey
from anabranch.store import agent_events, exchanges
from anabranch.store.agent_events import NewAgentEvent

NUMBERS = itertools.count()
PLACES = ("long_term", "dedup_state", "shared", "daily/2026-11-30", "relationships/pod-b")
OWN = [place for place in PLACES if place != "shared"]
TABLES = ("agent_envelopes", "agent_sections", "agent_section_history", "agent_exchanges", "agent_events")
LIMIT = 3

picks = st.integers(0, 30)
acts = st.tuples(
    st.sampled_from(["put", "delete", "sync", "note", "note", "tell", "claim", "claim", "ack", "ack", "fail", "read"]),
    st.integers(0, 2),
    picks,
    picks,
)


class AbortedError(Exception):
    """What stands for a crash before the commit."""


class Aborting:
    """A database whose transactions are all lost."""

    def __init__(self, db):
        self._db = db

    async def run(self, work):
        async with self._db.transaction() as conn:
            await work(conn)
            raise AbortedError

    @contextlib.asynccontextmanager
    async def transaction(self):
        async with self._db.transaction() as conn:
            yield conn
            raise AbortedError

    connection = transaction

    def notify(self, topic):
        raise AssertionError(f"{topic} was notified of nothing")


class MemoryMachine(Machine):
    """Two instances of one agent, and another agent."""

    def __init__(self, runner, db):
        super().__init__(runner)
        self.db = db

    @initialize()
    def begin(self):
        namespace = f"agents-{next(NUMBERS)}"
        names = (("scout", "pod-a"), ("scout", "pod-b"), ("planner", "pod-a"))
        self.keys = [AgentKey(namespace=namespace, agent_id=agent, instance=instance) for agent, instance in names]
        self.models = {key: EnvelopeModel() for one in self.keys for key in (one, one.whole)}
        self.claims = {key: [] for key in self.keys}  # all that ever were: event and claim

    @rule(act=acts)
    def alone(self, act):
        self.together([act])

    @rule(drawn=st.lists(acts, min_size=2, max_size=8))
    def crowd(self, drawn):
        self.together(drawn)

    @rule(act=acts)
    def crash(self, act):
        """Somebody dies before the commit: nothing has happened."""
        self.answers = defaultdict(Answers)
        with contextlib.suppress(AbortedError):
            self.run(self.act(Aborting(self.db), *act))

    @rule(who=st.integers(0, 2), pick=picks)
    def crashed_poller(self, who, pick):
        """Somebody claims, and is never heard of again."""
        self.together([("claim", who, pick, 0)])
        self.claims[self.keys[who]].clear()

    @rule(who=st.integers(0, 2), every=st.booleans(), pick=picks)
    def time_passes(self, who, every, pick):
        """Claims and pauses run out: all of a queue, or one."""
        key = self.keys[who]
        names = [name for name, event in self.models[key].events.items() if event.status in ("pending", "claimed")]
        if names:
            names = names if every else [names[pick % len(names)]]
            self.run(self.run_out(key, names))
            for name in names:
                self.models[key].events[name].due = True

    @invariant()
    def the_tables_are_as_the_model_says(self):
        self.run(self.check())

    def together(self, drawn):
        """Let everybody act at once; then let the model say whether what they were answered may be."""
        self.answers = defaultdict(Answers)

        async def act():
            await asyncio.gather(*(self.act(self.db, *each) for each in drawn))

        self.run(act())
        self.run(self.learn())
        for key, answers in self.answers.items():
            if len(drawn) == 1:
                self.models[key].check_alone(answers, limit=LIMIT, fits=fits)
            self.models[key].settle(answers)

    async def act(self, db, kind, who, pick, number):
        key = self.keys[who]
        await getattr(self, kind)(db, key, pick, number)

    # What one may do; each notes what it was answered.

    async def put(self, db, key, pick, number):
        place = PLACES[pick % len(PLACES)]
        section, _, item = place.partition("/")
        expected = {3: 0, 4: 10**6}.get(number % 5)  # now and then one that saw something else
        try:
            row = await put(db, section, number % 4, item or None, key, expected=expected)
        except PreconditionFailedError:
            return
        owner = key.whole if section == "shared" else key
        self.answers[owner].writes.append((int(row.revision), Put(place, number % 4)))

    async def delete(self, db, key, pick, number):
        place = OWN[pick % len(OWN)]
        section, _, item = place.partition("/")
        expected = 10**6 if number % 5 == 4 else None
        try:
            revision = await envelopes.delete(db, key, section=section, item=item or None, expected=expected)
        except (NotFoundError, PreconditionFailedError):
            return
        self.answers[key].writes.append((revision, Delete(place)))

    async def sync(self, db, key, pick, number):
        mode = "full" if pick % 2 else "patch"
        given = {place: number % 3 for bit, place in enumerate(OWN) if pick >> (bit + 1) & 1}
        answer = await syncing.sync(db, key, sync_of(mode, given))
        if answer.written or answer.removed:
            self.answers[key].writes.append((int(answer.revision), Sync(mode, given)))
        else:
            self.answers[key].syncs.append((answer, Sync(mode, given)))

    async def note(self, db, key, pick, number):
        """One exchange for one or two agents, or many at once; sometimes one that was noted before."""
        others = [other for bit, other in enumerate(self.keys) if number >> bit & 1 and other != key]
        if pick % 6 == 5:
            entries = [said(key, f"m{next(NUMBERS)}") for _ in range(2 * number)]
        else:
            name = self.old(key, pick) if pick % 3 == 2 else f"x{next(NUMBERS) // 4}"
            entries = [said(each, name) for each in (key, *others)]
        if pick % 10 == 9 and self.models[key].had:
            entries.append(replace(said(key, self.old(key, pick)), digest=b"other"))

        async def work(conn):
            return await noted(conn, entries)

        try:
            writes = await db.run(work)
        except ConflictError:
            assert entries[-1].digest == b"other"
            return
        for owner, write in writes:
            self.answers[owner].writes.append(write)

    async def tell(self, db, key, pick, number):
        name = f"e{next(NUMBERS)}"

        async def work(conn):
            writes = await noted(conn, [said(key, name)]) if pick % 2 else []
            event = NewAgentEvent(
                key=key, event_id=name, kind="exchange.direct", subject=None, data={"n": number}, time=said(key, "").ts
            )
            assert await agent_events.enqueue(conn, [event, event]) == {(key, name)}
            return writes

        writes = await db.run(work)
        self.answers[key].told.append(name)
        self.answers[key].writes += [write for _, write in writes]

    async def claim(self, db, key, pick, number):  # noqa: ARG002  (as the others)
        events = await delivery.claim(db, key, limit=LIMIT, visibility=timedelta(hours=1))
        self.answers[key].claims.append(events)
        self.claims[key] += [(event.id, event.claimid) for event in events]

    async def ack(self, db, key, pick, number):
        for name, claim in self.some_claim(key, pick, number):
            accepted = await holds(delivery.ack(db, key, event_id=name, claim_id=claim))
            self.answers[key].acks.append((name, claim, accepted))

    async def fail(self, db, key, pick, number):
        for name, claim in self.some_claim(key, pick, number):
            accepted = await holds(delivery.fail(db, key, event_id=name, claim_id=claim, error="It broke."))
            self.answers[key].fails.append((name, claim, accepted))

    async def read(self, db, key, pick, number):  # noqa: ARG002
        found = await envelopes.read_section(db, key, section="system_exchanges")
        revisions = [int(entry.revision) for entry in found.entries]
        assert revisions == sorted(revisions, reverse=True)
        if revisions:
            self.answers[key].reads.append((revisions, not all(entry.seen for entry in found.entries)))

    def some_claim(self, key, pick, number):
        """A claim that was made once, most often one of the last; or one that never was."""
        if number % 10 == 9 and self.models[key].events:
            return [(min(self.models[key].events), uuid4())]
        known = [each for each in self.claims[key] if each[0] in self.models[key].events]
        return [known[-1 - pick % min(len(known), 6)]] if known else []

    def old(self, key, pick):
        had = sorted(self.models[key].had) or ["never"]
        return had[pick % len(had)]

    # What the database says.

    async def learn(self):
        """In which order events came in."""
        async with self.db.connection() as conn:
            for key, answers in self.answers.items():
                rows = await conn.fetch(
                    "SELECT event_id FROM agent_events"
                    " WHERE (namespace, agent_id, instance) = ($1, $2, $3) ORDER BY ordinal",
                    *key.columns.values(),
                )
                answers.told = [row["event_id"] for row in rows if row["event_id"] in answers.told]

    async def run_out(self, key, names):
        async with self.db.connection() as conn:
            await conn.execute(
                "UPDATE agent_events SET due_at = now() - interval '1 s'"
                " WHERE (namespace, agent_id, instance) = ($1, $2, $3) AND event_id = ANY($4)",
                *key.columns.values(),
                names,
            )

    async def check(self):
        async with self.db.transaction(readonly=True, isolation="repeatable_read") as conn:
            tables = {table: defaultdict(list) for table in TABLES}
            for table, rows in tables.items():
                for row in await conn.fetch(f"SELECT * FROM {table} WHERE namespace = $1", self.keys[0].namespace):
                    rows[row["agent_id"], row["instance"]].append(row)
        for key, model in self.models.items():
            check(model, *(rows[key.agent_id, key.instance] for rows in tables.values()))


def check(model, envelope, sections, history, noted, queue):
    """What the tables have of an envelope, as they are in `TABLES`."""
    assert [(row["revision"], row["last_seen_revision"]) for row in envelope] in (
        [(model.revision, model.last_seen)],
        [] if model.revision == 0 else None,
    )
    said_now = {"/".join(filter(None, (row["section"], row["item"]))): parse_json(row["body"]) for row in sections}
    assert said_now == model.sections
    former = [(row["section"], row["item"]) for row in history]
    assert max((former.count(place) for place in former), default=0) <= 5
    assert {row["revision"]: row["exchange_id"] for row in noted} == model.entries
    assert {row["revision"] for row in noted if row["seen_at"]} == model.seen
    assert {row["event_id"] for row in queue} == model.events.keys()
    for row in queue:
        event = model.events[row["event_id"]]
        assert (row["status"], row["attempts"], row["claim_id"]) == (event.status, event.attempts, event.claim)
        assert (set(row["delivered"]), row["memory_revision_at_delivery"]) == (event.delivered, event.stamp)


async def noted(conn, entries):
    """Note exchanges: by envelope the revision that the last of them made, which others may write over right after."""
    appended = await exchanges.append(conn, entries)
    writes = []
    for owner in dict.fromkeys(one.key for one in appended):
        if new := [one.exchange_id for one in appended if one.key == owner and one.new]:
            revision = await conn.fetchval(
                "SELECT revision FROM agent_exchanges"
                " WHERE (namespace, agent_id, instance) = ($1, $2, $3) AND exchange_id = $4",
                *owner.columns.values(),
                new[-1],
            )
            writes.append((owner, (revision, Note(new))))
    return writes


def said(key, name):
    """An exchange whose takeaway begins with its id; some are so long that few fit a digest."""
    return exchange(key, name, takeaway=f"{name} {'🙂' * 265 if name.endswith(('0', '1', '2')) else ''}".strip())


def fits(told, name):
    """Whether a digest has bytes for one more exchange."""
    more = said(AgentKey(namespace="", agent_id="", instance=""), name)
    entry = told.entries[0].model_copy(update={"takeaway": more.takeaway}) if told.entries else None
    fuller = MemoryDigest(entries=(*told.entries, entry), omitted=max(told.omitted - 1, 0)) if entry else None
    return fuller is None or digest.size(fuller) <= 2_560


async def holds(work):
    """Whether a claim was accepted."""
    try:
        await work
    except ClaimLostError:
        return False
    return True


@pytest.mark.timeout(TIMEOUT)
def test_a_memory_is_what_its_model_says_whatever_is_done_to_it_at_once(database):
    explore(MemoryMachine, database.api, examples=10, steps=25)
