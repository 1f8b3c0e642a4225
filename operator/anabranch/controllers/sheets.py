"""What to write: the statuses of some rows, as Postgres has them now.

Nothing is written here, and nothing is decided about when: that is the projector's.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from anabranch.controllers.status import baseline_status, branch_status, job_status, waiting_status
from anabranch.kube.kinds import OWN
from anabranch.store import projection, waiting

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from anabranch.controllers.status import Seen
    from anabranch.kube.kinds import OwnName
    from anabranch.store.database import Connection
    from anabranch.store.manifests import ManifestRow
    from anabranch.store.projection import Dirty


@dataclass(frozen=True)
class Sheet:
    """A status to write.

    Attributes:
        status: In its JSON form.
        version: Of the row, as it was read for this; it may be a later one than it was found by.
        whole: Whether it replaces the one before, or only those of its members that it has.
        manifests: With a Baseline's, its newest ones.
    """

    status: dict[str, Any]
    version: int
    whole: bool = True
    manifests: Sequence[ManifestRow] = ()


async def read(
    conn: Connection, rows: Sequence[Dirty], *, seen: Callable[[str], Seen], store: str | None
) -> dict[str, Sheet]:
    """What to write for each row, by uid; for one that is there no more, nothing.

    Args:
        conn: A connection.
        rows: What to write of.
        seen: Tells by uid what a status says so far.
        store: Which the statuses name; None: none.
    """
    now = datetime.now(UTC).replace(microsecond=0)
    ids: dict[OwnName, list[str]] = {kind: [] for kind in OWN}
    sheets: dict[str, Sheet] = {}
    for row in rows:
        if row.id is not None:
            ids[row.kind].append(row.id)
    for baseline in await projection.baseline_status(conn, lines=ids["Baseline"]) if ids["Baseline"] else ():
        uid = baseline.line.uid
        status = baseline_status(baseline, seen=seen(uid), now=now)
        sheets[uid] = Sheet(status.whole(), baseline.line.version, manifests=baseline.history)
    for branch in await projection.branch_status(conn, branch_ids=ids["Branch"]) if ids["Branch"] else ():
        uid = branch.branch.uid
        shown = branch_status(branch, seen=seen(uid), now=now, store=store)
        sheets[uid] = Sheet(shown.whole(), branch.branch.version)
    jobs = ids["ConsolidationJob"]
    for job in await projection.job_status(conn, job_ids=jobs) if jobs else ():
        if (job_uid := job.job.uid) is not None:
            told = job_status(job, seen=seen(job_uid), now=now, store=store)
            sheets[job_uid] = Sheet(told.whole(), job.job.version)
    for row in rows:
        if row.uid in sheets:
            continue
        wait = await waiting.get(conn, namespace=row.namespace, kind=row.kind, name=row.name)
        if wait is not None and wait.uid == row.uid:
            status_ = waiting_status(wait, seen=seen(row.uid), now=now)
            sheets[row.uid] = Sheet(status_, wait.version, whole=False)
    return sheets
