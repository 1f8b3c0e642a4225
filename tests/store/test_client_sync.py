"""An agent without an event loop: it reads, writes, submits and follows by calls that wait."""

from __future__ import annotations

import asyncio
import time

import pytest
from tests.store.building import version
from tests.store.working import CONTENTS, RUN, finding
from tests.store.world import AGENTS, TEAM

from anabranch.client.sync import SyncClient
from anabranch.client.worker import Follow
from anabranch.model.errors import NotFoundError


def work(url, file):
    """What an agent does, in a thread without a loop."""
    with SyncClient(url, token="ada") as client:
        assert client.record(TEAM, "facts", "a").content == "one"
        assert [fact.key for fact in client.records(TEAM, "facts")] == list(CONTENTS)
        first = next(client.records(TEAM, "facts"))
        assert first.key == "a"
        with pytest.raises(NotFoundError):
            client.record(TEAM, "facts", "absent")
        with client.worker(file, namespace=AGENTS, branch=RUN) as worker:
            worker.sync()
            assert worker.follow is None
            worker.follow = Follow.APPLY
            with worker.running():
                worker.write("mine", 1)
                worker.submit(finding("found", 2))
                while worker.status().waiting:
                    time.sleep(0.02)
            return {record.key: record.content for record in worker.records()}, worker.outcome(1)


async def test_an_agent_without_an_event_loop(place, tmp_path):
    await place.publish(version("b", "changed"))
    contents, outcome = await asyncio.to_thread(work, place.served.url, tmp_path / "sync.db")
    assert contents == {**CONTENTS, "b": "changed", "mine": 1}
    assert outcome.sequence == 1
