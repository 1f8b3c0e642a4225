"""The services over a real Postgres, in a world without a cluster: its answers are a test's to give."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from anabranch.baselines import reconcile as baselines
from anabranch.branches import reconcile as branch_resources
from anabranch.consolidation import gating, receipt, retracting, review, schedule, work
from anabranch.consolidation import jobs as job_resources
from anabranch.consolidation.gathering import Gathering
from anabranch.consolidation.services import Services
from anabranch.consolidation.sources import SourceChecker, SourcesConfig, resolvers
from anabranch.identity import Caller
from anabranch.model.canonical import canonical_bytes, hash_text, sha256
from anabranch.model.crd import BaselineResource, BranchResource, ConsolidationJobResource
from anabranch.model.objects import batch_hash
from anabranch.model.requests import DecisionRequest, RetractionRequest
from anabranch.store import (
    branches,
    candidates,
    events,
    evidence,
    jobs,
    leases,
    lines,
    manifests,
    records,
    retractions,
    trie,
    waiting,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from anabranch.identity import Grant
    from anabranch.model.objects import Publication, Receipt
    from anabranch.store.branches import BranchRow
    from anabranch.store.candidates import CandidateRow
    from anabranch.store.database import Database
    from anabranch.store.jobs import JobRow
    from anabranch.store.lines import LineState
    from anabranch.store.retractions import RetractionRow

TEAM = "platform"
AGENTS = "agents"
AUTOMATIC = {"review": {"mode": "Automatic"}}


class Permissions:
    """Grants that are held unless a test takes them away."""

    def __init__(self) -> None:
        self._denied: set[tuple[str, str, str, str]] = set()

    def deny(self, grant: Grant, *, name: str = "", account: str = "") -> None:
        """Take a grant away: on one name or any, from one ServiceAccount or all."""
        self._denied.add((grant.resource, grant.verb, name, account))

    def give_back(self) -> None:
        self._denied.clear()

    async def allowed(self, caller: Caller, grant: Grant, *, name: str = "", **_: Any) -> bool:
        account = (caller.service_account or ("", ""))[1]
        asked = {(grant.resource, grant.verb, n, a) for n in (name, "") for a in (account, "")}
        return asked.isdisjoint(self._denied)

    async def scopes(self, caller: Caller, grant: Grant, *, namespace: str, scopes: Iterable[str]) -> list[str]:
        return [s for s in scopes if await self.allowed(caller, grant, namespace=namespace, name=s)]


@dataclass
class Kube:
    """The objects that a reconcile reads."""

    config_maps: dict[str, dict[str, str]] = field(default_factory=dict)

    async def get(self, _kind: Any, *, name: str) -> dict[str, Any]:
        return {"metadata": {"name": name, "uid": f"uid-of-{name}"}}

    async def find(self, _kind: Any, *, name: str, **_: Any) -> dict[str, Any] | None:
        data = self.config_maps.get(name)
        return None if data is None else {"metadata": {"name": name}, "data": data}


@dataclass
class Guard:
    """Whether admission controls reviews."""

    missing: list[str] = field(default_factory=list)

    async def gaps(self) -> list[str]:
        return self.missing


class World:
    """A team's namespace with Baselines, and agents that fork them.

    Args:
        db: The store.
        sources: Checks sources; the usual one unless given.
        ids: Where it is kept whose the agents' ids are, if that is another store.
    """

    def __init__(self, db: Database, *, sources: SourceChecker | None = None, ids: Database | None = None) -> None:
        self.db = db
        self._ids = ids
        self.permissions = Permissions()
        self.kube = Kube()
        self.guard = Guard()
        self.models: Collection[str] = ()
        checker = sources or SourceChecker(resolvers(db, self.permissions, SourcesConfig()))
        self.services = Services(db=db, grants=self.permissions, sources=checker)
        self.holder = str(uuid4())

    # Resources, as if applied.

    async def apply_baseline(
        self, name: str = "facts", *, generation: int = 1, uid: str = "", **spec: Any
    ) -> LineState:
        await baselines.reconcile(
            self.db,
            BaselineResource.parse(_body(TEAM, name, generation, spec, uid or f"uid-of-{name}")),
            kube=self.kube,
            guard=self.guard,
            models=self.models,
        )
        async with self.db.connection() as conn:
            return await lines.find(conn, namespace=TEAM, name=name)

    async def import_documents(self, contents: dict[str, str], *, name: str = "facts", **spec: Any) -> LineState:
        """A Baseline with a record for each text, imported from a ConfigMap."""
        self.config_maps_of(name, contents)
        return await self.apply_baseline(name, **({"import": {"configMap": {"name": name}}} | spec))

    def config_maps_of(self, name: str, contents: dict[str, str]) -> None:
        self.kube.config_maps[name] = {f"{key}.json": f'"{text}"' for key, text in contents.items()}

    async def apply_branch(
        self, name: str, *, account: str = "", baseline: str = "facts", generation: int = 1, **spec: Any
    ) -> BranchRow | None:
        body = {
            "baselineRef": {"namespace": TEAM, "name": baseline},
            "agent": {"serviceAccountName": account or name},
            "sharingPolicy": {"exportPrivate": False},
        }
        await branch_resources.reconcile(
            self.db,
            BranchResource.parse(_body(AGENTS, name, generation, body | spec, f"uid-of-{name}")),
            grants=self.permissions,
            ids=self._ids,
        )
        async with self.db.connection() as conn:
            return await branches.by_name(conn, namespace=AGENTS, name=name)

    async def apply_job(self, name: str, *, generation: int = 1, uid: str = "", **spec: Any) -> JobRow | None:
        await job_resources.reconcile(
            self.db,
            ConsolidationJobResource.parse(_body(TEAM, name, generation, spec, uid or f"uid-of-{name}")),
            guard=self.guard,
        )
        async with self.db.connection() as conn:
            return await jobs.by_name(conn, namespace=TEAM, name=name)

    async def waits(self, kind: Any, name: str, *, namespace: str = AGENTS) -> str | None:
        """The reason for which a resource waits."""
        async with self.db.connection() as conn:
            row = await waiting.get(conn, namespace=namespace, kind=kind, name=name)
        return row and row.reason

    # Agents.

    async def evidence(self, branch: BranchRow, text: str = "a log") -> str:
        """A locator of evidence that the branch has uploaded."""
        body = text.encode()
        async with self.db.connection() as conn:
            await evidence.put(
                conn,
                line=branch.line,
                branch_id=branch.branch_id,
                digest=sha256(body),
                media_type="text/plain",
                body=body,
            )
        return f"evidence:sha256:{hashlib.sha256(body).hexdigest()}"

    async def submit(
        self, branch: BranchRow, sequence: int, *changes: dict[str, Any], final: bool = False
    ) -> Receipt | Publication:
        """Submit changes: each is {key, content, base, sources, …}; one source of evidence if none are named."""
        source = await self.evidence(branch)
        batch = {
            "branch_id": branch.branch_id,
            "sequence": sequence,
            "changes": [
                {"visibility": "shareable"} | {n: v for n, v in change.items() if n not in ("base", "sources")}
                for change in changes
            ],
            "source_locators": [change.get("sources", [source]) for change in changes],
            "base_revisions": [str(change.get("base", 0)) for change in changes],
        }
        if final:
            batch |= {"final": True, "last_acknowledged_sequence": sequence - 1}
        batch["content_hash"] = batch_hash(batch)
        return await receipt.receive(self.db, branch=branch, submission=await receipt.read(canonical_bytes(batch)))

    # Reviewers.

    async def retract(self, line: str, key: str, *, by: str = "eve", revision: int | None = None) -> RetractionRow:
        """Ask for a record to be withdrawn; its job waits for a review then."""
        async with self.db.connection() as conn:
            scopes = await lines.scopes(conn, line)
        body = RetractionRequest(key=key, revision=revision and str(revision), reason="it was poisoned")
        asked = await retracting.request(self.db, line=line, scopes=scopes, caller=Caller(by), body=body)
        await self.work()
        return await self.retraction(asked)

    async def retraction(self, asked: RetractionRow) -> RetractionRow:
        async with self.db.connection() as conn:
            return await retractions.get(conn, line=asked.line, retraction_id=asked.retraction_id)

    async def decide(self, job_id: str, action: str = "accept", *, by: str = "ada", keys: Collection[str] = ()) -> None:
        """Decide on what waits in a job: all of it, or the candidates for some keys."""
        async with self.db.connection() as conn:
            job = await jobs.get(conn, job_id)
            _, holds = await gating.heard(conn, line=job.line, job_ids=[job_id])
        hold = holds[job_id].number if job_id in holds else None
        rows = [row for row in await self.candidates(job) if row.state == "waiting" and (not keys or row.key in keys)]
        requests = [
            DecisionRequest(
                candidate_id=row.candidate_id,
                content_hash=hash_text(row.content_hash),
                base_revision=str(row.canonical_revision or 0),
                action=action,
                reason="so it is",
                hold=hold,
            )
            for row in rows
        ]
        await review.decide(self.db, job=job, caller=Caller(by), decisions=requests)

    # The operator.

    async def work(self, *, services: Services | None = None) -> None:
        """Do everything that is due."""
        while await self.work_once(services=services):
            pass

    async def work_once(self, *, services: Services | None = None) -> int:
        await schedule.make_jobs(self.db)
        await retracting.turn(self.db)
        async with self.db.connection() as conn:
            claim = await leases.claim(conn, holder=self.holder, limit=10)
        for job in claim.jobs:
            await work.advance(services or self.services, job)
        return len(claim.jobs) + claim.done

    def another_operator(self) -> Services:
        """The services as another process has them."""
        return replace(self.services, gathering=Gathering())

    # What is there.

    async def state(self, line: str) -> LineState:
        async with self.db.connection() as conn:
            return await lines.get(conn, line)

    async def conditions(self, line: str) -> dict[str, str]:
        """Reasons by type."""
        return {c["type"]: c["reason"] for c in (await self.state(line)).line.conditions}

    async def contents(self, line: str, generation: int | None = None) -> dict[str, Any]:
        """Live records by key, as canonical text."""
        async with self.db.connection() as conn:
            page = await records.page(conn, line=line, generation=generation, limit=1000, scopes=None)
        return {record.key: record.body.decode() for record in page.records}

    async def contents_of_table(self, line: str) -> int:
        """How many versions and contents there are, seen or not."""
        async with self.db.connection() as conn:
            return await conn.fetchval(
                "SELECT (SELECT count(*) FROM record_versions WHERE line = $1)"
                " + (SELECT count(*) FROM contents WHERE line = $1)",
                line,
            )

    async def jobs(self) -> list[JobRow]:
        async with self.db.connection() as conn:
            return await jobs.page(conn, namespace=TEAM, limit=100)

    async def job(self, name: str) -> JobRow:
        async with self.db.connection() as conn:
            return await jobs.by_name(conn, namespace=TEAM, name=name)

    async def candidates(self, job: JobRow) -> list[CandidateRow]:
        async with self.db.connection() as conn:
            return await candidates.of_job(conn, line=job.line, job_id=job.job_id)

    async def outcomes(self) -> dict[str, list[tuple[str, str]]]:
        """State and reason of every candidate, by key."""
        found: dict[str, list[tuple[str, str]]] = {}
        for job in await self.jobs():
            for row in await self.candidates(job):
                found.setdefault(row.key, []).append((row.state, row.reason))
        return {key: sorted(outcomes) for key, outcomes in found.items()}

    async def events(self, line: str) -> list[tuple[str, str | None, int | None]]:
        async with self.db.connection() as conn:
            page = await events.after(conn, line=line, after_sequence=0, limit=1000, scopes=None)
        assert [event.sequence for event in page.events] == list(range(1, len(page.events) + 1))
        return [(event.kind, event.key, event.revision) for event in page.events]

    async def check_roots(self, line: str) -> int:
        """Recompute the root of every generation; how many there are."""
        async with self.db.transaction() as conn:
            found = await manifests.history(conn, line, 1000)
            for manifest in found:
                root = await trie.recompute_root(conn, line=line, generation=manifest.generation)
                assert hash_text(root) == hash_text(manifest.manifest_hash)
        return len(found)


def decisions(rows: Iterable[CandidateRow], action: str = "accept", **more: Any) -> list[dict[str, Any]]:
    """Decisions on candidates exactly as they are, as a resource carries them."""
    return [
        {
            "candidateId": row.candidate_id,
            "contentHash": hash_text(row.content_hash),
            "baseRevision": str(row.canonical_revision or 0),
            "action": action,
            **more,
        }
        for row in rows
    ]


def _body(namespace: str, name: str, generation: int, spec: dict[str, Any], uid: str) -> dict[str, Any]:
    return {
        "metadata": {"namespace": namespace, "name": name, "uid": uid, "generation": generation},
        "spec": spec,
    }
