"""Baselines: which there are, and the history of one, with the runs that left it and what they brought back."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from anabranch.client.transport import path
from anabranch.model.answers import ManifestPage
from anabranch.model.errors import ForbiddenError, NotFoundError
from anabranch.web import reading

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from starlette.responses import Response

    from anabranch.model.objects import AgentPresence, BaselineManifest, BranchManifest
    from anabranch.model.quality import Quality, QualityCounts, QualityPoint, QualityRecall
    from anabranch.web.visit import Visit

GENERATIONS: Final = 40
"""On one page."""

_LIVE: Final = frozenset({"active", "stale", "unknown"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A run of an agent, as far as the visitor may know of it.

    Attributes:
        branch: The branch; None: the visitor may not see it, and knows what its peers know.
        peer: Its presence; None: not told.
    """

    branch: BranchManifest | None
    peer: AgentPresence | None

    @property
    def state(self) -> str:
        """Of its agent: active, stale, unknown or completed; of a run that is over by another end that phase."""
        if self.peer is not None:
            return self.peer.state
        return self.branch.phase.lower() if self.branch is not None else "unknown"

    @property
    def live(self) -> bool:
        """Whether it may bring back more."""
        return self.state in _LIVE


@dataclass(frozen=True, slots=True, kw_only=True)
class Bend:
    """A generation, drawn as a place where arms leave the river and come back.

    Attributes:
        manifest: The generation.
        change: How many records more it has than the one before; None: not known.
        forks: Runs that left here.
        origin: The run whose findings made it.
        above: Whether an arm runs beside the river to the next newer generation.
        below: Likewise to the next older one.
    """

    manifest: BaselineManifest
    change: int | None
    forks: Sequence[Run] = field(default=())
    origin: Run | None = None
    above: bool = False
    below: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """How a count went over generations.

    Attributes:
        name: What was counted.
        now: The newest count; None: nobody had to look.
        points: Of a polyline in a box of 100 by 30, the oldest generation on the left.
    """

    name: str
    now: int | None
    points: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Recall:
    """How recall went over generations that were asked the same.

    Attributes:
        newest: Of the newest one.
        rows: Of all, newest first.
        points: As of `Curve`, to a scale from 0 to 1; generations that were not asked leave their room.
    """

    newest: QualityRecall
    rows: Sequence[QualityRecall]
    points: str


async def index(visit: Visit) -> Response:
    """All Baselines that the visitor may see."""
    namespaces = await visit.desk.namespaces()
    return visit.show("baselines.html", baselines=await reading.baselines(visit.client, namespaces))


async def history(visit: Visit) -> Response:
    """The generations of one Baseline, the newest first."""
    namespace, name = visit.name("namespace"), visit.name("baseline")
    cursor = visit.asked("cursor") or None
    baseline = await visit.client.baseline(namespace, name)
    page = await visit.client.get(
        ManifestPage, path(namespace, "baselines", name, "manifests"), query={"limit": GENERATIONS, "cursor": cursor}
    )
    known = await runs(visit, namespace, name)
    quality = await _quality(visit, namespace, name) if cursor is None else None
    bends = river(page.items, known, whole=page.next_cursor is None)
    drawn = {run.branch.branch_id for bend in bends for run in bend.forks if run.branch}
    return visit.show(
        "history.html",
        baseline=baseline,
        bends=bends,
        curves=curves([quality.total, *quality.history]) if quality is not None and quality.total is not None else [],
        recall=recall_curve(quality.recall) if quality is not None else None,
        others=[] if cursor else [run for key, run in known.items() if key not in drawn and run.live],
        cursor=page.next_cursor,
        first=cursor is None,
        may_declare=await visit.desk.may_declare(namespace),
    )


