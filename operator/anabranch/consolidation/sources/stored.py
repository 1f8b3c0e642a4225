"""Sources that the system itself keeps: evidence and checkpoints of the branch, and records of the line.

They are looked up as the citing agent would: evidence and checkpoints of its own branch only, a record only in a scope
that the agent may read. Anything else is "not found", also what exists elsewhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from anabranch.consolidation.sources.check import Found
from anabranch.identity import grants
from anabranch.model.canonical import hash_bytes
from anabranch.store import checkpoints, evidence, records, retractions

if TYPE_CHECKING:
    from anabranch.consolidation.sources.check import Citation
    from anabranch.identity import Grants
    from anabranch.model.locators import Locator
    from anabranch.store.database import Database


class EvidenceResolver:
    """``evidence:sha256:…``: uploaded by this very branch."""

    def __init__(self, db: Database) -> None:
        self._db = db

    async def __call__(self, citation: Citation, locator: Locator) -> Found:
        """Look the digest up among the branch's uploads."""
        digest = hash_bytes(locator.parts["digest"])
        async with self._db.connection() as conn:
            found = await evidence.exists(conn, line=citation.line, branch_id=citation.branch_id, digests=[digest])
        return Found(digest in found, "" if digest in found else "this branch has uploaded no such evidence")


class CheckpointResolver:
    """``checkpoint:<id>``: kept by this very branch. That it is there is all that anybody learns of it."""

    def __init__(self, db: Database) -> None:
        self._db = db

    async def __call__(self, citation: Citation, locator: Locator) -> Found:
        """Look the id up among the branch's checkpoints."""
        async with self._db.connection() as conn:
            found = await checkpoints.get(
                conn, line=citation.line, branch_id=citation.branch_id, checkpoint_id=locator.parts["id"]
            )
        return Found(found is not None, "" if found is not None else "this branch has kept no such checkpoint")


class RecordResolver:
    """``record:<key>@<revision>``: a version that a retained manifest shows, in a scope that the agent may read.

    What it says may have been withdrawn since: whoever works offline cites it in good faith.
    """

    def __init__(self, db: Database, grants: Grants) -> None:
        self._db = db
        self._grants = grants

    async def __call__(self, citation: Citation, locator: Locator) -> Found:
        """Look the version up, then ask whether the agent may read its scope."""
        revision = int(locator.parts["revision"])
        async with self._db.connection() as conn:
            key = locator.parts["key"]
            record = await records.at_revision(conn, line=citation.line, key=key, revision=revision)
            withdrawn = None
            if record is not None:
                statement = (key, record.content_hash)
                withdrawn = await retractions.withdrawn(conn, line=citation.line, statement=statement)
        if record is not None and not record.tombstone and await self._readable(citation, record.scope):
            if withdrawn is not None:
                return Found(verified=False, detail=f"the record was withdrawn: {withdrawn.reason}")
            return Found(verified=True)
        return Found(verified=False, detail="the agent can read no such record")

    async def _readable(self, citation: Citation, scope: str) -> bool:
        return await self._grants.allowed(citation.agent, grants.SCOPE_READ, namespace=citation.namespace, name=scope)
