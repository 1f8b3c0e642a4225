"""The registry: which kinds of locator a finding may cite, and who looks them up.

``import:`` is absent on purpose: only an import makes such locators, and it has the digest in hand when it does.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from anabranch.consolidation.sources.git import GitResolver
from anabranch.consolidation.sources.https import HttpsResolver
from anabranch.consolidation.sources.stored import CheckpointResolver, EvidenceResolver, RecordResolver

if TYPE_CHECKING:
    from collections.abc import Mapping

    from anabranch.consolidation.sources.check import Resolver
    from anabranch.consolidation.sources.config import SourcesConfig
    from anabranch.identity import Grants
    from anabranch.model.locators import Kind
    from anabranch.store.database import Database


def resolvers(db: Database, grants: Grants, config: SourcesConfig) -> Mapping[Kind, Resolver]:
    """A resolver for each kind of locator that a finding may cite."""
    folder = Path(config.cache_folder) if config.cache_folder else None
    return {
        "evidence": EvidenceResolver(db),
        "checkpoint": CheckpointResolver(db),
        "record": RecordResolver(db, grants),
        "git": GitResolver(config.git_repositories, folder=folder),
        "https": HttpsResolver(config.http_sources),
    }
