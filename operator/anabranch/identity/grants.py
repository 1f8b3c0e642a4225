"""The table of grants: everything that can be allowed, as a verb on a resource of the cluster's own RBAC.

One row, one constant. Routes and services name a row and never spell a verb, so the OpenAPI document, the roles and
the documentation can all be read off this table. A resource with a slash is a subresource that exists in RBAC alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Grant:
    """A row of the table.

    Attributes:
        what: What it allows, in words.
        resource: Plural name in the group ``anabranch.dev``, with its subresource.
        verb: Of RBAC.
        named: What the object's name is in the question: the Baseline's, the scope's, …; empty: it has none.
        seen_by: Whoever lacks this grant learns that it is missing only if they hold that one; to everybody else the
            object is absent. None: there is nothing to hide.
    """

    what: str
    resource: str
    verb: str
    named: str = ""
    seen_by: Grant | None = None


SEE_BASELINE: Final = Grant("see a baseline, its manifests, history, quality", "baselines", "get", "baseline")
READ_RECORDS: Final = Grant(
    "read, page, diff, search, prove records", "baselines/records", "get", "baseline", seen_by=SEE_BASELINE
)
EXPORT: Final = Grant("export a baseline", "baselines/export", "get", "baseline", seen_by=SEE_BASELINE)
FOLLOW_EVENTS: Final = Grant(
    "follow events, watermark, peers", "baselines/events", "watch", "baseline", seen_by=SEE_BASELINE
)
UPLOAD_ARCHIVE: Final = Grant("upload an archive", "baselines/archives", "create", "baseline", seen_by=SEE_BASELINE)
FORK: Final = Grant(
    "fork a baseline (the agent's identity)", "baselines/fork", "create", "baseline", seen_by=SEE_BASELINE
)
CREATE_BRANCH: Final = Grant("create a branch", "branches", "create")
SEE_BRANCH: Final = Grant("see branches as resources", "branches", "get", "branch")
DELEGATE: Final = Grant("create a branch for another ServiceAccount", "agents", "delegate", "ServiceAccount")
USE_AGENT_ID: Final = Grant("use an agent id that is not one's ServiceAccount's name", "agents", "use", "agent id")
OWN_BRANCH: Final = Grant(
    "own branch: private records, view, evidence, checkpoints, cursor, presence, batches, completion",
    "branches/data",
    "update",
    "branch",
)
OWN_MEMORY: Final = Grant("own agent memory and events", "agents/memory", "update", "agent id")
POST_EXCHANGES: Final = Grant("post exchanges (chat platform)", "exchanges", "create")
SEE_CANDIDATES: Final = Grant("see candidates, transitions", "consolidationjobs/review", "get", "job")
DECIDE: Final = Grant("decide", "consolidationjobs/review", "update", "job", seen_by=SEE_CANDIDATES)
PROPOSE_RETRACTION: Final = Grant(
    "propose a retraction", "baselines/retractions", "create", "baseline", seen_by=SEE_BASELINE
)
SCOPE_READ: Final = Grant("read records of a scope", "scopes", "read", "scope")
SCOPE_WRITE: Final = Grant("submit findings in a scope", "scopes", "write", "scope")
SCOPE_EXPORT: Final = Grant("export records, and submit private findings, of a scope", "scopes", "export", "scope")
SCOPE_TOMBSTONE: Final = Grant("propose deletions in a scope", "scopes", "tombstone", "scope")

TABLE: Final = (
    SEE_BASELINE,
    READ_RECORDS,
    EXPORT,
    FOLLOW_EVENTS,
    UPLOAD_ARCHIVE,
    FORK,
    CREATE_BRANCH,
    SEE_BRANCH,
    DELEGATE,
    USE_AGENT_ID,
    OWN_BRANCH,
    OWN_MEMORY,
    POST_EXCHANGES,
    SEE_CANDIDATES,
    DECIDE,
    PROPOSE_RETRACTION,
    SCOPE_READ,
    SCOPE_WRITE,
    SCOPE_EXPORT,
    SCOPE_TOMBSTONE,
)
"""Every grant that this release asks for."""
