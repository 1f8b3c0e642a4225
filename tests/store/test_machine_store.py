"""A line under all that may be done to it, in any order and at once, against a model that is a dict a generation.

After each step every retained generation reads as the model says and its root is that of its rows, what was told is
what happened, and whoever follows the feed from anywhere ends with what is current.
"""

from __future__ import annotations

import asyncio
import itertools
import sys

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, rule
from tests.store import building, line_checks, retaining
from tests.store.line_checks import IMPORT
from tests.store.line_model import Entry, LineModel, Told
from tests.store.line_users import Follower, LineUsers
from tests.store.machine import TIMEOUT, Machine, explore

from anabranch.model.canonical import canonical_bytes
from anabranch.store import database, events, retention

KEYS = 96
NUMBERS = itertools.count()

picks = st.integers(0, 30)
contents = st.none() | st.integers(0, 3)
scopes = st.sampled_from(["shared", "team"])
few = st.dictionaries(st.integers(0, 9) | st.integers(0, KEYS - 1), st.tuples(scopes, contents), min_size=1, max_size=8)
many = st.builds(  # so many that leaves of the trie split and collapse
    lambda first, count, what: dict.fromkeys(range(first, min(first + count, KEYS)), what),
    st.integers(0, KEYS // 2),
    st.integers(20, KEYS),
    st.tuples(scopes, contents),
)
changes = (few | many).map(lambda drawn: {f"k{number:02}": what for number, what in drawn.items()})
acts = st.one_of(
    st.tuples(st.just("publish"), changes),
    st.tuples(st.sampled_from(["pin", "restore", "fork", "end", "prune", "read"]), picks),
    st.tuples(st.sampled_from(["unpin", "purge"]), st.none()),
)


class StoreMachine(Machine):
    """One line."""

    def __init__(self, runner, db):
        super().__init__(runner)
        self.db = db
        self.followers: list[Follower] = []
        self.restore_ids: dict[str, int] = {}
        self.changed: set[int] = {1}  # generations to be looked at after this step

    @initialize(
        count=st.sampled_from([3, 64, 65, KEYS]),
        history=st.lists(st.tuples(changes, st.booleans()), min_size=2, max_size=5),
    )
    def begin(self, count, history):
        """A line with a past, on some of whose generations runs stand."""
        number = next(NUMBERS)
        imported = {f"k{key:02}": key % 4 for key in range(count)}
        self.line = self.run(building.new_line(self.db, name=f"facts-{number}", uid=f"uid-{number}"))
        self.run(building.import_records(self.db, self.line, imported))
        self.model = LineModel({key: Entry(1, "shared", content, IMPORT) for key, content in imported.items()})
        self.begin_noting()
        for changed, forks in history:
            self.together([("publish", changed)])
            self.together([("fork", 0)] if forks else [])

    # What one does alone.

    @rule(pick=st.none() | picks)
    def pin(self, pick):
        if pick is None:
            self.together([("unpin", None)])
            assert self.model.pinned is None
            assert self.model.current == self.model.head
            return
        target = self.any_generation(pick)
        before, told = self.model.pinned, len(self.model.told)
        self.together([("pin", pick)])
        moves = target in self.model.retained and target != before
        assert self.model.pinned == (target if moves else before)
        assert len(self.model.told) == told + moves

    @rule(pick=picks)
    def restore(self, pick):
        target = self.any_generation(pick)
        before, told = self.model.live(self.model.head), len(self.model.told)
        restores = target in self.model.retained
        self.together([("restore", pick)])
        after = self.model.live(self.model.head)
        assert _said(after) == (_said(self.model.live(target)) if restores else _said(before))
        assert len(self.model.told) == told + restores

    @rule(pick=picks, which=picks)
    def restore_again(self, pick, which):
        """An id that has acted never acts again, whatever it is to restore."""
        if self.restore_ids:
            restore_id = sorted(self.restore_ids)[which % len(self.restore_ids)]
            self.run(self.users.restore(self.any_generation(pick), restore_id))
            assert set(self.users.restored) == {self.restore_ids[restore_id]}
            self.users.restored.clear()
            self.follow_log()

    @rule(pick=picks, ends=st.booleans())
    def run_begins_or_ends(self, pick, ends):
        self.together([("end" if ends else "fork", pick)])

    @rule(pick=picks, events=st.integers(0, 20))
    def retention(self, pick, events):
        """All that retention does, one after the other, and nothing besides."""
        self.together([("purge", None)])
        expected = self.model.retained - self.model.droppable(_kept(pick))
        self.together([("prune", pick)])
        assert self.model.retained == expected
        assert self.run(retaining.rubbish(self.db, self.line)) == {}
        left = len(self.model.told) - self.model.floor
        assert self.run(self.prune_events(events + 1)) == min(events + 1, left)
        self.model.floor += min(events + 1, left)

    async def prune_events(self, limit):
        async with self.db.transaction() as conn:
            now = await database.now(conn)
            return await retention.prune_events(conn, line=self.line, before=now, limit=limit)

    @rule(pick=picks, limit=st.integers(1, 20))
    def follow(self, pick, limit):
        """Followers come, and go on at their own pace: some are far behind."""
        if len(self.followers) < 3:
            self.followers.append(Follower(self.db, self.line))
        self.run(self.followers[pick % len(self.followers)].look(limit))

    # What many do at once.

    @rule(drawn=st.lists(changes, min_size=1, max_size=4))
    def publish_together(self, drawn):
        head, pinned = self.model.head, self.model.pinned
        self.together([("publish", changed) for changed in drawn])
        assert self.model.head == head + (0 if pinned else len(drawn))

    @rule(drawn=st.lists(acts, min_size=2, max_size=6))
    def crowd(self, drawn):
        self.together(drawn)

    @rule(
        keep=picks,
        drawn=st.lists(
            st.tuples(st.sampled_from(["pin", "pin", "fork", "restore", "read", "prune"]), picks),
            min_size=2,
            max_size=5,
        ),
        chosen=st.booleans(),
    )
    def take_hold_while_it_goes(self, keep, drawn, chosen):
        """Whoever takes hold of an old generation, and whoever removes it, and perhaps has chosen it before."""
        if chosen:
            self.together([("prune", keep)], meanwhile=drawn)
        else:
            self.together([("prune", keep), *drawn])

    @rule(pick=picks, drawn=st.lists(changes, min_size=2, max_size=4))
    def restore_among_publications(self, pick, drawn):
        """A restore writes before it has the head's lock."""
        self.together([("restore", pick), *(("publish", changed) for changed in drawn)])

    # After each step.

    @invariant()
    def reads_as_the_model_says(self):
        self.run(line_checks.check(self.db, self.line, self.model, changed=self.changed))
        self.changed.clear()
        self.run(line_checks.check_followers(self.db, self.line, self.model, self.followers))

    def teardown(self):
        if sys.exception() is None:  # else what a step has found is the news
            self.run(retaining.check(self.db, self.line))

    def together(self, drawn, meanwhile=()):
        """Let everybody act at once; then learn from the log what came of it, and whether it may.

        Others act in the middle of a prune, when it knows what it is going to remove and has not begun.
        """
        known = {g: {k: canonical_bytes(e.content) for k, e in self.model.live(g).items()} for g in self.model.history}
        highest = self.model.head

        async def act():
            await asyncio.gather(*(self.act(act, value, known) for act, value in drawn))

        async def interrupt():
            await asyncio.gather(*(self.act(act, value, known) for act, value in meanwhile))

        self.users.interrupt = interrupt if meanwhile else None
        self.run(act())
        retained = self.follow_log()
        keeps = [_kept(value) for act, value in [*drawn, *meanwhile] if act == "prune"]
        self.account_for_runs_and_prunes(retained, keeps)
        if keeps:
            self.changed |= retained
        assert self.users.refused <= self.model.pruned
        assert all(generation > highest for generation in self.users.unknown)
        self.restore_ids |= self.made_by_restores
        self.begin_noting()

    def act(self, act, value, known):
        users, number, pick = self.users, next(NUMBERS), value if isinstance(value, int) else 0
        generation, runs = self.any_generation(pick), sorted(self.model.parents) or ["nobody"]
        return {
            "publish": lambda: users.publish(value, f"run-{number}"),
            "pin": lambda: users.pin(generation),
            "unpin": lambda: users.pin(None),
            "restore": lambda: users.restore(generation, f"restore-{number:06}"),
            "fork": lambda: users.fork(generation if pick % 3 else None, f"run-{number}"),
            "end": lambda: users.end(runs[pick % len(runs)]),
            "prune": lambda: users.prune(_kept(pick)),
            "purge": users.purge,
            "read": lambda: users.read(generation, known.get(generation)),
        }[act]()

    def any_generation(self, pick):
        """One that there is, the oldest ones first; now and then any that was, or one that is still to come."""
        if pick % 5 == 4:
            return pick % (self.model.head + 1) + 1
        retained = sorted(self.model.retained)
        return retained[pick % len(retained)]

    def begin_noting(self):
        self.users = LineUsers(self.db, self.line)

    def follow_log(self):
        """Let the model do what the line's own log says, and nothing of it twice or without somebody who did it."""
        users, model = self.users, self.model
        self.made_by_restores = {restore_id: made for made, (_, restore_id) in users.restored.items()}
        told, retained = self.run(self.log())
        first_new = model.head + 1
        while True:
            purge = users.purged.get(model.head + 1)
            if purge is not None and purge[1] == len(model.told):
                model.purge(users.purged.pop(model.head + 1)[0], retained=retained)
                continue
            if len(model.told) == len(told):
                break
            event = told[len(model.told)]
            if event.kind in ("rollback", "resumed"):
                model.move(event.kind, event.generation)
            elif event.kind == "restored":
                model.restore(users.restored.pop(event.generation)[0])
            else:
                changed, run = users.published.pop(event.generation)
                model.publish(changed, run=run)
        assert model.told == told
        assert (users.published, users.purged, users.restored) == ({}, {}, {})
        self.changed |= set(range(first_new, model.head + 1))
        return retained

    async def log(self):
        """All that was ever told, as far as is left of it, and which generations there are."""
        async with self.db.connection() as conn:
            page = await events.after(conn, line=self.line, after_sequence=self.model.floor, limit=100_000, scopes=None)
        assert page.floor == self.model.floor
        assert [event.sequence for event in page.events] == list(range(page.floor + 1, page.watermark + 1))
        kept = [Told(event.kind, event.generation, event.key, event.revision) for event in page.events]
        return self.model.told[: page.floor] + kept, set(await retaining.generations(self.db, self.line))

    def account_for_runs_and_prunes(self, retained, keeps):
        """What is gone had to be allowed to go, by those who stand on it now and by the most greedy of the prunes."""
        model = self.model
        model.parents |= self.users.parents
        model.parents = {run: parent for run, parent in model.parents.items() if run not in self.users.ended}
        gone = model.retained - retained
        assert retained <= model.retained
        assert gone <= (model.droppable(min(keeps)) if keeps else set())
        model.retained = retained


def _kept(pick):
    """How many generations a prune is to keep."""
    return pick % 4 + 1


def _said(entries):
    return {key: (entry.scope, entry.content) for key, entry in entries.items()}


@pytest.mark.timeout(TIMEOUT)
def test_a_line_is_what_its_model_says_whatever_is_done_to_it_at_once(database):
    explore(StoreMachine, database.operator, examples=10, steps=16)
