"""A recall task: a question to a memory, and the records that answer it.

A set of them is JSON Lines, a task a line, written by whoever knows what the memory is for. The same set asked of two
generations tells whether the memory got better; how that is counted stands in `anabranch.domain.recall`.
"""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, StringConstraints, model_validator

from anabranch.model.limits import RECALL_KEYS, SEARCH_TEXT, TEXT_PATTERN
from anabranch.model.wire import Key, Wire

_Label = Annotated[str, StringConstraints(min_length=1, max_length=128, pattern=r"^[A-Za-z0-9][-._/A-Za-z0-9]*$")]
_Text = Annotated[str, StringConstraints(min_length=1, max_length=SEARCH_TEXT, pattern=TEXT_PATTERN)]


class RecallTask(Wire):
    """One question, and what a good answer is.

    With neither ``answers`` nor ``absent`` it is an abstention: nobody is to know, and recall does not count it.
    """

    id: _Label = Field(description="names the task in its set, and wherever it fails")
    kind: _Label = Field("fact", description="what it tries; results are told by kind, too")
    query: _Text = Field(description="what is searched for")
    answers: tuple[Key, ...] = Field((), max_length=RECALL_KEYS, description="keys of the records that answer it")
    says: _Text | None = Field(
        None, description="what an answering record must say, without regard to case; else it is out of date"
    )
    absent: tuple[Key, ...] = Field(
        (), max_length=RECALL_KEYS, description="keys that must not be among the first k: deleted, or misleading"
    )

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.says is not None and not self.answers:
            raise ValueError("`says` is about an answer, and there is none in `answers`")
        if both := set(self.answers) & set(self.absent):
            raise ValueError(f"the key {min(both)} is both in `answers` and in `absent`")
        return self

    @property
    def counts(self) -> bool:
        """Whether recall counts it."""
        return bool(self.answers or self.absent)
