"""What a search answers with: hits, with where each comes from and how it was found."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import Field

from anabranch.model.answers import KNOWLEDGE_STATE, Page
from anabranch.model.objects import (
    KnowledgeState,
    ManifestRef,
)
from anabranch.model.wire import Hash, Key, Revision, Scope, Visibility, Wire

SearchMode = Literal["words", "hybrid"]
"""How to search: by words, or by words and meaning."""

WordsAlone = Literal["asked", "off", "unavailable"]
"""Why a search was by words alone."""

FoundBy = Literal["words", "meaning"]
"""Which way a record was found."""


class Snippet(Wire):
    """A piece of what a record says, as plain text: whoever shows it escapes it as any text of others."""

    text: str
    matches: tuple[tuple[int, int], ...] = Field(
        description="where words of the search stand in `text`: begin and end in code points, in their order"
    )


class SearchHit(Wire):
    """A record that a search found, with where it comes from; its content is read by its key."""

    score: float = Field(
        description="BM25, or, of a hybrid search, from 0 to 1: half of it for the words, half for the meaning. "
        "Compares the hits of one search, and nothing else"
    )
    layer: Literal["base", "shared", "private"] = Field(
        description="base: published, reviewed or accepted by policy; shared: likewise, taken over after the fork; "
        "private: what the branch's agent noted for itself"
    )
    key: Key
    revision: Revision = Field(description="of that layer")
    scope: Scope
    visibility: Visibility
    content_hash: Hash
    snippet: Snippet
    source_locators: tuple[str, ...] = Field(description="where the content comes from; a private record has none yet")
    origin_runs: tuple[str, ...] = Field(description="runs that found it")
    validated_at: datetime | None = Field(description="when it was accepted; null: imported, or private")
    state: KnowledgeState = Field(default="reviewed", description=KNOWLEDGE_STATE)
    retracted_sources: tuple[str, ...] = Field(default=(), description="those of its sources that were withdrawn")
    found_by: tuple[FoundBy, ...] = Field(
        default=("words",),
        description="words: it has some of them; meaning: it says something much alike",
    )


class SearchPage(Page[SearchHit]):
    """What a search found, the best first."""

    manifest: ManifestRef = Field(description="what was searched; all pages are of it")
    indexed_through: int = Field(
        description="all versions up to this generation are in the index, which the operator makes after the fact"
    )
    complete: bool = Field(
        description="whether everything was looked at. Not while a large import, or a database from an older release, "
        "is being indexed, or where an overlay is too large"
    )
    mode: SearchMode = Field(default="words", description="how it was searched: by words, or by words and meaning")
    words_alone: WordsAlone | None = Field(
        default="asked",
        description="why it was by words alone: asked for; off: this installation has no embedder; unavailable: the "
        "embedder does not answer. Null: it was not",
    )
    without_vector: int = Field(
        default=0,
        description="versions and private records that a hybrid search looked at for their words alone, since they "
        "have no vector yet",
    )
