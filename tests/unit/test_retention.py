"""The rules of retention: each number is a promise to keep, and what no promise covers goes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.domain.retention import RetentionPolicy, Standing, droppable, kept_because, oldest_counted
from anabranch.model.crd import BaselineSpec

NOW = datetime(2025, 6, 1, tzinfo=UTC)
DAY = timedelta(days=1)


@dataclass(frozen=True)
class Places:
    head_generation: int
    current_generation: int
    previous_generation: int
    pinned_generation: int | None = None


@st.composite
def lines(draw):
    """A line of which some generations are gone: its places, and those that are there, in order."""
    head = draw(st.integers(1, 40))
    somewhere = st.integers(1, head)
    pinned = draw(st.none() | somewhere)
    places = Places(head, pinned or head, draw(st.integers(0, head)), pinned)
    ages = sorted(draw(st.lists(st.integers(0, 100), min_size=head, max_size=head)), reverse=True)
    # A generation was replaced when the next one was made.
    standings = [Standing(number, NOW - timedelta(days=age)) for number, age in enumerate(ages[1:], start=1)]
    standings = [standing for standing in standings if draw(st.booleans())]
    return places, [*standings, Standing(head, None)]


policies = st.builds(
    RetentionPolicy, generations=st.integers(1, 45), age=st.integers(0, 101).map(lambda days: timedelta(days=days))
)


@given(lines(), policies)
def test_what_is_dropped_is_neither_new_nor_young_nor_anybodys_place(line, policy):
    places, standings = line
    dropped = droppable(standings, places=places, policy=policy, now=NOW)
    for standing in standings:
        promised = (
            standing.generation > places.head_generation - policy.generations
            or (standing.replaced_at is not None and NOW - standing.replaced_at < policy.age)
            or standing.generation
            in {
                places.head_generation,
                places.current_generation,
                places.previous_generation,
                places.pinned_generation,
            }
        )
        assert (standing.generation in dropped) is not promised


@given(lines(), policies)
def test_nothing_is_dropped_without_a_reason_and_nothing_kept_without_one(line, policy):
    places, standings = line
    dropped = droppable(standings, places=places, policy=policy, now=NOW)
    reasons = [kept_because(standing, places=places, policy=policy, now=NOW) for standing in standings]
    assert dropped == [s.generation for s, reason in zip(standings, reasons, strict=True) if reason is None]
    assert reasons[-1] in {"head", "current", "previous", "pinned"}


@given(lines(), policies, st.integers(0, 5), st.integers(0, 5))
def test_a_larger_promise_never_drops_more(line, policy, more, days):
    places, standings = line
    larger = replace(policy, generations=policy.generations + more, age=policy.age + timedelta(days=days))
    dropped = droppable(standings, places=places, policy=larger, now=NOW)
    assert set(dropped) <= set(droppable(standings, places=places, policy=policy, now=NOW))


@given(lines(), policies, st.integers(0, 50))
def test_what_is_dropped_stays_dropped_as_time_passes(line, policy, days):
    places, standings = line
    dropped = droppable(standings, places=places, policy=policy, now=NOW)
    assert set(dropped) <= set(droppable(standings, places=places, policy=policy, now=NOW + timedelta(days=days)))


@given(lines(), policies)
def test_only_what_is_older_than_the_counted_ones_has_to_be_looked_at(line, policy):
    places, standings = line
    below = oldest_counted(places, policy)
    assert all(number < below for number in droppable(standings, places=places, policy=policy, now=NOW))


def test_the_promises_are_kept_apart():
    places = Places(head_generation=100, current_generation=100, previous_generation=60, pinned_generation=7)
    policy = RetentionPolicy(generations=10, age=30 * DAY)

    def reason(generation, replaced_at=NOW - 31 * DAY):
        return kept_because(Standing(generation, replaced_at), places=places, policy=policy, now=NOW)

    assert reason(7) == "pinned"
    assert reason(60) == "previous"
    assert reason(100) == "head"
    assert reason(91) == "newest"
    assert reason(90) is None
    assert reason(90, NOW - 29 * DAY) == "age"
    assert reason(90, NOW - 30 * DAY) is None
    assert reason(90, replaced_at=None) is None  # longer ago than anybody remembers


def test_a_line_is_looked_at_often_enough_for_its_shortest_promise_and_not_all_the_time():
    assert RetentionPolicy().pause == timedelta(minutes=10)
    assert RetentionPolicy(age=timedelta(minutes=5)).pause == timedelta(seconds=30)
    assert RetentionPolicy(events=timedelta(seconds=1)).pause == timedelta(seconds=5)


def test_tombstones_wait_a_little_so_that_many_go_together():
    policy = RetentionPolicy(tombstones=90 * DAY)
    assert policy.overdue == 99 * DAY


def test_a_job_is_kept_as_long_as_its_run_or_its_log_whichever_is_longer():
    assert RetentionPolicy(transitions=90 * DAY, completed_runs=30 * DAY).jobs == 90 * DAY
    assert RetentionPolicy(transitions=DAY, completed_runs=30 * DAY).jobs == 30 * DAY


def test_names_are_remembered_for_as_long_as_anything_is_kept():
    assert RetentionPolicy(tombstones=400 * DAY).memory == 400 * DAY
    assert RetentionPolicy(age=500 * DAY).memory == 500 * DAY
    assert RetentionPolicy(age=DAY, events=DAY, completed_runs=DAY, tombstones=DAY, transitions=DAY).memory == 90 * DAY


def test_a_policy_is_read_as_the_resource_writes_it_and_the_defaults_are_those_of_the_resource():
    spec = BaselineSpec().retention
    assert RetentionPolicy.parse(spec.model_dump(mode="json", by_alias=True)) == RetentionPolicy()
    written = {
        "generations": 3,
        "age": "90s",
        "events": "1h",
        "completedRuns": "2d",
        "tombstones": "3d",
        "transitions": "4d",
        "replica": {"maxAge": "1d", "onRevoke": "Keep"},
    }
    assert BaselineSpec(retention=written).retention.model_dump(mode="json", by_alias=True) == written
    assert RetentionPolicy.parse(written) == RetentionPolicy(
        generations=3,
        age=timedelta(seconds=90),
        events=timedelta(hours=1),
        completed_runs=2 * DAY,
        tombstones=3 * DAY,
        transitions=4 * DAY,
    )


def test_a_policy_of_another_release_has_defaults_for_what_it_leaves_out():
    assert RetentionPolicy.parse({}) == RetentionPolicy()
    assert RetentionPolicy.parse({"age": "12h"}) == RetentionPolicy(age=timedelta(hours=12))


def test_a_period_of_thousands_of_years_does_not_leave_the_calendar():
    assert NOW - RetentionPolicy.parse({"age": "999999d"}).age > datetime(1900, 1, 1, tzinfo=UTC)


def test_a_period_in_another_form_is_refused():
    with pytest.raises(ValueError, match="a whole number and a unit"):
        RetentionPolicy.parse({"age": "P30D"})
