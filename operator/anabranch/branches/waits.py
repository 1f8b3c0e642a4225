"""Resources that wait for another one, or for a grant: noted with a reason, and looked at again by themselves.

What they wait for wakes them when it comes. A grant makes no noise when it is given, so they are also looked at
after a second, then after two, and so on up to half a minute.
"""

from __future__ import annotations

import random
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, Literal, cast

from anabranch.domain.backoff import delay
from anabranch.store import waiting
from anabranch.store.purging import BASELINE_DELETED

if TYPE_CHECKING:
    from anabranch.model.crd import Resource
    from anabranch.store.database import Connection, Database
    from anabranch.store.waiting import Kind

GENERATION_PRUNED: Final = "GenerationPruned"
"""Why a Branch never forks: retention removed the generation that it names."""

_LONGEST_SECONDS: Final = 30.0


async def wait(  # noqa: PLR0913  (the words of a condition)
    db: Database,
    resource: Resource[Any],
    *,
    reason: str,
    message: str,
    needs: tuple[str, str],
    condition: Literal["Reconciling", "Stalled"] = "Reconciling",
) -> None:
    """Note that a resource waits for something that may come by itself.

    Args:
        db: The store.
        resource: The resource.
        reason: CamelCase.
        message: For people.
        needs: Namespace and name of what it waits for.
        condition: ``Stalled`` if it cannot come without somebody's doing.
    """
    async with db.connection() as conn:
        before = await waiting.get(conn, namespace=resource.namespace, kind=_kind(resource), name=resource.name)
    attempt = before.attempt + 1 if before is not None and before.uid == resource.uid else 1
    seconds = delay(attempt, chance=random.random(), limit=_LONGEST_SECONDS)  # noqa: S311  (jitter)
    await _note(db, resource, condition, reason, message, needs=needs, due_in=timedelta(seconds=seconds))


async def settle(conn: Connection, resource: Resource[Any]) -> None:
    """Note that a resource waits for nothing, unless its Baseline was deleted with its data a moment ago."""
    await waiting.settle(
        conn,
        namespace=resource.namespace,
        kind=_kind(resource),
        name=resource.name,
        uid=resource.uid,
        final=BASELINE_DELETED,
    )


async def stays_orphaned(db: Database, resource: Resource[Any]) -> bool:
    """Whether the Baseline of a resource was deleted together with its data.

    It does not begin anew on a namesake: what its agent, or its reviewers, had in hand was another history.
    """
    async with db.connection() as conn:
        row = await waiting.get(conn, namespace=resource.namespace, kind=_kind(resource), name=resource.name)
    if row is None or row.uid != resource.uid or row.reason != BASELINE_DELETED:
        return False
    needs = (row.needs_namespace, row.needs_name)
    await stall(db, resource, reason=row.reason, message=row.message, needs=needs)  # of a newer spec, perhaps
    return True


async def stall(db: Database, resource: Resource[Any], *, reason: str, message: str, needs: tuple[str, str]) -> None:
    """Note that somebody must change something before a resource can go on; arguments as in `wait`."""
    await _note(db, resource, "Stalled", reason, message, needs=needs, due_in=None)


async def _note(  # noqa: PLR0913  (the words of a condition)
    db: Database,
    resource: Resource[Any],
    condition: Literal["Reconciling", "Stalled"],
    reason: str,
    message: str,
    *,
    needs: tuple[str, str],
    due_in: timedelta | None,
) -> None:
    namespace, name = needs
    async with db.connection() as conn:
        await waiting.upsert(
            conn,
            namespace=resource.namespace,
            kind=_kind(resource),
            name=resource.name,
            uid=resource.uid,
            observed_generation=resource.generation,
            condition=condition,
            reason=reason,
            message=message,
            needs_namespace=namespace,
            needs_name=name,
            due_in=due_in,
        )
    db.notify("status")


def _kind(resource: Resource[Any]) -> Kind:
    return cast("Kind", resource.KIND)
