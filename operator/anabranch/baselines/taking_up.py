"""Which line a Baseline gets: its own, that of a namesake before it, a new one, or one left behind that it names.

Whether somebody was allowed to name a line is for admission to say, which alone sees who they are. While admission is
not in force, a name counts for nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from anabranch.baselines.conditions import Condition
from anabranch.store import adoption, lines

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anabranch.model.crd import BaselineResource
    from anabranch.store.adoption import Refusal
    from anabranch.store.database import Connection
    from anabranch.store.lines import LineState


async def take_up(
    conn: Connection, resource: BaselineResource, *, namespace_uid: str, gaps: Sequence[str]
) -> tuple[LineState | None, list[Condition]]:
    """Give a Baseline its line; none if one has to be named first.

    Args:
        conn: Inside a transaction, to be committed whatever comes out.
        resource: The Baseline.
        namespace_uid: ``metadata.uid`` of its namespace.
        gaps: What is missing of the admission policies, a sentence each.

    Returns:
        The line, and what is to be said if it is not the one, or none, that the Baseline asks for.
    """
    place = {"namespace": resource.namespace, "namespace_uid": namespace_uid, "name": resource.name}
    adopt = resource.spec.adopt.line_id if resource.spec.adopt is not None and not gaps else None
    refusal = await adoption.settle(conn, uid=resource.uid, adopt=adopt, **place)
    told = [] if refusal is None else [Condition("Stalled", refusal.reason, _explain(resource, refusal, gaps))]
    if refusal is not None and refusal.own is None:
        return None, told
    return await lines.adopt_or_create(conn, uid=resource.uid, **place), told


def _explain(resource: BaselineResource, refusal: Refusal, gaps: Sequence[str]) -> str:
    """Why a Baseline does not get the line that it wants, and what to do."""
    where = f"{resource.namespace}/{resource.name}"
    named = resource.spec.adopt.line_id if resource.spec.adopt is not None else ""
    kept = ", ".join(refusal.kept)
    match refusal.reason:
        case "AdoptionConflict":
            return f"This Baseline has the line {refusal.own}, and cannot take up {named} too: take spec.adopt out."
        case "AdoptTargetUnknown":
            others = f" It left {kept}." if kept else ""
            return (
                f"No Baseline {where} of a namespace that was deleted has left a line {named}.{others}"
                " Mend spec.adopt.lineId, or take spec.adopt out."
            )
        case "AdoptionRequired":
            ignored = f" It names one, which does not count yet: {' '.join(gaps)}" if named and gaps else ""
            return (
                f"The namespace {resource.namespace} was deleted and made again, and its Baseline {resource.name} has"
                f" left the line {kept}. To go on from there, set spec.adopt.lineId, which takes the verb update on"
                f" baselines/adopt; to begin anew, take another name.{ignored}"
            )
