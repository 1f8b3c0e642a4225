"""What reviewers write in a job's resource: their decisions on its candidates, and texts that they made of several.

Everybody writes an entry of their own. It counts only for exactly what its reviewer saw, so it names the hash of that.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from anabranch.model import limits
from anabranch.model.crd.base import Hash, Id, Revision, Spec, map_by

REVIEWERS = 64
DECISIONS = 256
MERGES = 16
GROUPS = 32
"""Most entries in `reviews`, and most decisions, on candidates and on groups, and merges of one: bounds that let the
API server estimate what rules cost."""

# Each decision's names, quotes and braces are counted as a flat 160 bytes, each reviewer's as 64; a merge's with its
# hash as 256, each of its inputs as 72.
REVIEW_SIZE = (
    "self.map(r, 64 + size(bytes(r.reviewer)) + r.decisions.map(d, 160 + size(d.candidateId) + size(d.contentHash)"
    " + (has(d.reason) ? size(bytes(d.reason)) : 0)).sum()"
    " + (has(r.merges) ? r.merges.map(m, 256 + 72 * size(m.inputs)).sum() : 0)"
    " + (has(r.groups) ? r.groups.map(g, 160 + size(g.groupId) + size(g.digest)"
    " + (has(g.reason) ? size(bytes(g.reason)) : 0)).sum() : 0)).sum()"
)
"""CEL for about how many bytes all reviews have together."""


class Decision(Spec):
    """What a reviewer decides on one candidate. It counts only for exactly what the reviewer saw."""

    candidate_id: Id
    """Id of the candidate, from `anabranch job show` or the API."""

    content_hash: Hash
    """Hash of the content that you saw."""

    base_revision: Revision
    """Revision of the record that it would replace, as you saw it; "0" where there was none."""

    action: Literal["accept", "reject"]
    """accept: publish it as the key's next revision. reject: it goes no further."""

    reason: Annotated[str, StringConstraints(max_length=512, pattern=limits.TEXT_PATTERN)] | None = None
    """Why, for the log. At most 512 characters."""

    hold: Annotated[int, Field(ge=1, le=2**31 - 1)] | None = None
    """Number of the recall gate's hold, as you saw it with the candidate: needed to accept what the gate holds."""


class MergeClaim(Spec):
    """One text that a reviewer has made of several candidates."""

    content_hash: Hash
    """Hash of the text, which is uploaded through the API: `anabranch job merge` does both."""

    inputs: Annotated[tuple[Id, ...], Field(max_length=limits.MERGE_INPUTS)]
    """Ids of the candidates that it was made of, all for one key."""

    base_revision: Revision
    """Revision of the record of that key, as you saw it; "0" where there was none."""

    with_record: bool | None = None
    """Whether it was made of that record, too: then its sources are among those of the merge."""


class GroupDecision(Spec):
    """What a reviewer decides on all near-identical candidates of a group, exactly as the reviewer saw them."""

    group_id: Id
    """Id of the group, from `anabranch job review` or the API."""

    digest: Hash
    """Digest of the group's members as you saw them; the API tells it with the group."""

    action: Literal["accept", "reject"]
    """accept: publish each as its key's next revision; only where none conflicts and no two are for one key. reject:
    they go no further."""

    reason: Annotated[str, StringConstraints(max_length=512, pattern=limits.TEXT_PATTERN)] | None = None
    """Why, for the log. At most 512 characters."""


class Review(Spec):
    """The decisions of one reviewer."""

    reviewer: Annotated[str, StringConstraints(min_length=1, max_length=512)]
    """Your user name, as `kubectl auth whoami` tells it. Only you can write this entry."""

    decisions: Annotated[tuple[Decision, ...], Field(max_length=DECISIONS, json_schema_extra=map_by("candidateId"))]
    """Your decisions, one a candidate. Removing one before it took effect withdraws it."""

    merges: Annotated[
        tuple[MergeClaim, ...] | None, Field(max_length=MERGES, json_schema_extra=map_by("contentHash"))
    ] = None
    """Texts that you have made of several candidates. Each becomes a candidate, which others than you decide; one that
    is there stays when you remove this, and is rejected like any other."""

    groups: (
        Annotated[tuple[GroupDecision, ...], Field(max_length=GROUPS, json_schema_extra=map_by("groupId"))] | None
    ) = None
    """Your decisions on groups of near-identical candidates, one a group. One on a candidate comes before one on its
    group."""
