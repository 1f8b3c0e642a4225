"""What differs between two generations, in full; and what a way back would change, with the lines to commit for it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from anabranch.client.transport import path
from anabranch.domain.wording import as_yaml
from anabranch.model.answers import DiffPage
from anabranch.model.errors import ForbiddenError, NotFoundError
from anabranch.web import reading
from anabranch.web.pages import baselines
from anabranch.web.shown import ABSENT, Member, members

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from starlette.responses import Response

    from anabranch.model.answers import DiffEntry
    from anabranch.model.objects import BranchManifest, ConsolidationJob, JobState, RecordDescriptor
    from anabranch.web.pages.baselines import Run
    from anabranch.web.visit import Visit

KEYS: Final = 25
"""Shown in full on one page."""

_UNFINISHED: Final[tuple[JobState, ...]] = ("received", "importing", "validating", "awaiting_review", "publishing")

_VERSION: Final = "anabranch.dev/v1alpha1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A key that differs.

    Attributes:
        entry: Both sides as manifests have them.
        members: Their contents, compared.
        kind: What happened to the key, for readers: added, changed or deleted.
    """

    entry: DiffEntry
    members: Sequence[Member]
    kind: str


async def diff(visit: Visit) -> Response:
    """What changed from one generation to another; by itself, from its parent."""
    namespace, name = visit.name("namespace"), visit.name("baseline")
    baseline = await visit.client.baseline(namespace, name)
    newer = await visit.client.manifest(namespace, name, visit.asked("to", "current"))
    older = visit.asked("from") or str(newer.parent_generation)
    if older == "0":
        raise NotFoundError(f"There is no generation before {newer.generation}.", hint="It was imported.")
    page, found = await _differences(visit, namespace, name, older, str(newer.generation))
    return visit.show(
        "diff.html",
        namespace=namespace,
        name=name,
        before=page.before,
        after=page.after,
        newest=baseline.head.generation if baseline.head else 0,
        differences=found,
        cursor=page.next_cursor,
    )


async def rollback(visit: Visit) -> Response:
    """What a way back to a generation changes, and what to commit for it."""
    namespace, name = visit.name("namespace"), visit.name("baseline")
    if not await visit.desk.may_declare(namespace):
        raise ForbiddenError(
            f"You may not change the Baselines of {namespace}.",
            hint="Ask for the verb patch on baselines, or its owner.",
        )
    baseline = await visit.client.baseline(namespace, name)
    target = await visit.client.manifest(namespace, name, visit.asked("to", "current"))
    current = baseline.current.generation if baseline.current else 0
    page: DiffPage | None = None
    found: list[Difference] = []
    if current not in {0, target.generation}:
        page, found = await _differences(visit, namespace, name, str(current), str(target.generation))
    runs = await baselines.runs(visit, namespace, name)
    stamp = f"{datetime.now(UTC):%Y%m%d-%H%M}"
    return visit.show(
        "rollback.html",
        baseline=baseline,
        target=target,
        current=current,
        differences=found,
        more=page is not None and page.next_cursor is not None,
        withdrawn=withdrawn(runs.values(), target.generation),
        held=await _held(visit, namespace, name),
        pin=_manifest(namespace, name, {"pin": {"generation": target.generation}}),
        restore=_manifest(
            namespace, name, {"restore": {"generation": target.generation, "id": f"g{target.generation}-{stamp}"}}
        ),
    )


def withdrawn(runs: Iterable[Run], target: int) -> list[BranchManifest]:
    """The branches that forked from a generation which a way back withdraws, the newest parents first."""
    found = [run.branch for run in runs if run.branch is not None and run.branch.parent.generation > target]
    return sorted(found, key=lambda branch: -branch.parent.generation)


async def _held(visit: Visit, namespace: str, name: str) -> list[ConsolidationJob] | None:
    """The jobs that a pin holds until it goes; None: the visitor may not know."""

    async def of(state: JobState) -> list[ConsolidationJob]:
        return [job async for job in visit.client.jobs(namespace, state=state, baseline=name) if not job.failed]

    try:
        return [job for jobs in await reading.gathered(map(of, _UNFINISHED)) for job in jobs]
    except ForbiddenError:
        return None


async def _differences(
    visit: Visit, namespace: str, name: str, older: str, newer: str
) -> tuple[DiffPage, list[Difference]]:
    """The first keys that differ, or those behind the query's cursor, with both records of each."""
    query = {"from": older, "to": newer, "limit": KEYS, "cursor": visit.asked("cursor") or None}
    page = await visit.client.get(DiffPage, path(namespace, "baselines", name, "diff"), query=query)

    async def content(descriptor: RecordDescriptor | None, generation: int) -> Any:
        if descriptor is None or descriptor.tombstone:
            return ABSENT
        return (await visit.client.record(namespace, name, descriptor.key, ref=generation)).content

    sides = [(entry.before, page.before.generation) for entry in page.items]
    sides += [(entry.after, page.after.generation) for entry in page.items]
    contents = await reading.gathered(content(*side) for side in sides)
    pairs = zip(page.items, contents[: len(page.items)], contents[len(page.items) :], strict=True)
    return page, [
        Difference(entry=entry, members=members(before, after), kind=_kind(before, after))
        for entry, before, after in pairs
    ]


def _kind(before: Any, after: Any) -> str:
    if before is ABSENT:
        return "added"
    return "deleted" if after is ABSENT else "changed"


def _manifest(namespace: str, name: str, spec: dict[str, Any]) -> str:
    return as_yaml(
        {"apiVersion": _VERSION, "kind": "Baseline", "metadata": {"name": name, "namespace": namespace}, "spec": spec}
    )
