"""The judge: every rule over a history and the ledger that it ended with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tests.chaos import rules_feed, rules_publication, rules_reading, rules_receipts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.chaos.history import History
    from tests.chaos.ledger import Ledger

    Rule = Callable[[History, Ledger], Iterator[str]]

RULES: Final[tuple[Rule, ...]] = (
    rules_receipts.every_acknowledged_batch_is_kept,
    rules_receipts.one_batch_has_a_number,
    rules_receipts.nothing_that_was_refused_is_kept,
    rules_receipts.every_batch_has_one_fate,
    rules_receipts.no_outcome_is_taken_back,
    rules_receipts.nothing_comes_after_a_completion,
    rules_publication.nothing_is_published_twice,
    rules_publication.every_generation_follows_from_the_one_before,
    rules_publication.every_root_recomputes,
    rules_publication.nothing_is_overwritten_unseen,
    rules_publication.nothing_is_published_without_its_review,
    rules_publication.every_decision_is_kept,
    rules_publication.every_job_goes_a_legal_path,
    rules_publication.the_head_is_the_newest,
    rules_feed.the_feed_has_no_gap,
    rules_feed.the_feed_agrees_with_the_manifests,
    rules_feed.followers_are_told_what_is_in_the_feed,
    rules_feed.followers_skip_nothing,
    rules_feed.followers_converge,
    rules_feed.agents_are_told_of_each_outcome_once,
    rules_feed.statuses_tell_what_is,
    rules_reading.no_generation_ever_changes,
    rules_reading.nobody_sees_what_is_private,
    rules_reading.no_scope_is_seen_without_its_grant,
    rules_reading.own_writes_are_read,
    rules_reading.nothing_breaks_inside,
    rules_reading.everything_comes_to_rest,
)

SHOWN: Final = 5
"""Violations of a rule that are told; a defect breaks a rule once, or everywhere."""


def judge(history: History, ledger: Ledger) -> dict[str, list[str]]:
    """What is wrong, by rule; nothing, if nothing is."""
    found = {rule.__name__: list(rule(history, ledger)) for rule in RULES}
    return {name: wrong for name, wrong in found.items() if wrong}


def verdict(found: dict[str, list[str]]) -> str:
    """The same for people."""
    lines = []
    for name, wrong in found.items():
        lines += [f"{name}: {len(wrong)}", *(f"  - {each}" for each in wrong[:SHOWN])]
    return "\n".join(lines) or "nothing is wrong"