def river(manifests: Sequence[BaselineManifest], runs: Mapping[str, Run], *, whole: bool) -> list[Bend]:
    """Generations with the runs that left and rejoined at each.

    Args:
        manifests: Newest first.
        runs: By branch id.
        whole: Whether the last of the manifests is the oldest there is.
    """
    made = {manifest.generation: _branch_of(manifest) for manifest in manifests}
    forks: defaultdict[int, list[Run]] = defaultdict(list)
    ends: list[tuple[int, float]] = []
    for branch_id, run in runs.items():
        if run.branch is None:
            continue
        parent = run.branch.parent.generation
        forks[parent].append(run)
        brought = max((generation for generation, by in made.items() if by == branch_id), default=parent)
        ends.append((parent, float("inf") if run.live else brought))
    older = [*manifests[1:], None]
    return [
        Bend(
            manifest=manifest,
            change=_change(manifest, before, whole=whole),
            forks=forks.get(manifest.generation, ()),
            origin=runs.get(made[manifest.generation] or ""),
            above=any(start <= manifest.generation < end for start, end in ends),
            below=any(start < manifest.generation <= end for start, end in ends),
        )
        for manifest, before in zip(manifests, older, strict=True)
    ]


def curves(points: Sequence[QualityPoint | QualityCounts]) -> list[Curve]:
    """What was counted of some generations, newest first, to one scale."""
    told = list(reversed(points))
    top = max((point.records for point in told), default=0)
    if top == 0:
        return []
    width = 100 / max(len(told) - 1, 1)
    return [
        Curve(
            name=name,
            now=counts[-1],
            points=" ".join(
                f"{width * place:.1f},{29 - 28 * count / top:.1f}"
                for place, count in enumerate(counts)
                if count is not None
            ),
        )
        for name, counts in (
            ("records", [point.records for point in told]),
            ("with a source", [point.sourced for point in told]),
            ("verified", [point.verified for point in told]),
        )
    ]


def recall_curve(answered: Sequence[QualityRecall]) -> Recall | None:
    """What generations answer of the questions that the newest of them was asked; None: none was asked.

    Args:
        answered: Newest first.
    """
    if not answered:
        return None
    newest = answered[0]
    alike = [one for one in answered if (one.questions, one.k) == (newest.questions, newest.k)]
    first, last = alike[-1].generation, newest.generation
    width = 100 / max(last - first, 1)
    places = [(width * (one.generation - first), 29 - 28 * one.recall) for one in reversed(alike)]
    return Recall(newest=newest, rows=alike, points=" ".join(f"{across:.1f},{down:.1f}" for across, down in places))


async def _quality(visit: Visit, namespace: str, name: str) -> Quality | None:
    try:
        return await visit.client.quality(namespace, name, history=GENERATIONS)
    except (NotFoundError, ForbiddenError):
        return None


async def runs(visit: Visit, namespace: str, name: str) -> dict[str, Run]:
    """The runs of a Baseline by branch id: their branches in namespaces that the visitor looks at, and its peers."""

    async def of(place: str) -> list[BranchManifest]:
        return [branch async for branch in visit.client.branches(place) if branch.baseline == f"{namespace}/{name}"]

    places = {namespace, *await visit.desk.namespaces(), *await visit.desk.agents_namespaces()}
    branches = {each.branch_id: each for found in await reading.gathered(map(of, sorted(places))) for each in found}
    try:
        peers = {peer.branch_id: peer async for peer in visit.client.peers(namespace, name)}
    except ForbiddenError:
        peers = {}
    return {key: Run(branch=branches.get(key), peer=peers.get(key)) for key in _ordered(branches, peers)}


def _ordered(*tables: Iterable[str]) -> list[str]:
    """Branch ids in the order in which they were made: they begin with their line, and go on with their time."""
    return sorted({key for table in tables for key in table})


def _branch_of(manifest: BaselineManifest) -> str | None:
    branch = manifest.origin.get("branch_id")
    return branch if isinstance(branch, str) else None


def _change(manifest: BaselineManifest, before: BaselineManifest | None, *, whole: bool) -> int | None:
    if before is not None:
        return manifest.records - before.records
    return manifest.records if whole and manifest.generation == 1 else None
