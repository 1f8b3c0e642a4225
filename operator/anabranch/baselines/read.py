"""What is told of baselines and their manifests. Nothing here decides or writes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from anabranch.model.answers import BaselineState, ReplicaTerms
from anabranch.model.canonical import hash_text
from anabranch.model.crd.baseline import ReplicaRetention
from anabranch.model.objects import BaselineManifest, ManifestRef
from anabranch.store import lines, manifests, projection

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from anabranch.store.database import Database
    from anabranch.store.lines import LineState
    from anabranch.store.manifests import ManifestRow


async def find_with_scopes(db: Database, *, namespace: str, name: str) -> tuple[LineState, list[str]] | None:
    """The line of a Baseline, and all scopes that its records ever had.

    None where there is no such Baseline, or none that was reconciled yet.
    """
    async with db.connection() as conn:
        return await lines.find_with_scopes(conn, namespace=namespace, name=name)


async def in_namespace(db: Database, namespace: str) -> list[LineState]:
    """The lines of a namespace's Baselines, by name."""
    async with db.connection() as conn:
        return await lines.list_by_namespace(conn, namespace)


async def directory(db: Database) -> dict[str, list[str]]:
    """The names of all Baselines, by namespace."""
    async with db.connection() as conn:
        return await lines.directory(conn)


async def scopes(db: Database, line: str) -> list[str]:
    """All scopes that records of the line ever had."""
    async with db.connection() as conn:
        return await lines.scopes(conn, line)


async def describe(db: Database, line_ids: Sequence[str]) -> list[BaselineState]:
    """Baselines as the API tells of them, in the order of their lines given."""
    async with db.connection() as conn:
        found: dict[str, projection.BaselineState] = {
            state.line.line: state for state in await projection.baseline_status(conn, lines=line_ids)
        }
    return [_state(found[line]) for line in line_ids if line in found]


async def manifest(db: Database, *, line: str, ref: str | int) -> ManifestRow:
    """The manifest that a reference names: ``current``, ``head``, a generation or a baseline id.

    Raises:
        GoneError: If the generation was pruned.
        NotFoundError: If there never was such a manifest.
    """
    async with db.connection() as conn:
        return await manifests.resolve(conn, line=line, ref=ref)


async def generation(db: Database, *, line: str, ref: str) -> int | None:
    """The generation that a reference names, for a read that finds out itself whether it is there; None: the current.

    Raises:
        GoneError: If the generation was pruned.
        NotFoundError: If there never was such a manifest.
    """
    if ref == "current":
        return None
    if manifests.is_number(ref):
        return int(ref)
    return (await manifest(db, line=line, ref=ref)).generation


async def history(db: Database, *, line: str, before: int | None, limit: int) -> list[ManifestRow]:
    """Retained manifests older than a generation (None: all), newest first."""
    async with db.connection() as conn:
        return await manifests.page(conn, line=line, before=before, limit=limit)


def ref(row: ManifestRow) -> ManifestRef:
    """The name of a manifest."""
    return ManifestRef(
        baseline_id=row.baseline_id, generation=row.generation, manifest_hash=hash_text(row.manifest_hash)
    )


def wire(row: ManifestRow) -> BaselineManifest:
    """A manifest as it travels."""
    return BaselineManifest(
        baseline_id=row.baseline_id,
        generation=row.generation,
        schema_version=row.schema_version,
        created_at=row.created_at,
        parent_generation=row.parent_generation,
        manifest_hash=hash_text(row.manifest_hash),
        records=row.records,
        origin=row.origin,
        feed_watermark=row.feed_watermark,
    )


def _terms(policy: Mapping[str, Any]) -> ReplicaTerms:
    """The terms of replicas, of a line's policy; one that was kept by an earlier release has the defaults."""
    terms = ReplicaRetention.model_validate((policy.get("retention") or {}).get("replica") or {})
    return ReplicaTerms(max_age_seconds=terms.max_age.total_seconds(), on_revoke=terms.on_revoke)


def _state(state: projection.BaselineState) -> BaselineState:
    return BaselineState(
        namespace=state.line.namespace,
        name=state.line.name,
        line_id=state.line.line,
        current=state.current and ref(state.current),
        previous=state.previous and ref(state.previous),
        head=state.newest and ref(state.newest),
        pinned_generation=state.head.pinned_generation,
        suspended=state.head.suspended,
        feed_watermark=state.head.event_sequence,
        pending_batches=state.pending_batches,
        open_conflicts=state.open_conflicts,
        oldest_conflict_at=state.oldest_conflict_at,
        replica=_terms(state.line.policy),
    )
