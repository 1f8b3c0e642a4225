"""What the reviewers' decisions amount to.

A decision binds to what its reviewer saw: the candidate's content and the revision of the record that it would
replace. If either has changed since, the decision counts for nothing, however many there are: nobody has approved
*this*.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, Literal, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from anabranch.domain.policy import ReviewPolicy


class Decision(Protocol):
    """What the tally needs of one reviewer's decision."""

    @property
    def reviewer(self) -> str:
        """Username, as the API server or the identity provider gave it."""

    @property
    def content_hash(self) -> bytes:
        """Of the content that the reviewer saw, 32 bytes."""

    @property
    def base_revision(self) -> int:
        """The canonical revision that the reviewer saw; 0 for none."""

    @property
    def action(self) -> str:
        """``accept``, ``reject`` or ``withdraw``."""


class Keyed(Protocol):
    """A candidate, as far as settling a job needs it."""

    @property
    def key(self) -> str:
        """The record's key."""


K = TypeVar("K", bound=Keyed)


@dataclass(frozen=True, slots=True)
class Verdict:
    """Where a candidate stands after review.

    Attributes:
        outcome: ``accept``, ``reject``, or ``open``.
        detail: Why, for people: who decided, or what is missing.
    """

    outcome: Literal["accept", "reject", "open"]
    detail: str


def tally(
    policy: ReviewPolicy,
    decisions: Iterable[Decision],
    *,
    content_hash: bytes,
    canonical_revision: int,
    authors: Collection[str],
) -> Verdict:
    """Count the decisions on one candidate.

    One rejection rejects; an acceptance needs ``policy.min_reviewers`` distinct reviewers.

    Args:
        policy: The Baseline's.
        decisions: The latest of each reviewer on this candidate.
        content_hash: The candidate's, 32 bytes.
        canonical_revision: Of the record that it would replace now; 0 for none.
        authors: Who wrote it. Their decisions do not count while ``policy.forbid_self_review``.
    """
    accepting: set[str] = set()
    ignored: Counter[str] = Counter()
    for decision in decisions:
        if decision.action == "withdraw":
            continue
        if decision.content_hash != content_hash:
            ignored["on other content"] += 1
        elif decision.base_revision != canonical_revision:
            ignored["against another revision"] += 1
        elif policy.forbid_self_review and decision.reviewer in authors:
            ignored["by its author"] += 1
        elif decision.action == "reject":
            return Verdict("reject", f"rejected by {decision.reviewer}")
        else:
            accepting.add(decision.reviewer)
    if len(accepting) >= policy.min_reviewers:
        return Verdict("accept", f"accepted by {', '.join(sorted(accepting))}")
    detail = f"{len(accepting)} of {policy.min_reviewers} acceptances"
    if ignored:
        detail += f"; not counted: {', '.join(f'{count} {why}' for why, count in sorted(ignored.items()))}"
    return Verdict("open", detail)


@dataclass(frozen=True, slots=True)
class Settlement(Generic[K]):
    """A job's candidates after review.

    Attributes:
        accepted: To be published; no two for one key.
        rejected: Refused by a reviewer.
        siblings: Undecided, while another candidate for the same key was accepted: they stay open, but against the
            revision which that acceptance will make.
        open: Undecided, or accepted together with another for the same key, which nobody can have meant.
        clashing: The keys for which more than one was accepted.
    """

    accepted: tuple[K, ...]
    rejected: tuple[K, ...]
    siblings: tuple[K, ...]
    open: tuple[K, ...]
    clashing: frozenset[str]


def settle(candidates: Sequence[K], verdicts: Sequence[Verdict]) -> Settlement[K]:
    """Sort a job's candidates by their verdicts, given in the same order."""
    pairs = list(zip(candidates, verdicts, strict=True))
    accepted = Counter(candidate.key for candidate, verdict in pairs if verdict.outcome == "accept")
    clashing = frozenset(key for key, count in accepted.items() if count > 1)
    sorted_out: dict[str, list[K]] = {"accept": [], "reject": [], "sibling": [], "open": []}
    for candidate, verdict in pairs:
        outcome: str = verdict.outcome
        if candidate.key in clashing and outcome == "accept":
            outcome = "open"
        elif outcome == "open" and candidate.key in accepted and candidate.key not in clashing:
            outcome = "sibling"
        sorted_out[outcome].append(candidate)
    return Settlement(
        accepted=tuple(sorted_out["accept"]),
        rejected=tuple(sorted_out["reject"]),
        siblings=tuple(sorted_out["sibling"]),
        open=tuple(sorted_out["open"]),
        clashing=clashing,
    )
