"""Lookups have shares: whoever cites much that is slow makes nobody else wait."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from anabranch.consolidation.sources import Citation, Found, SourceChecker, UnreachableSourceError
from anabranch.consolidation.sources.check import JOB_OUTSIDE, JOB_PARALLEL, LINE_PARALLEL, OUTSIDE_PARALLEL

EVIDENCE = f"evidence:sha256:{'0' * 64}"


def pages(host, count):
    return [f"https://{host}.example.org/{number}" for number in range(count)]


def citing(line="line-1"):
    return Citation(line=line, namespace="team", branch_id="br_1", agent=None)


class Slow:
    """Pages that answer when they are let; what the system keeps answers at once."""

    def __init__(self):
        self.running = Counter()
        self.asked = []
        self.let = asyncio.Event()
        self.checker = SourceChecker({"https": self.page, "evidence": self.evidence})

    async def page(self, citation, locator):
        self.asked.append(locator.parts["url"])
        self.running[citation.line] += 1
        await self.let.wait()
        return Found(verified=True)

    async def evidence(self, _citation, _locator):
        return Found(verified=True)

    async def begin(self, *locators, line="line-1"):
        job = asyncio.create_task(self.checker.check(citing(line), locators))
        for _ in range(10):
            await asyncio.sleep(0)
        return job


async def test_what_the_system_keeps_does_not_wait_behind_slow_pages():
    slow = Slow()
    jobs = [await slow.begin(*pages(f"host-{number}", 50), line=f"line-{number}") for number in range(20)]
    assert slow.running.total() == OUTSIDE_PARALLEL

    found = await asyncio.wait_for(slow.checker.check(citing(), [EVIDENCE]), 30)

    assert found == {EVIDENCE: Found(verified=True)}
    slow.let.set()
    await asyncio.gather(*jobs)


async def test_a_job_that_cites_much_leaves_room_for_others_of_its_line_and_for_other_lines():
    slow = Slow()
    large = await slow.begin(*pages("large", 200))
    assert slow.running == {"line-1": JOB_PARALLEL}

    others = [await slow.begin(*pages(f"small-{number}", 1)) for number in range(3)]
    others.append(await slow.begin(*pages("elsewhere", 1), line="line-2"))

    assert slow.running == {"line-1": JOB_PARALLEL + 3, "line-2": 1}
    slow.let.set()
    assert all(one.verified for one in (await large).values())
    await asyncio.gather(*others)


async def test_a_line_with_many_jobs_leaves_room_for_other_lines():
    slow = Slow()
    jobs = [await slow.begin(*pages(f"host-{number}", 20)) for number in range(10)]
    assert slow.running == {"line-1": LINE_PARALLEL}

    jobs.append(await slow.begin(*pages("elsewhere", 9), line="line-2"))

    assert slow.running == {"line-1": LINE_PARALLEL, "line-2": JOB_PARALLEL}
    slow.let.set()
    await asyncio.gather(*jobs)


async def test_sources_beyond_a_jobs_limit_are_refused_by_the_limits_name_and_kept_ones_are_not():
    slow = Slow()
    slow.let.set()
    cited = pages("host", JOB_OUTSIDE + 2)

    found = await slow.checker.check(citing(), [*cited, EVIDENCE, cited[0]])

    assert len(slow.asked) == JOB_OUTSIDE
    refused = [text for text, one in found.items() if not one.verified]
    assert refused == cited[JOB_OUTSIDE:]
    assert f"{JOB_OUTSIDE} sources" in found[refused[0]].detail


@pytest.mark.parametrize("last_try", [False, True])
async def test_once_a_source_cannot_be_asked_the_others_are_left_for_the_next_try(last_try):
    asked = []

    async def away(_citation, locator):
        asked.append(locator)
        raise UnreachableSourceError("gone")

    checker = SourceChecker({"https": away})
    if last_try:
        found = await checker.check(citing(), pages("host", 50), last_try=True)
        assert {(one.verified, one.detail) for one in found.values()} == {(False, "gone")}
        assert len(asked) == 50
        return
    with pytest.raises(UnreachableSourceError, match="gone"):
        await checker.check(citing(), pages("host", 50))
    assert len(asked) == 1


async def test_a_defect_in_one_lookup_ends_the_others():
    ended = []

    async def one_is_broken(_citation, locator):
        if locator.text.endswith("/0"):
            await asyncio.sleep(0)
            raise RuntimeError("broken")
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(locator)

    with pytest.raises(RuntimeError, match="broken"):
        await SourceChecker({"https": one_is_broken}).check(citing(), pages("host", 4))
    await asyncio.sleep(0)
    assert len(ended) == 3
