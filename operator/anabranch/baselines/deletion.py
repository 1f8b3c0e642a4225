"""The end of a Baseline whose data goes with it, or is to stay after all.

The policy that stands in the resource at the end counts: to keep the data of a Baseline that is being deleted, set it
back to Retain. Where the kind itself is being deleted, as in an uninstallation, nobody has said anything about this
Baseline, and its data stays.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from anabranch.baselines.finalizer import FINALIZER, is_delete
from anabranch.baselines.reconcile import forget
from anabranch.kube.finalizers import set_finalizer
from anabranch.kube.kinds import BASELINE, DEFINITION
from anabranch.model.errors import NotReadyError
from anabranch.store import purging

if TYPE_CHECKING:
    from collections.abc import Mapping

    from anabranch.kube.client import KubeClient
    from anabranch.store.database import Database


class DataRemainsError(NotReadyError):
    """The data of a Baseline that is being deleted is not gone yet."""

    code = "DataRemains"


@dataclass(frozen=True, slots=True)
class Ending:
    """What became of a deleted Baseline's data.

    Attributes:
        reason: CamelCase.
        note: A sentence for people; empty: there is nothing to tell.
    """

    reason: str
    note: str = ""


async def release(db: Database, body: Mapping[str, Any], *, kube: KubeClient) -> Ending:
    """Let go of a Baseline that is being deleted, once its data is gone or if it is to stay. Idempotent.

    Args:
        db: The store.
        body: The Baseline in its JSON form, with our finalizer. It need not be one that this release understands.
        kube: Takes the finalizer off.

    Raises:
        DataRemainsError: While data is being deleted.
        UnavailableError: If Postgres or the API server cannot be reached.
    """
    metadata = body["metadata"]
    where = {"namespace": metadata["namespace"], "name": metadata["name"]}
    ending = Ending("DataKept")
    if is_delete(body):
        if await _is_kind_going(kube):
            ending = Ending("DataKept", "The kind is being deleted, not this Baseline: its data is kept.")
        else:
            await _delete(db, uid=metadata["uid"], where=where)
            ending = Ending("DataDeleted", "All data of this Baseline is deleted, as spec.deletionPolicy says.")
    await forget(db, uid=metadata["uid"], **where)
    await set_finalizer(kube, BASELINE, uid=metadata["uid"], finalizer=FINALIZER, present=False, **where)
    return ending


async def _delete(db: Database, *, uid: str, where: dict[str, str]) -> None:
    """Condemn the line, and see whether it is gone: the wake queue deletes it.

    Raises:
        DataRemainsError: If it is not.
    """
    async with db.transaction() as conn:
        line = await purging.condemn(conn, uid=uid, **where)
    if line is not None:
        db.notify("work")
        db.notify("status")
        raise DataRemainsError(f"The line {line} is being deleted.", hint="Its Baseline goes when that is done.")


async def _is_kind_going(kube: KubeClient) -> bool:
    definition = await kube.find(DEFINITION, name=f"{BASELINE.plural}.{BASELINE.group}")
    return definition is None or bool(definition["metadata"].get("deletionTimestamp"))
