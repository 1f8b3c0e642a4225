"""The way from what lines have done to the agents' memory and their queues of events: once each, whoever dies when.

Notices are taken up in bulk, told, and removed, in transactions of their own: none spans a line and an agent, nor two
namespaces. Between them anybody may die. A notice that was told and not removed comes up again, and says the same to
the same agents under the same ids, which the agents' side knows.

A notice that could not be told is left where it is, and goes alone the next time: one that cannot be told at all keeps
nobody else's back.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Final

import structlog

from anabranch.memory.triggers import Message, message
from anabranch.model.canonical import hash_bytes
from anabranch.store import agent_events, exchanges, outbox
from anabranch.telemetry.of_operator import NOTICES, NOTICES_FAILED

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from anabranch.store.database import Connection, Database
    from anabranch.store.outbox import NoticeRow, RunRow

_log = structlog.get_logger(__name__)

NOTICES_AT_ONCE: Final = 200
RUNS_AT_ONCE: Final = 500
"""Runs of a line whose agents are told in a transaction that something happened to the line."""

_HOLD: Final = timedelta(seconds=15)


@dataclass(frozen=True, slots=True)
class _Telling:
    """A notice, and the runs whose agents are told now.

    Attributes:
        messages: What each of them is told.
        more: Whether there are more runs.
    """

    notice: NoticeRow
    runs: Sequence[RunRow]
    messages: Sequence[Message]
    more: bool = False


async def drain(db: Database, *, agents: Database | None = None) -> bool:
    """Tell some of what is due; whether there may be more.

    Args:
        db: Where the notices are.
        agents: Where the agents are, if that is another store: while it is away, notices stay where they are.

    Raises:
        UnavailableError: If the database cannot be reached; what is not told comes up again.
    """
    async with db.connection() as conn:
        taken = await outbox.claim(conn, limit=NOTICES_AT_ONCE, hold=_HOLD)
        read = [await _read(conn, notice) for notice in taken]
    tellings = [telling for telling in read if telling is not None]
    failed = await _tell(agents or db, tellings)
    done = [telling for telling in tellings if telling.notice.outbox_id not in failed]
    await _settle(db, done)
    return len(taken) == NOTICES_AT_ONCE or any(telling.more for telling in done)


async def _read(conn: Connection, notice: NoticeRow) -> _Telling | None:
    """What is to be told now; None if the notice is none that this release can read: it stays for one that can."""
    try:
        runs = await _runs(conn, notice)
        messages = [message(notice, run) for run in runs]
    except (KeyError, TypeError, ValueError) as error:
        NOTICES_FAILED.inc()
        _log.warning("a notice cannot be read", kind=notice.kind, notice=notice.outbox_id, exc_info=error)
        return None
    return _Telling(notice, runs, messages, more=notice.branch_id is None and len(runs) == RUNS_AT_ONCE)


async def _runs(conn: Connection, notice: NoticeRow) -> Sequence[RunRow]:
    if notice.branch_id is not None:
        return [notice.run] if notice.run is not None else []
    if notice.kind == "record.retracted":
        return await outbox.witnesses(
            conn,
            line=notice.line,
            after=notice.progress,
            key=notice.details["key"],
            content_hash=hash_bytes(notice.details["content_hash"]),
            limit=RUNS_AT_ONCE,
        )
    return await outbox.live_runs(
        conn,
        line=notice.line,
        after=notice.progress,
        known_by=notice.created_at,
        generation=notice.details["generation"],
        limit=RUNS_AT_ONCE,
    )


async def _tell(db: Database, tellings: Iterable[_Telling]) -> set[str]:
    """Tell, a transaction for each namespace; the ids of the notices that could not be told."""
    groups: defaultdict[tuple[str, str], dict[str, Message]] = defaultdict(dict)
    notices: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    for telling in tellings:
        notice = telling.notice
        # One that failed before may do so for a reason of its own.
        alone = notice.outbox_id if notice.attempts > 1 else ""
        for run, said in zip(telling.runs, telling.messages, strict=True):
            groups[run.namespace, alone][said.event.event_id] = said  # an agent may have several runs of a line
            notices[run.namespace, alone].add(notice.outbox_id)
    failed: set[str] = set()
    for group, messages in groups.items():
        try:
            await db.run(partial(_deliver, messages=list(messages.values())))
        except Exception as error:  # noqa: BLE001  (others' notices must not wait for it)
            failed |= notices[group]
            NOTICES_FAILED.inc(len(notices[group]))
            _log.warning("agents cannot be told yet", namespace=group[0], notices=len(notices[group]), exc_info=error)
        else:
            for topic in {one.agent.topic for one in messages.values()}:
                db.notify(topic)
    return failed


async def _deliver(conn: Connection, messages: Sequence[Message]) -> None:
    noted = await exchanges.append(conn, [one.exchange for one in messages])
    new = {(one.key, one.exchange_id) for one in noted if one.new}
    await agent_events.enqueue(conn, [one.event for one in messages if (one.agent, one.exchange.exchange_id) in new])


async def _settle(db: Database, tellings: Iterable[_Telling]) -> None:
    """Remove what was told, a transaction for each line; what is not told to all goes on from there."""
    told: defaultdict[str, list[str]] = defaultdict(list)
    for telling in tellings:
        notice = telling.notice
        if telling.more:
            async with db.connection() as conn:
                await outbox.go_on(
                    conn, line=notice.line, outbox_id=notice.outbox_id, progress=telling.runs[-1].branch_id
                )
        else:
            told[notice.line].append(notice.outbox_id)
            NOTICES.labels(notice.kind).inc()
    for line, outbox_ids in told.items():
        async with db.connection() as conn:
            await outbox.settle(conn, line=line, outbox_ids=outbox_ids)
