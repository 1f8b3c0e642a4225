"""A model that does not answer is left alone, and tried again."""

from __future__ import annotations

from anabranch.proposals.breaker import FAILURES, FIRST_SECONDS, LONGEST_SECONDS, Breaker


def after(failures, *, now=0.0):
    breaker = Breaker()
    for _ in range(failures):
        breaker.failed(now)
    return breaker


def test_a_failure_or_two_in_a_row_change_nothing():
    breaker = after(FAILURES - 1)
    assert breaker.closed(0.0)
    assert breaker.slots(2) == 2


def test_after_three_in_a_row_it_is_left_alone_and_then_asked_once():
    breaker = after(FAILURES)
    assert not breaker.closed(FIRST_SECONDS - 0.1)
    assert breaker.closed(FIRST_SECONDS)
    assert breaker.slots(2) == 1


def test_the_longer_it_fails_the_longer_it_is_left_alone_up_to_a_limit():
    breaker = after(FAILURES + 1)
    assert not breaker.closed(2 * FIRST_SECONDS - 0.1)
    assert after(FAILURES + 40).closed(LONGEST_SECONDS)


def test_an_answer_makes_it_as_before():
    breaker = after(FAILURES)
    breaker.succeeded()
    breaker.failed(FIRST_SECONDS)
    assert breaker.closed(FIRST_SECONDS)
    assert breaker.slots(2) == 2


def test_an_endpoint_that_asks_for_a_pause_gets_it_from_the_first_time_on_within_reason():
    breaker = Breaker()
    breaker.failed(0.0, pause=20.0)
    assert not breaker.closed(19.9)
    assert breaker.closed(20.0)
    breaker.failed(20.0, pause=1e9)
    assert breaker.closed(20.0 + LONGEST_SECONDS)
