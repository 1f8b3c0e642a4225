"""Whether a finding still fits the record that it would change.

An agent works from a snapshot, so what it proposes may rest on a record that has moved on. The base revision tells:
if it is no longer the record's revision, the agent did not know what it would overwrite, and a person decides with
both sides in view. One case is none: a finding that says what the record says already disagrees with nobody.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, Protocol


class Finding(Protocol):
    """What the comparison needs of a candidate."""

    @property
    def op(self) -> str:
        """``put`` or ``tombstone``."""

    @property
    def scope(self) -> str:
        """Where it would be visible."""

    @property
    def content_hash(self) -> bytes:
        """SHA-256 of the canonical content, 32 bytes."""

    @property
    def base_revision(self) -> int:
        """The revision of the key that its author knew; 0 for none."""


class Canonical(Protocol):
    """What the comparison needs of the record at the head of the line."""

    @property
    def revision(self) -> int:
        """The line's revision that wrote it."""

    @property
    def scope(self) -> str:
        """Where it is visible."""

    @property
    def content_hash(self) -> bytes:
        """SHA-256 of the canonical content, 32 bytes."""

    @property
    def tombstone(self) -> bool:
        """Whether that revision deleted the key."""


@dataclass(frozen=True, slots=True)
class Assessment:
    """How a finding stands to the canonical record.

    Attributes:
        kind: ``clean``: it may replace the record. ``same``: it says what the record says. ``conflict``: its author did
            not know this record.
        reason: CamelCase, with a conflict; empty otherwise.
        detail: The same for people.
    """

    kind: Literal["clean", "same", "conflict"]
    reason: str = ""
    detail: str = ""


CLEAN: Final = Assessment("clean")
SAME: Final = Assessment("same")


def assess(finding: Finding, canonical: Canonical | None) -> Assessment:  # noqa: PLR0911  (a case a line)
    """Compare a finding with the record of its key at the head.

    A deleted key is not an absent one: somebody decided to delete it, so a finding that does not name the deletion's
    revision as its base is a conflict. Otherwise an agent that forked before the deletion would undo it unseen.

    Args:
        finding: The candidate.
        canonical: The newest version of the key, which may be a tombstone; None if the line never had it.
    """
    if canonical is None:
        if finding.op == "tombstone":
            return SAME
        if finding.base_revision == 0:
            return CLEAN
        return Assessment("conflict", "BaseRevisionUnknown", f"no revision {finding.base_revision} of the key is there")
    if finding.op == "tombstone" and canonical.tombstone:
        return SAME
    if finding.op == "put" and not canonical.tombstone and _equal(finding, canonical):
        return SAME
    if finding.base_revision == canonical.revision:
        return CLEAN
    seen = f"revision {finding.base_revision}" if finding.base_revision else "no record"
    if canonical.tombstone:
        return Assessment(
            "conflict", "KeyDeleted", f"it builds on {seen}; revision {canonical.revision} deleted the key"
        )
    reason = "BaseRevisionSuperseded" if finding.base_revision else "KeyExists"
    return Assessment("conflict", reason, f"it builds on {seen}; the record is at revision {canonical.revision}")


def _equal(finding: Finding, canonical: Canonical) -> bool:
    return finding.content_hash == canonical.content_hash and finding.scope == canonical.scope
