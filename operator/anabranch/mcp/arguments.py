"""What the tools of an agent take, and what they give where no route gives the same."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field, JsonValue, StringConstraints, model_validator

from anabranch.mcp.tools import AtBranch
from anabranch.model.crd.base import Token
from anabranch.model.found import SearchMode
from anabranch.model.limits import SEARCH_PAGE_DEFAULT, SEARCH_PAGE_MAX, SEARCH_TEXT, SOURCES_PER_CHANGE, TEXT_PATTERN
from anabranch.model.objects import AgentPresence, KnowledgeCandidate, Publication, PublishedFact, Receipt, SharedEvent
from anabranch.model.runs import Capsule
from anabranch.model.wire import Key, Locator, Revision, Scope, Sequence, Visibility, Wire

FINDINGS: Final = 100
"""Of one call; an agent with more makes several."""

EVENTS: Final = 100
CONFLICTS: Final = 100

Layer = Literal["base", "shared", "private", "merged"]


class Recall(AtBranch):
    """What to look for."""

    query: Annotated[str, StringConstraints(min_length=1, max_length=SEARCH_TEXT, pattern=TEXT_PATTERN)] = Field(
        description="words; a record needs not have all of them"
    )
    mode: SearchMode | None = Field(
        default=None,
        description="words: records that have some of them; hybrid: also those that say much the same in other words, "
        "where the installation can. Unless given, as the installation says; `mode` of the answer is what was done",
    )
    limit: int = Field(default=SEARCH_PAGE_DEFAULT, ge=1, le=SEARCH_PAGE_MAX)
    cursor: str | None = Field(default=None, max_length=2048, description="`next_cursor` of the page before")


class ReadRecord(AtBranch):
    """Which record to read, and of which layer."""

    key: Key
    layer: Layer = Field(
        default="merged",
        description="merged: your private record, else the parent snapshot's; base: the parent snapshot; shared: what "
        "the updates show that you have saved as applied; private: your own overlay",
    )


class WritePrivate(AtBranch):
    """What to keep for yourself."""

    key: Key
    content: JsonValue
    scope: Scope = "shared"
    visibility: Visibility | None = Field(
        default=None, description="shareable: may be submitted later; default: what the branch's sharing policy says"
    )
    if_revision: Revision | None = Field(
        default=None, description='only over the revision that you saw; "0": only if there is none'
    )


class Finding(Wire):
    """One thing that you found."""

    key: Key
    content: JsonValue = Field(default=None, description="any JSON value; leave it out with `delete`")
    delete: bool = Field(default=False, description="propose that the record be deleted")
    scope: Scope = "shared"
    sources: tuple[Locator, ...] = Field(
        default=(),
        max_length=SOURCES_PER_CHANGE,
        description="where it comes from: record:<key>@<revision>, git:<repository>@<commit>:<path>, https:…, "
        "checkpoint:<id>, evidence:sha256:…",
    )
    evidence: Annotated[str, StringConstraints(min_length=1, pattern=TEXT_PATTERN)] | None = Field(
        default=None, description="text that shows it, such as a log: it is uploaded and cited for you"
    )
    base_revision: Revision | None = Field(
        default=None, description='of the record that you worked from; "0": none; default: the parent snapshot\'s'
    )

    @model_validator(mode="after")
    def _has_content_or_deletes(self) -> Finding:
        if self.delete == (self.content is not None):
            raise ValueError("a finding has `content`, or `delete: true`")
        return self


class SubmitFindings(AtBranch):
    """Findings to share, once they are reviewed."""

    findings: tuple[Finding, ...] = Field(min_length=1, max_length=FINDINGS)
    sequence: Sequence | None = Field(
        default=None, description="of the batch; name it when you try again after an error; default: the next one"
    )
    final: bool = Field(default=False, description="these are the last ones of the run")


class Submitted(Wire):
    """What became of the batch so far."""

    acknowledgement: Receipt | Publication = Field(
        description="receipt: durable, and nothing more; publication: its job has ended"
    )


class FollowUpdates(AtBranch):
    """From where on to read what was published."""

    after: str | None = Field(
        default=None, max_length=2048, description="`cursor` of the last answer; default: what you have saved"
    )
    applied: bool = Field(
        default=False, description="you have applied everything before `after`: save it as your branch's place"
    )
    limit: int = Field(default=20, ge=1, le=EVENTS)
    wait: float = Field(default=0.0, ge=0, le=30, description="seconds to wait for a first update")

    @model_validator(mode="after")
    def _names_what_it_has_applied(self) -> FollowUpdates:
        if self.applied and self.after is None:
            raise ValueError("`applied` says that everything before `after` is: give `after`")
        return self


class Update(Wire):
    """Something that was published, and the record that it is about as it is published since then."""

    event: SharedEvent
    fact: PublishedFact | None = Field(
        description="null: the event is about the whole line, or the record is in a scope that you may not read"
    )


class Updates(Wire):
    """What was published, in its order."""

    updates: tuple[Update, ...]
    cursor: str = Field(description="pass it as `after` next time, with `applied` once you have applied these")
    watermark: int = Field(description="sequence of the newest event; those in scopes that are not yours count too")


class ViewConflicts(AtBranch):
    """Whose findings to look at: those of your own branch."""

    limit: int = Field(default=20, ge=1, le=CONFLICTS)
    cursor: str | None = Field(default=None, max_length=4096, description="`next_cursor` of the answer before")


class Conflicts(Wire):
    """Your findings that contradict what is published, and wait for a reviewer."""

    conflicts: tuple[KnowledgeCandidate, ...] = Field(description="each beside the `canonical` record")
    next_cursor: str | None = Field(description="pass it as `cursor` for what follows; null: there is no more")


class CompleteRun(AtBranch):
    """How to close the run."""

    checkpoint_id: Token | None = Field(default=None, description="of the checkpoint that tells how it ended")


class SaveCheckpoint(AtBranch):
    """What you need to go on after your context is gone."""

    checkpoint_id: Token = Field(description="a new one for each checkpoint; the same again is the same checkpoint")
    session_id: Token = Field(default="default", description="checkpoints of one session follow each other")
    capsule: Capsule
    references: tuple[Locator, ...] = Field(
        default=(), max_length=SOURCES_PER_CHANGE, description="source locators of what the capsule speaks of"
    )
    expected_latest: Token | Literal[""] | None = Field(
        default=None, description='id of the session\'s latest so far; "": it has none; default: whatever it is'
    )


class Restore(AtBranch):
    """Which checkpoint to go on from."""

    checkpoint_id: Token | None = Field(default=None, description="default: the session's latest")
    session_id: Token = "default"


class ListPeers(AtBranch):
    """Whose peers to list: those that work on the Baseline of this branch."""


class Peers(Wire):
    """Who else works on the Baseline."""

    peers: tuple[AgentPresence, ...]
