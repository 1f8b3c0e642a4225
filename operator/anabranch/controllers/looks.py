"""What every operator process looks for besides jobs and resources: each has a look, and none waits for another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from anabranch.backup.turning import Targets, Turns
from anabranch.baselines import retention
from anabranch.branches import following, presence
from anabranch.consolidation import deriving, retracting, schedule
from anabranch.controllers.afterwards import Afterwards
from anabranch.controllers.paused import Paused
from anabranch.controllers.wake import Chore, Seldom
from anabranch.memory import expiry, outbox
from anabranch.proposals.turn import Proposer
from anabranch.quality import counting, recalling
from anabranch.search import indexing, vectorizing

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import timedelta

    from anabranch.controllers.configuration import Configuration
    from anabranch.controllers.wake import Look
    from anabranch.kube.client import KubeClient
    from anabranch.search.embedding import Embedder
    from anabranch.store.database import Database

_AT_ONCE: Final = 100
_NOTICES_SECONDS: Final = 0.25
"""Between two looks for notices, which are told the cheaper, the more there are."""

_EXPIRY_SECONDS: Final = 60.0


def of(  # noqa: PLR0913  (what the looks need)
    db: Database,
    kube: KubeClient,
    *,
    configuration: Configuration,
    embedder: Embedder | None,
    keep: timedelta,
    ring: Callable[[], None],
    agents: Database,
) -> Sequence[Look]:
    """The looks.

    Args:
        db: The database.
        kube: The API server.
        configuration: Has the models and the targets of backups.
        embedder: Makes vectors; None: nobody searches by meaning.
        keep: For how long events of agents are kept.
        ring: Called when there is work for others.
        agents: The database of agents, which may be another one.
    """

    async def make_jobs() -> bool:
        made = await schedule.make_jobs(db, limit=_AT_ONCE)
        if made:
            ring()
        return made == _AT_ONCE

    return [
        Chore("batches", make_jobs),
        Paused(db),
        Chore("retention", lambda: retention.turn(db)),
        Chore("leases of agents", lambda: presence.settle(db)),
        Chore("places in the feed", lambda: following.show(db)),
        Seldom("notices for agents", lambda: outbox.drain(db, agents=agents), rest_seconds=_NOTICES_SECONDS),
        Seldom("old events of agents", lambda: expiry.turn(db, keep=keep), rest_seconds=_EXPIRY_SECONDS),
        Turns(db, kube=kube, targets=Targets(configuration.backup_targets)),
        Chore("retractions", lambda: retracting.turn(db)),
        Afterwards(db, "index", indexing.turn),
        Afterwards(db, "derivations", deriving.turn),
        Afterwards(db, "quality", counting.turn),
        Afterwards(db, "recall", recalling.turn),
        Afterwards(db, "proposals", Proposer(configuration.models).turn),
        *([] if embedder is None else [Afterwards(db, "vectors", lambda db: vectorizing.turn(db, embedder))]),
    ]
