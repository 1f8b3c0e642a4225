"""However many findings wait, a call of the tool reads and gives so much at most, and the next ones the rest."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import chain
from types import SimpleNamespace

import pytest

from anabranch.mcp import conflicts
from anabranch.mcp.arguments import ViewConflicts
from anabranch.model.errors import InvalidInputError
from anabranch.model.objects import KnowledgeCandidate
from anabranch.model.reviewing import CandidatePage, JobPage

NOW = datetime(2026, 11, 30, tzinfo=UTC)
HASH = "sha256:" + "0" * 64
AT = {"namespace": "team", "branch": "run"}
MEGABYTE = "x" * (1 << 20)


def candidate(number, *, conflicting=True, state="waiting", content="c"):
    return KnowledgeCandidate(
        candidate_id=f"cand_{number:04}", job_id="job", branch_id="br_1", run_id=None, author="a", op="put",
        key=f"k{number}", content=content, scope="shared", visibility="shareable", content_hash=HASH,
        base_revision="0", source_locators=(), sources=(), origin_runs=(), observed_at=NOW, state=state,
        conflicting=conflicting, reason="", detail="", canonical=None,
    )  # fmt: skip


class Jobs:
    """An API with the jobs of one branch that wait, each with its candidates."""

    def __init__(self, jobs, *, page=2):
        self.jobs, self.page = jobs, page
        self.pages = 0

    async def branch(self, _namespace, _branch):
        return SimpleNamespace(branch_id="br_1", baseline="home/facts")

    async def get(self, kind, path, *, query):
        self.pages += 1
        begin = int(query["cursor"] or 0)
        if kind is JobPage:
            assert (query["state"], query["branch"]) == ("awaiting_review", "br_1")
            found, size = [SimpleNamespace(name=name, job_id=name) for name in sorted(self.jobs)], self.page
        else:
            assert kind is CandidatePage
            found, size = self.jobs[path.split("/")[-2]], query["limit"]
        more = str(begin + size) if len(found) > begin + size else None
        return SimpleNamespace(items=found[begin : begin + size], next_cursor=more)


async def walk(api, *, limit=20, between=lambda: None):
    """The conflicts of each call, until there are no more."""
    answers, cursor = [], None
    while True:
        before = api.pages
        answer = await conflicts.view_conflicts(api, ViewConflicts(**AT, limit=limit, cursor=cursor))
        assert api.pages - before <= conflicts.PAGES
        answers.append([one.key for one in answer.conflicts])
        if (cursor := answer.next_cursor) is None:
            return answers
        between()


def keys(numbers):
    return [f"k{number}" for number in numbers]


async def test_a_few_conflicts_come_in_one_answer_and_nothing_else_does():
    others = [candidate(3, conflicting=False), candidate(4, state="accepted")]
    api = Jobs({"a": [candidate(1), candidate(2), *others], "b": [candidate(5)]})
    assert await walk(api) == [keys([1, 2, 5])]


@pytest.mark.parametrize("limit", [1, 2, 7, 100])
async def test_all_conflicts_come_once_and_in_order_however_many_a_call_gives(limit):
    api = Jobs({f"j{job}": [candidate(100 * job + n) for n in range(13)] for job in range(5)})
    answers = await walk(api, limit=limit)
    assert all(len(answer) <= limit for answer in answers)
    assert list(chain(*answers)) == keys(100 * job + n for job in range(5) for n in range(13))


async def test_an_answer_has_a_megabyte_or_a_single_conflict():
    large = [candidate(n, content=MEGABYTE) for n in range(3)]
    api = Jobs({"a": [*large, *(candidate(n) for n in range(3, 6))]})
    assert await walk(api) == [keys([0]), keys([1]), keys([2]), keys([3, 4, 5])]


async def test_a_call_reads_so_many_pages_and_goes_on_in_the_next_though_it_found_nothing():
    none = [candidate(n, conflicting=False) for n in range(500)]
    api = Jobs({"a": none, "b": [candidate(900)]})
    answers = await walk(api)
    assert len(answers) > 2
    assert list(chain(*answers)) == keys([900])


async def test_what_is_decided_between_two_calls_loses_nothing_else():
    api = Jobs({name: [candidate(10 * place + n) for n in range(3)] for place, name in enumerate("abcd")}, page=10)

    def decided():
        api.jobs.pop("a", None)

    answers = await walk(api, limit=4, between=decided)
    assert list(chain(*answers)) == keys([0, 1, 2, 10, 11, 12, 20, 21, 22, 30, 31, 32])


@pytest.mark.parametrize("cursor", ["x", "", "bnVsbA==", "WzEsMiwzLDRd", "ÿ"])
async def test_a_cursor_that_it_did_not_give_is_refused(cursor):
    with pytest.raises(InvalidInputError, match="cursor"):
        await conflicts.view_conflicts(Jobs({}), ViewConflicts(**AT, cursor=cursor))
