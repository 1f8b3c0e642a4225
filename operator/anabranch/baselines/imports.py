"""A Baseline's import: the first one makes generation 1, a later one proposes what has changed.

Level-triggered: the digest of the source is compared with the one that was imported last, and whatever is to be done
is one transaction that also writes the digest. Dying before it, or doing it twice, changes nothing.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

from anabranch.baselines import changes
from anabranch.baselines.conditions import Condition
from anabranch.baselines.sources import ArchiveMissingError, ConfigMapMissingError, open_source
from anabranch.model.canonical import hash_bytes
from anabranch.model.errors import AnabranchError, ConflictError, UnavailableError
from anabranch.store import importing, jobs, lines

if TYPE_CHECKING:
    from anabranch.kube.client import KubeClient
    from anabranch.model.crd import BaselineResource
    from anabranch.store.database import Database

_LOOK_AGAIN: Final = timedelta(seconds=30)
"""A missing source makes a noise when it comes (an upload, a watch); this is for noises that get lost."""


async def follow(db: Database, kube: KubeClient, *, line: str, resource: BaselineResource) -> list[Condition]:
    """Import what a Baseline names, if that is still to be done.

    Raises:
        UnavailableError: If Postgres or the API server cannot be reached.
    """
    try:
        found = await _follow(db, kube, line=line, resource=resource)
    except (ArchiveMissingError, ConfigMapMissingError) as error:
        async with db.connection() as conn:
            await lines.set_due(conn, line=line, delay=_LOOK_AGAIN)
            started = (await lines.head(conn, line)).head_generation > 0
        if not started or isinstance(error, ArchiveMissingError):
            return [Condition("Reconciling", error.code, str(error))]
        found = [Condition("ImportMissing", error.code, f"{error} What was imported before stays.")]
    except UnavailableError:
        raise
    except AnabranchError as error:
        return [Condition("Stalled", error.code, str(error))]
    async with db.connection() as conn:
        undecided = await jobs.open_imports(conn, line=line)
    if undecided:
        names = ", ".join(job.name for job in undecided)
        message = f"The source has changed; what is new waits for a review: {names}."
        found.append(Condition("ImportChanged", "AwaitingReview", message))
    return found


async def _follow(db: Database, kube: KubeClient, *, line: str, resource: BaselineResource) -> list[Condition]:
    async with db.connection() as conn:
        state = await lines.get(conn, line)
    started = state.head.head_generation > 0
    if resource.spec.import_ is None or state.head.suspended:
        return [] if started else [_not_yet(resource)]
    archive = resource.spec.import_.archive
    if archive is not None and hash_bytes(archive.digest) == state.line.import_digest:
        return []  # whether the bytes are still there or not
    source = await open_source(db, kube, line=line, resource=resource)
    if source is None or source.digest == state.line.import_digest:
        return []
    if started:
        await changes.propose(db, state=state, source=source)
        return []
    try:
        await importing.import_first(
            db, line=line, records=source.records(), origin=source.origin, import_digest=source.digest
        )
    except ConflictError:
        # Another operator was faster; what it imported is compared with the source the next time.
        async with db.connection() as conn:
            await lines.set_due(conn, line=line, delay=timedelta())
    return []


def _not_yet(resource: BaselineResource) -> Condition:
    if resource.spec.import_ is None:
        return Condition("Reconciling", "ImportUnset", "There is nothing to import yet: set spec.import.")
    return Condition("Reconciling", "Suspended", "Nothing is imported while spec.suspend is true.")
