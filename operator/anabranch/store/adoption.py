"""Who may take up a line that was left behind: a Baseline of the same name, in a namespace of the same name.

Within one namespace a namesake simply goes on where the deleted Baseline left off. A namespace that was deleted and
made again may belong to other people, though, and what its predecessor knew must not fall to them by a name. So there
the line has to be named, by somebody who may (admission asks for that), and until then the Baseline has none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from anabranch.store import lines, queries

if TYPE_CHECKING:
    from anabranch.model.ids import LineId
    from anabranch.store.database import Connection

_sql: Final = queries.load("adoption")

Reason: TypeAlias = Literal["AdoptionRequired", "AdoptTargetUnknown", "AdoptionConflict"]


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a Baseline does not get the line that it wants, or needs to name one.

    Attributes:
        reason: ``AdoptionRequired``: lines were left behind and none is named. ``AdoptTargetUnknown``: the one that is
            named is none of them. ``AdoptionConflict``: it has another one already.
        kept: The lines with manifests that were left behind, the newest first.
        own: The line that it has already.
    """

    reason: Reason
    kept: tuple[LineId, ...] = ()
    own: LineId | None = None


async def settle(  # noqa: PLR0913  (what identifies a Baseline, and what it asks for)
    conn: Connection, *, namespace: str, namespace_uid: str, name: str, uid: str, adopt: str | None
) -> Refusal | None:
    """Settle which line a Baseline may have, before `lines.adopt_or_create` gives it.

    Whatever a Baseline of its name had in a namespace that was deleted since is set aside, adopted or not.

    Args:
        conn: Inside a transaction, which is to be committed whatever comes out.
        namespace: Of the Baseline.
        namespace_uid: ``metadata.uid`` of that namespace.
        name: Of the Baseline.
        uid: ``metadata.uid`` of the Baseline.
        adopt: The line that it names, by somebody who may; None: none.

    Returns:
        None: it may have one. Else why it gets none, or not the one that it names.
    """
    place = {"namespace": namespace, "namespace_uid": namespace_uid, "name": name}
    await lines.set_aside_namesakes(conn, **place)
    own = await lines.placed(conn, **place)
    if own is None and adopt is not None and queries.touched(await _sql.take_up(conn, line=adopt, uid=uid, **place)):
        return None
    if own is None:
        # Also after taking one up in vain: another operator may have done so meanwhile.
        own = await lines.placed(conn, **place)
    if own is not None:
        return None if adopt in {None, own} else Refusal("AdoptionConflict", own=own)
    kept = tuple(await queries.rows(_sql.kept(conn, **place), lambda row: row["line"]))
    if adopt is not None:
        return Refusal("AdoptTargetUnknown", kept)
    return Refusal("AdoptionRequired", kept) if kept else None
