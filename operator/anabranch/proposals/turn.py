"""Finds what is to be asked, as a part of the operator that nothing else waits for.

Nothing is queued: candidates of one job that say different things of a key, or contradict its record, are found by
looking, and so are many of one topic. A model is asked a few questions at once, and not at all while it does not
answer.
"""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Final

import structlog

from anabranch.model.crd import Proposals
from anabranch.model.errors import AnabranchError
from anabranch.proposals.asking import ask
from anabranch.proposals.breaker import Breaker
from anabranch.proposals.endpoint import Endpoint
from anabranch.store import lines, proposals
from anabranch.telemetry import logs, tracing
from anabranch.telemetry.of_operator import MODELS_LEFT_ALONE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from anabranch.proposals.config import ModelEndpoint
    from anabranch.store.database import Connection, Database
    from anabranch.store.proposals import ProposingLine, Question

_log = structlog.get_logger(__name__)

SLOTS: Final = 2
"""Requests to one model at once, of a process."""

AT_ONCE: Final = 8
"""Questions to one model in a turn."""

TOPIC_FINDINGS: Final = 5
"""Findings of one topic from which on a summary is proposed."""


@dataclass(frozen=True, slots=True)
class _Model:
    """A model, and whether it answers at present."""

    endpoint: Endpoint
    breaker: Breaker = field(default_factory=Breaker)


class Proposer:
    """Asks the models of one operator process.

    Args:
        models: The configuration's, by name.
    """

    def __init__(self, models: Mapping[str, ModelEndpoint]) -> None:
        self._models = {name: _Model(Endpoint(name, settings)) for name, settings in models.items()}
        self._compared = False

    async def turn(self, db: Database) -> bool:
        """Ask some of what is to be asked; whether there may be more.

        Raises:
            UnavailableError: If the database cannot be reached.
        """
        async with db.connection() as conn:
            found = await proposals.proposing_lines(conn)
            if not self._compared:
                await self._compare(conn, found)
        random.shuffle(found)  # a line with much to ask keeps no other one back for ever
        wanted: defaultdict[str, list[tuple[Question, Proposals]]] = defaultdict(list)
        now = asyncio.get_running_loop().time()
        for name, model in self._models.items():
            MODELS_LEFT_ALONE.labels(name).set(not model.breaker.closed(now))
        for line in found:
            policy = Proposals.model_validate(line.policy)
            asked = self._models.get(policy.model)
            room = AT_ONCE - len(wanted[policy.model])
            if asked is None or room <= 0 or not asked.breaker.closed(now):
                continue
            async with db.connection() as conn:
                wanted[policy.model] += [(each, policy) for each in await _questions(conn, line.line, policy, room)]
        await asyncio.gather(*(self._ask_all(db, self._models[name], some) for name, some in wanted.items() if some))
        return any(wanted.values())

    async def _compare(self, conn: Connection, found: Sequence[ProposingLine]) -> None:
        """Have Baselines looked at whose conditions are of another configuration, once in a process's life."""
        for line in found:
            if line.unavailable == (line.policy["model"] in self._models):
                await lines.set_due(conn, line=line.line, delay=timedelta())
        self._compared = True

    async def _ask_all(self, db: Database, model: _Model, questions: Sequence[tuple[Question, Proposals]]) -> None:
        """Ask one model some questions, as long as it answers."""
        time = asyncio.get_running_loop().time
        slots = asyncio.Semaphore(model.breaker.slots(SLOTS))

        async def ask_one(question: Question, policy: Proposals) -> None:
            async with slots:
                if not model.breaker.closed(time()):
                    return
                ids = {"line": question.line, "job": question.job_id, "model": model.endpoint.name}
                with logs.bound(**ids), tracing.begun("propose", **ids):
                    try:
                        await ask(db, question, policy, endpoint=model.endpoint, breaker=model.breaker)
                    except AnabranchError as error:
                        _log.warning("a proposal cannot be made", error=str(error))
                    except Exception:  # noqa: BLE001  (it comes up again, and is one key's alone)
                        _log.exception("a proposal cannot be made")

        await asyncio.gather(*(ask_one(question, policy) for question, policy in questions))


async def _questions(conn: Connection, line: str, policy: Proposals, limit: int) -> list[Question]:
    """What is to be asked about a line now."""
    found = await proposals.merges_wanted(conn, line=line, limit=limit) if policy.merges else []
    if policy.summaries and len(found) < limit:
        found += await proposals.summaries_wanted(conn, line=line, findings=TOPIC_FINDINGS, limit=limit - len(found))
    return found
