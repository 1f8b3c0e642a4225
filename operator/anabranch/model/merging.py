"""What travels of merges: texts that a reviewer, or a model, has made of several candidates."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field, JsonValue, StringConstraints

from anabranch.model import limits
from anabranch.model.answers import Page
from anabranch.model.wire import Hash, Key, Revision, Wire

CandidateId = Annotated[str, StringConstraints(max_length=63, pattern=r"^cand(_[0-9a-z]{26}){2}$")]


class MergeRequest(Wire):
    """One text made of several candidates for one key, or of one and the record that it would replace."""

    content: JsonValue
    inputs: tuple[CandidateId, ...] = Field(
        min_length=1, max_length=limits.MERGE_INPUTS, description="the candidates that it was made of"
    )
    base_revision: Revision = Field(description='of the record of the key, as seen; "0" where there is none')
    with_record: bool = Field(default=False, description="whether it was made of that record, too")


class DraftRequest(Wire):
    """A text to keep for a job."""

    content: JsonValue


class Draft(Wire):
    """A text that is kept for a job, for a merge to name it by its hash. By itself it does nothing."""

    content_hash: Hash


class Merge(Wire):
    """A merge that was proposed, and what became of it."""

    candidate_id: str = Field(description="of the candidate that is made of it, which reviewers decide")
    job_id: str
    origin: Literal["merge", "summary"]
    author: str
    model: str | None = Field(description="that wrote it; null: a person did")
    key: Key
    content_hash: Hash
    inputs: tuple[str, ...] = Field(description="the candidates that it was made of, by id")
    base_revision: Revision
    with_record: bool
    state: Literal["requested", "made", "void"] = Field(
        description="requested: the operator is about to make the candidate, or waits for its text. made: list the "
        "job's candidates. void: none could be made, `detail` tells why"
    )
    detail: str
    proposed_at: datetime


class MergePage(Page[Merge]):
    """Merges of a job, the oldest first."""
