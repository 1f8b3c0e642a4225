"""Whether a finding's sources exist, and for whom.

A fact is worth what its sources are worth, so a locator is not believed but looked up: each kind has a resolver, and
a locator resolves only to what the agent that cites it may read. Every refusal reads the same whether the thing is
absent or hidden, so that nobody learns by citing. Looking up is slow and may fail for a while, so it happens outside
any transaction, and "could not ask" is told apart from "is not there".
"""

from anabranch.consolidation.sources.check import Citation, Found, Resolver, SourceChecker, UnreachableSourceError
from anabranch.consolidation.sources.config import GitRepository, HttpSource, SourcesConfig
from anabranch.consolidation.sources.resolvers import resolvers

__all__ = [
    "Citation",
    "Found",
    "GitRepository",
    "HttpSource",
    "Resolver",
    "SourceChecker",
    "SourcesConfig",
    "UnreachableSourceError",
    "resolvers",
]
