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
from tests.store.fleet import Death, Fleet
from tests.store.fleet_reviewers import REVIEWERS
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
sound_puts = puts.map(lambda put: put | {"visibility": "shareable"}).filter(lambda put: "sources" not in put)
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
            self.find(who, found, None)

    # Agents.

    @rule(who=agents, drawn=batches, lost=st.none() | st.integers(0, 2))
    def find(self, who, drawn, lost):
        """Compose batches, and send them the wrong way round; one of them may get lost."""
        self.keep(who, drawn)
        agent = self.fleet.agents[who]
        for number in range(len(drawn)):
            if number != lost:
                self.run(agent.send(len(agent.outbox) - number))

    @rule(who=agents, drawn=batches)
    def keep(self, who, drawn):
        """Compose batches, and send them later."""
        for changes, final in drawn:
            self.run(self.fleet.agents[who].compose(changes, final=final))

    @rule(drawn=st.lists(st.tuples(agents, picks), min_size=1, max_size=6))
    def send(self, drawn):
        """Several batches on their way at once, in any order, some of them twice."""
        sending = [(self.fleet.agents[who], pick) for who, pick in drawn if self.fleet.agents[who].outbox]
        self.together(*(agent.send(pick % len(agent.outbox) + 1) for agent, pick in sending))

    @rule(who=agents, pick=picks)
    def forge(self, who, pick):
        agent = self.fleet.agents[who]
        if agent.receipts:
            self.run(agent.forge(sorted(agent.receipts)[pick % len(agent.receipts)]))
        self.run(agent.tear())

    @rule(who=agents, drawn=st.just([]) | batches)
    def complete(self, who, drawn):
        """The end of a run may overtake its last batches."""
        self.keep(who, drawn)
        self.run(self.fleet.agents[who].complete())

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
            *(self.fleet.reviewers.review(*said, by_resource=resource) for *said, resource in drawn),
            *([sender.send(sent[1] % len(sender.outbox) + 1)] if sender and sender.outbox else []),
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
            self.run(self.fleet.reviewers.review(*said, by_resource=resource))

    @rule(who=agents, verb=st.sampled_from(["write", "tombstone", "export"]))
    def revoke(self, who, verb):
        self.fleet.revoke(self.fleet.agents[who], verb)

    @rule()
    def give_back(self):
        self.fleet.give_back()

    @rule(on=st.booleans())
    def pin(self, on):
        self.run(self.fleet.pin(on=on))

    # What happens at the worst moment: these rules go there in one step, since many drawn steps seldom do.

    @rule(
        who=st.permutations([0, 1, 2]),
        finding=sound_puts,
        drawn=batches,
        decided=st.booleans(),
        operator=st.integers(0, 1),
        obstacle=st.sampled_from(["pin", "write", "write", "tombstone", "export"]),
    )
    def get_in_the_way(self, who, finding, drawn, decided, operator, obstacle):
        """Findings are in, or even accepted, and claimed by a worker: then the line is pinned, or a grant is gone."""
        for agent in self.busy(who)[:1]:
            self.run(self.fleet.clear_the_way())
            for changes in ([finding | {"knows_newest": True}], *(changes for changes, _ in drawn)):
                self.run(agent.compose(changes))
            self.run(agent.catch_up())
            if decided or self.policy["mode"] == "Manual":
                self.run(self.fleet.work_off())
                self.run(self.fleet.reviewers.decide_on_all())
            self.holds()
            claimed = self.run(self.fleet.pause(operator, limit=5))
            if obstacle == "pin":
                self.run(self.fleet.pin(on=True))
            else:
                self.fleet.revoke(agent, obstacle)
            for number in range(claimed):
                self.run(self.fleet.come_back(len(self.fleet.paused) - claimed + number))

    @rule(
        who=st.permutations([0, 1, 2]),
        key=st.permutations(["a", "b", "c", "d"]),
        ops=st.tuples(sound_puts | deletions, sound_puts | deletions, sound_puts),
        resource=st.booleans(),
    )
    def move_on(self, who, key, ops, resource):
        """One of a job's two findings is accepted; its record moves on; then everything else is decided too."""
        if len(self.busy(who)) < 2:
            return
        one, two, *_ = self.busy(who)
        first, second, other = ops
        self.run(self.fleet.settle())
        self.hand_in(one, first | {"key": key[0]}, second | {"key": key[1]})
        self.accept(one, key[0], by_resource=resource)
        self.hand_in(two, other | {"key": key[0], "knows_newest": True})
        self.accept(two, key[0], by_resource=resource)
        self.accept(one, key[1], by_resource=resource)

    def busy(self, who):
        """Those agents whose runs are not over."""
        return [self.fleet.agents[number] for number in who if self.fleet.agents[number].completion is None]

    def hand_in(self, agent, *drawn):
        self.run(agent.compose(list(drawn)))
        self.run(agent.catch_up())
        self.run(self.fleet.work_off())

    def accept(self, agent, key, *, by_resource):
        self.run(self.fleet.reviewers.accept(agent.branch.branch_id, key, by_resource=by_resource))
        self.run(self.fleet.work_off())

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
