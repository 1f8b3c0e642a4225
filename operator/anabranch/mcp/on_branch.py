"""What an agent's tools do on its branch: each takes its arguments, and asks the API as the agent would."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from anabranch.client.transport import path
from anabranch.mcp.arguments import Peers, Submitted, Update, Updates
from anabranch.model.answers import ViewedRecord
from anabranch.model.canonical import content_hash
from anabranch.model.errors import ForbiddenError, GoneError, NotFoundError
from anabranch.model.limits import PAGE_BYTES
from anabranch.model.objects import Change, RunCompletion

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pydantic import BaseModel

    from anabranch.client import AnabranchClient
    from anabranch.mcp.arguments import (
        CompleteRun,
        FollowUpdates,
        ListPeers,
        ReadRecord,
        Recall,
        Restore,
        SaveCheckpoint,
        SubmitFindings,
        WritePrivate,
    )
    from anabranch.model.answers import CompletionState, PrivateRecord
    from anabranch.model.found import SearchPage
    from anabranch.model.objects import AgentPresence, BranchManifest, SharedEvent
    from anabranch.model.runs import Checkpoint

PEERS: Final = 1_000

ANSWER_BYTES: Final = PAGE_BYTES
"""Of records, from which on an answer ends early. Over HTTP it is made in the API, which has others to answer."""

_AT_ONCE: Final = 4
"""Records that are read at the same time, each of a megabyte perhaps."""


async def recall(client: AnabranchClient, asked: Recall) -> SearchPage:
    """Search what the branch sees."""
    return await client.search_branch(
        asked.namespace, asked.branch, asked.query, mode=asked.mode, limit=asked.limit, cursor=asked.cursor
    )


async def read_record(client: AnabranchClient, asked: ReadRecord) -> ViewedRecord:
    """Read a record."""
    place = path(asked.namespace, "branches", asked.branch, "view", asked.key)
    return await client.get(ViewedRecord, place, query={"layer": asked.layer})


async def write_private(client: AnabranchClient, asked: WritePrivate) -> PrivateRecord:
    """Write a record of the private overlay."""
    fresh = asked.if_revision == "0"
    return await client.put_private(
        asked.namespace,
        asked.branch,
        asked.key,
        asked.content,
        scope=asked.scope,
        visibility=asked.visibility,
        if_match=None if fresh else asked.if_revision,
        if_none_match=fresh,
    )


async def submit_findings(client: AnabranchClient, asked: SubmitFindings) -> Submitted:
    """Submit a batch, its evidence first."""
    branch = await client.branch(asked.namespace, asked.branch)
    changes, sources, bases = [], [], []
    for finding in asked.findings:
        cited = list(finding.sources)
        if finding.evidence is not None:
            evidence = await client.put_evidence(
                asked.namespace, branch.branch_id, finding.evidence.encode(), media_type="text/plain; charset=utf-8"
            )
            cited.append(evidence)
        base = finding.base_revision
        if base is None:
            base = await client.base_revision(asked.namespace, branch.branch_id, finding.key)
        changes.append(
            Change(
                op="tombstone" if finding.delete else "put",
                key=finding.key,
                content=finding.content,
                scope=finding.scope,
                visibility="shareable",
            )
        )
        sources.append(cited)
        bases.append(base)
    last = branch.last_submitted_sequence
    acknowledgement = await client.submit_batch(
        asked.namespace,
        branch.branch_id,
        sequence=asked.sequence or last + 1,
        changes=changes,
        sources=sources,
        base_revisions=bases,
        final=asked.final,
        last_acknowledged_sequence=last if asked.final else None,
    )
    return Submitted(acknowledgement=acknowledgement)


async def follow_updates(client: AnabranchClient, asked: FollowUpdates) -> Updates:
    """Read what was published after a place, each with the record that it is about."""
    branch = await client.branch(asked.namespace, asked.branch)
    namespace, baseline = _baseline(branch)
    if asked.after is None:
        after = (await client.feed_place(asked.namespace, branch.branch_id)).cursor
    else:
        after = asked.after
        if asked.applied:
            await client.save_cursor(asked.namespace, branch.branch_id, after)

    async def told(event: SharedEvent) -> Update:
        if event.key is None:
            return Update(event=event, fact=None)
        try:
            fact = await client.record(namespace, baseline, event.key, ref="current")
        except (ForbiddenError, NotFoundError, GoneError):
            fact = None
        return Update(event=event, fact=fact)

    async def told_of(events: Sequence[SharedEvent]) -> list[Update]:
        updates: list[Update] = []
        size = 0
        while len(updates) < len(events) and size < ANSWER_BYTES:
            some = await asyncio.gather(*map(told, events[len(updates) : len(updates) + _AT_ONCE]))
            updates += some
            size += sum(map(_size, some))
        return updates

    page = await client.events(namespace, baseline, after=after, limit=asked.limit, wait=asked.wait)
    updates = await told_of(page.events)
    while len(updates) < len(page.events):  # the others are for the next call: behind its cursor, and not before it
        page = await client.events(namespace, baseline, after=after, limit=len(updates))
        updates = await told_of(page.events)
    return Updates(updates=tuple(updates), cursor=page.cursor, watermark=page.watermark)


async def complete_run(client: AnabranchClient, asked: CompleteRun) -> CompletionState:
    """Close the run behind the batches that are in."""
    branch = await client.branch(asked.namespace, asked.branch)
    if asked.checkpoint_id is not None:  # nothing can be kept afterwards
        await client.checkpoint(asked.namespace, branch.branch_id, asked.checkpoint_id)
    completion = RunCompletion(
        run_id=branch.run_id,
        branch_id=branch.branch_id,
        agent_id=branch.agent_id,
        baseline_id=branch.parent_snapshot_id,
        checkpoint_locator=None if asked.checkpoint_id is None else f"checkpoint:{asked.checkpoint_id}",
        last_submitted_sequence=branch.last_submitted_sequence,
        delta_hash=content_hash([]),
    )
    return await client.complete(asked.namespace, branch.branch_id, completion)


async def checkpoint(client: AnabranchClient, asked: SaveCheckpoint) -> Checkpoint:
    """Keep a checkpoint."""
    return await client.put_checkpoint(
        asked.namespace,
        asked.branch,
        asked.checkpoint_id,
        asked.capsule,
        session_id=asked.session_id,
        references=asked.references,
        expected_latest=asked.expected_latest,
    )


async def restore(client: AnabranchClient, asked: Restore) -> Checkpoint:
    """A checkpoint, or its session's latest."""
    if asked.checkpoint_id is not None:
        return await client.checkpoint(asked.namespace, asked.branch, asked.checkpoint_id)
    latest = await client.latest_checkpoint(asked.namespace, asked.branch, session_id=asked.session_id)
    if latest is None:
        raise NotFoundError(f"The session {asked.session_id!r} has no checkpoint.", hint="Begin the task anew.")
    return latest


async def peers(client: AnabranchClient, asked: ListPeers) -> Peers:
    """The runs on the branch's Baseline."""
    namespace, baseline = _baseline(await client.branch(asked.namespace, asked.branch))
    found: list[AgentPresence] = []
    async for peer in client.peers(namespace, baseline):
        found.append(peer)
        if len(found) == PEERS:
            break
    return Peers(peers=tuple(found))


def _size(value: BaseModel) -> int:
    return len(value.model_dump_json())


def _baseline(branch: BranchManifest) -> tuple[str, str]:
    """Namespace and name of a branch's Baseline."""
    namespace, _, name = branch.baseline.partition("/")
    return namespace, name
