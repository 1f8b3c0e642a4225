"""Asks a Baseline an evaluation set by the API, as whoever shows the token: what it finds is what that one would find.

All questions go to one manifest, whatever is published meanwhile.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from anabranch.domain import recall
from anabranch.domain.words import text_of
from anabranch.model.errors import NotFoundError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anabranch.client.baselines import BaselineCalls
    from anabranch.model.found import SearchMode, SearchPage
    from anabranch.model.objects import BaselineManifest
    from anabranch.model.recall import RecallTask

_AT_ONCE: Final = 4
"""Questions that are asked at the same time: as many as a process of the API answers, before others wait."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What a generation answered.

    Attributes:
        manifest: Of the generation.
        outcomes: Of the tasks, in their order.
        complete: Whether every search looked at everything; if not, ask again once the index has come further.
    """

    manifest: BaselineManifest
    outcomes: Sequence[recall.Outcome]
    complete: bool


async def evaluate(  # noqa: PLR0913  (all but the place by keyword)
    client: BaselineCalls,
    namespace: str,
    name: str,
    *,
    tasks: Sequence[RecallTask],
    ref: str | int = "current",
    mode: SearchMode | None = None,
    k: int,
) -> Evaluation:
    """Ask a generation of a Baseline all tasks of a set.

    Args:
        client: Whose token is shown.
        namespace: Of the Baseline.
        name: Of the Baseline.
        tasks: The set.
        ref: The manifest: a generation, a baseline id, ``current`` or ``head``.
        mode: ``words`` or ``hybrid``; None: as the installation says.
        k: Hits that are looked at, up to `anabranch.model.limits.RECALL_DEPTH`.
    """
    manifest = await client.manifest(namespace, name, ref)
    turns = asyncio.Semaphore(_AT_ONCE)

    async def ask(task: RecallTask) -> tuple[recall.Outcome, bool]:
        async with turns:
            page = await client.search(namespace, name, task.query, ref=manifest.generation, mode=mode, limit=k)
            texts = {key: await said(key) for key in _to_read(task, page)}
        hits = [recall.Hit(hit.key, hit.score) for hit in page.items]
        return recall.judge(task, hits, texts=texts), page.complete

    async def said(key: str) -> str:
        try:
            return text_of((await client.record(namespace, name, key, ref=manifest.generation)).content)
        except NotFoundError:  # a scope was taken from the caller a moment ago
            return ""

    answered = await asyncio.gather(*map(ask, tasks))
    return Evaluation(
        manifest=manifest,
        outcomes=[outcome for outcome, _ in answered],
        complete=all(complete for _, complete in answered),
    )


def _to_read(task: RecallTask, page: SearchPage) -> list[str]:
    """Answers that were found and whose words count."""
    return [hit.key for hit in page.items if hit.key in task.answers] if task.says is not None else []
