"""What the work on a job needs beside the job: handed in, so that tests hand in others."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

from anabranch.consolidation.gathering import Gathering
from anabranch.consolidation.sources import SourceChecker, SourcesConfig, resolvers

if TYPE_CHECKING:
    from anabranch.identity import Grants
    from anabranch.store.database import Database


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """The parts that the steps of a job call.

    Attributes:
        db: The store, as the operator.
        grants: Answers what an agent may do now.
        sources: Looks source locators up.
        gathering: Where jobs of one line that are ready meet, to be published together.
    """

    db: Database
    grants: Grants
    sources: SourceChecker
    gathering: Gathering = field(default_factory=Gathering)

    @classmethod
    def of(cls, db: Database, grants: Grants, config: SourcesConfig | None = None) -> Self:
        """The parts as the operator's configuration makes them."""
        return cls(db=db, grants=grants, sources=SourceChecker(resolvers(db, grants, config or SourcesConfig())))
