"""Consolidation under two operators, whatever the agents, the reviewers, the network and kill -9 do to it.

After each step every acknowledged batch has one fate, nothing is published twice or without its review, every job has
gone a legal path under its fences, and nobody's private change is seen. At the end of each example all obstacles go
away, and then nothing may be left undecided.
"""

from __future__ import annotations

import asyncio
import itertools
import sys

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, rule
from tests.store import fleet_checks
from tests.store.dying import KilledError
from tests.store.fleet import REVIEWERS, Death, Fleet
from tests.store.machine import TIMEOUT, Machine, explore

from anabranch.model.errors import UnavailableError

NUMBERS = itertools.count()

picks = st.integers(0, 30)
agents = st.integers(0, 2)
keys = st.sampled_from(["a", "b", "c", "d"])
puts = st.fixed_dictionaries(
    {
        "key": keys,
        "content": st.integers(0, 5),
        "visibility": st.sampled_from(["shareable", "shareable", "private"]),
        "knows_newest": st.booleans(),
    },
    optional={"sources": st.just([])},
)
deletions = st.fixed_dictionaries({"key": keys, "op": st.just("tombstone"), "knows_newest": st.booleans()})
batches = st.lists(st.tuples(st.lists(puts | deletions, min_size=1, max_size=3), st.booleans()), min_size=1, max_size=3)
errors = st.sampled_from([KilledError(), KilledError(), UnavailableError("An outage.", hint="Wait until it ends.")])
deaths = st.none() | st.builds(Death, st.integers(1, 14), st.booleans(), errors)
shifts = st.tuples(st.integers(1, 4), deaths)
reviews = st.tuples(picks, st.sampled_from(["accept", "accept", "reject"]), st.sampled_from(REVIEWERS), st.booleans())


class ConsolidationMachine(Machine):
    """One line, three agents, two operators."""

    def __init__(self, runner, db, other):
        super().__init__(runner)
        self.fleet = Fleet(db, other)
        self.told = 0

    @initialize(
        policy=st.fixed_dictionaries({
            "mode": st.sampled_from(["Automatic", "Manual"]),
            "requireSources": st.booleans(),
        }),
        drawn=st.tuples(batches, batches, batches),
    )  # fmt: skip
    def begin(self, policy, drawn):
        self.policy = policy
        self.run(self.fleet.begin(next(NUMBERS), policy=policy))
        for who, found in enumerate(drawn):
            self.find(who, found)

    # Agents.

    @rule(who=agents, drawn=batches)
    def find(self, who, drawn):
        """Compose batches, and send them the wrong way round."""
        self.keep(who, drawn)
        agent = self.fleet.agents[who]
        for number in range(len(drawn)):
            self.run(self.fleet.send(agent, len(agent.outbox) - number))

    @rule(who=agents, drawn=batches)
    def keep(self, who, drawn):
        """Compose batches, and send them later."""
        for changes, final in drawn:
            self.run(self.fleet.compose(self.fleet.agents[who], changes, final=final))

    @rule(drawn=st.lists(st.tuples(agents, picks), min_size=1, max_size=6))
    def send(self, drawn):
        """Several batches on their way at once, in any order, some of them twice."""
        sending = [(self.fleet.agents[who], pick) for who, pick in drawn if self.fleet.agents[who].outbox]
        self.together(*(self.fleet.send(agent, pick % len(agent.outbox) + 1) for agent, pick in sending))

    @rule(who=agents, pick=picks)
    def forge(self, who, pick):
        agent = self.fleet.agents[who]
        if agent.receipts:
            self.run(self.fleet.forge(agent, sorted(agent.receipts)[pick % len(agent.receipts)]))
        self.run(self.fleet.tear(agent))

    @rule(who=agents)
    def complete(self, who):
        self.run(self.fleet.complete(self.fleet.agents[who]))

    # Operators.

    @rule(first=shifts, second=shifts, drawn=st.lists(reviews, max_size=1), sent=st.none() | st.tuples(agents, picks))
    def operate(self, first, second, drawn, sent):
        """Both operators at once, either of whom may die; reviewers decide and an agent submits meanwhile."""
        sender = self.fleet.agents[sent[0]] if sent else None
        self.together(
            *(
                self.fleet.operate(operator, limit=limit, death=death)
                for operator, (limit, death) in enumerate((first, second))
            ),
            *(self.fleet.review(*said, by_resource=resource) for *said, resource in drawn),
            *([self.fleet.send(sender, sent[1] % len(sender.outbox) + 1)] if sender and sender.outbox else []),
        )

    @rule(operator=st.integers(0, 1), taken_over=st.booleans(), back=st.booleans())
    def pause(self, operator, taken_over, back):
        """A worker does nothing for a while. Another may begin where it had begun, and either of them come back."""
        if not self.run(self.fleet.pause(operator)):
            return
        if taken_over:
            self.run(self.fleet.expire())
            self.run(self.fleet.pause(1 - operator))
        if back:
            self.run(self.fleet.come_back(len(self.fleet.paused) - 1 - taken_over))

    @rule(pick=picks)
    def come_back(self, pick):
        if self.fleet.paused:
            self.run(self.fleet.come_back(pick))

    @rule()
    def expire(self):
        self.run(self.fleet.expire())

    # Reviewers, and those who grant.

    @rule(drawn=st.lists(reviews, min_size=1, max_size=4))
    def review(self, drawn):
        for *said, resource in drawn:
            self.run(self.fleet.review(*said, by_resource=resource))

    @rule(who=agents, verb=st.sampled_from(["write", "tombstone", "export"]))
    def revoke(self, who, verb):
        self.fleet.revoke(self.fleet.agents[who], verb)

    @rule()
    def give_back(self):
        self.fleet.give_back()

    @rule(on=st.booleans())
    def pin(self, on):
        self.run(self.fleet.pin(on=on))

    # After each step.

    @invariant()
    def holds(self):
        ledger = self.run(fleet_checks.check(self.fleet, policy=self.policy))
        new = sorted(ledger.rows["events"], key=lambda row: row["sequence"])[self.told :]
        self.told += len(new)
        for event in new:
            # Grants and pins change between steps only: whoever lacks the one, or while there is the other, adds none.
            assert event["key"] is None or not self.fleet.pinned
            assert (event["origin_branch"], "write") not in self.fleet.revoked
            assert event["kind"] != "tombstone" or (event["origin_branch"], "tombstone") not in self.fleet.revoked

    def teardown(self):
        if not self.fleet.agents:
            return
        try:
            if sys.exception() is None:  # else what a step has found is the news
                self.run(self.fleet.settle())
                ledger = self.run(fleet_checks.check(self.fleet, policy=self.policy))
                fleet_checks.check_settled(ledger, self.fleet.agents)
                self.run(self.fleet.world.check_roots(self.fleet.line))
        finally:
            self.run(self.fleet.end())

    def together(self, *works):
        async def all_of_them():
            await asyncio.gather(*works)

        self.run(all_of_them())


@pytest.mark.timeout(TIMEOUT)
def test_no_batch_is_lost_or_published_twice_whatever_happens_to_its_job(database):
    explore(ConsolidationMachine, database.operator, database.operator, examples=8, steps=20)
