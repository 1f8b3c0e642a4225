"""The wake queue looks by the clock and by the bell, survives what fails, and lets go of what it cannot finish."""

import asyncio
import itertools
from dataclasses import replace

import pytest
from tests.unit.rows import job

from anabranch.controllers import wake, workers
from anabranch.controllers.bell import Bell
from anabranch.kube.errors import RightMissingError
from anabranch.model.errors import InvalidInputError, UnavailableError
from anabranch.store.leases import Claim, FencedError


class Database:
    """Hands out a connection that nothing is asked of."""

    def connection(self):
        return self

    async def __aenter__(self):
        return None

    async def __aexit__(self, *error):
        return None


class Leases:
    """Stands in for the table of jobs, and notes what is written to it."""

    def __init__(self, due=()):
        self.due = list(due)
        self.renewed = self.claims = self.idle = 0
        self.among = []
        self.released, self.failed = [], []
        self.fenced = False
        self.away = 0

    async def claim(self, _conn, *, holder, limit, among):
        self.claims += 1
        self.among.append(among)
        idle = min(self.idle, max(limit, among))
        self.idle -= idle
        taken, self.due = self.due[: limit - idle], self.due[limit - idle :]
        return Claim([replace(row, holder=holder) for row in taken], idle)

    async def renew(self, _conn, *, job):
        self.renewed += 1
        if self.fenced:
            raise FencedError("fenced")
        return job

    async def release(self, _conn, *, job, due_in=None):
        if self.away:
            self.away -= 1
            raise UnavailableError("Postgres is away.")
        self.released.append((job.name, due_in.total_seconds()))

    async def fail(self, _conn, *, job, error, retry_in):
        self.failed.append((error, retry_in.total_seconds()))
        return job

    async def get(self, _conn, _job_id):
        return None


@pytest.fixture
def leases(monkeypatch):
    fake = Leases()
    for name in ("claim", "renew", "release", "fail"):
        monkeypatch.setattr(workers.leases, name, getattr(fake, name))
    monkeypatch.setattr(workers.jobs, "get", fake.get)
    return fake


def due(name="scout-1", **changes):
    return replace(job(name=name, job_id=f"job_{name}", **changes).job)


def made(advance, *, slots=2, changed=lambda: None):
    return workers.Workers(Database(), advance=advance, holder="me", slots=slots, changed=changed)


async def until(condition):
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110  (what is waited for has no event)
            await asyncio.sleep(0.005)


async def settled(pool):
    await until(lambda: not pool._running)


async def test_a_process_claims_no_more_jobs_than_it_works_on_at_once(leases):
    going = asyncio.Event()
    leases.due = [due(str(number)) for number in range(5)]
    pool = made(lambda _: going.wait(), slots=2)
    await pool.look()
    await pool.look()
    assert (len(leases.due), leases.claims) == (3, 1)
    going.set()
    await settled(pool)
    await pool.look()
    assert len(leases.due) == 1


async def test_where_no_job_needs_work_the_next_look_goes_through_more(leases):
    """They take no slot: a backlog of them is done in few statements, and one of others is not walked through."""
    looks = []
    leases.idle, pool = 1_000, made(lambda _: asyncio.sleep(0), slots=4, changed=lambda: looks.append(None))
    while leases.idle:
        await pool.look()
    assert leases.among == [0, 16, 64, 256, 500, 500]
    assert len(looks) == len(leases.among)
    leases.idle, leases.due = 1, [due()]
    await pool.look()
    await settled(pool)
    await pool.look()
    assert leases.among[-2:] == [500, 0]


async def test_the_lease_is_renewed_at_a_third_of_it(leases):
    loop, at = asyncio.get_running_loop(), []

    async def work(_job):
        at.append(loop.time())
        while len(at) < 4:
            if leases.renewed == len(at):
                at.append(loop.time())
            await asyncio.sleep(0.005)

    leases.due = [due(lease_seconds=0.3)]
    pool = made(work)
    await pool.look()
    await settled(pool)
    shortest = min(after - before for before, after in itertools.pairwise(at))
    assert 0.08 < shortest < 0.2, "a busy machine delays one or another, and not each by as much again"


async def test_a_worker_that_lost_its_lease_is_stopped_and_writes_nothing(leases):
    stopped = asyncio.Event()

    async def work(_job):
        try:
            await asyncio.sleep(60)
        finally:
            stopped.set()

    leases.due, leases.fenced = [due(lease_seconds=0.03)], True
    pool = made(work)
    await pool.look()
    await asyncio.wait_for(settled(pool), 30)
    assert stopped.is_set()
    assert (leases.failed, leases.released) == ([], [])


@pytest.mark.parametrize(
    "error", [InvalidInputError("No.", hint="Mend it."), RightMissingError("forbidden"), KeyError("x")]
)
async def test_a_failure_is_counted_and_tried_again_later(leases, error):
    async def work(_job):
        raise error

    leases.due = [due()]
    pool = made(work)
    await pool.look()
    await settled(pool)
    ((told, retry_in),) = leases.failed
    assert 0.5 <= retry_in <= 1
    assert told == ("KeyError: see the operator's log." if isinstance(error, KeyError) else str(error))


async def test_an_outage_uses_up_no_attempt_and_is_waited_out_longer_each_time(leases):
    async def work(_job):
        raise UnavailableError("The API server is away.")

    pool = made(work)
    for _ in range(4):
        leases.due = [due()]
        await pool.look()
        await settled(pool)
    waits = [wait for _, wait in leases.released]
    assert leases.failed == []
    assert waits == sorted(waits)
    assert waits[-1] >= 4


async def test_a_job_is_let_go_once_postgres_is_back_not_when_its_lease_runs_out(leases, monkeypatch):
    async def work(_job):
        raise UnavailableError("Postgres is away.")

    monkeypatch.setattr(workers, "_RETRY_SECONDS", 0.01)
    leases.due, leases.away = [due()], 3
    pool = made(work)
    await pool.look()
    await settled(pool)
    assert (len(leases.released), leases.away) == (1, 0)


async def test_a_worker_that_ends_does_not_wait_for_postgres(leases):
    leases.due, leases.away = [due()], 1_000
    pool = made(lambda _: asyncio.sleep(60))
    await pool.look()
    await asyncio.wait_for(pool.stop(0.01), 30)
    assert (leases.released, leases.away) == ([], 999)


async def test_another_workers_fence_is_no_failure(leases):
    async def work(_job):
        raise FencedError("another has it")

    leases.due = [due()]
    pool = made(work)
    await pool.look()
    await settled(pool)
    assert (leases.failed, leases.released) == ([], [])


async def test_a_stop_waits_for_jobs_at_hand_then_lets_go_of_them_for_others(leases):
    leases.due = [due("quick"), due("slow"), due("never")]
    seconds = {"quick": 0.05, "slow": 60}
    pool = made(lambda row: asyncio.sleep(seconds[row.name]))
    await pool.look()
    await pool.stop(1)
    await pool.look()
    assert leases.released == [("slow", 0.0)]
    assert [row.name for row in leases.due] == ["never"]


async def test_a_job_that_ends_makes_the_queue_look_again(leases):
    rung = []
    leases.due = [due()]
    pool = made(lambda _: asyncio.sleep(0), changed=lambda: rung.append(1))
    await pool.look()
    await settled(pool)
    assert len(rung) == 2


async def test_one_look_that_fails_is_tried_again_and_holds_up_no_other(monkeypatch):
    monkeypatch.setattr(wake.backoff, "delay", lambda *_, **__: 0.01)
    monkeypatch.setattr(wake, "POLL_SECONDS", 3_600.0)  # so that nothing but the bell makes it look again
    looked = {"bad": 0, "good": 0}

    async def bad():
        looked["bad"] += 1
        raise UnavailableError("away") if looked["bad"] == 1 else KeyError("a defect")

    async def good():
        looked["good"] += 1
        return looked["good"] < 5

    queue = wake.WakeQueue([wake.Chore("bad", bad), wake.Chore("good", good)])
    running = asyncio.create_task(queue.run())
    await until(lambda: looked["good"] == 5)
    await until(lambda: looked["bad"] > 3)
    queue.ring()
    await until(lambda: looked["good"] == 6)
    running.cancel()
    await asyncio.wait({running})


async def test_a_look_happens_without_any_bell(monkeypatch):
    monkeypatch.setattr(wake, "POLL_SECONDS", 0.02)
    looked = 0

    async def look():
        nonlocal looked
        looked += 1
        return False

    running = asyncio.create_task(wake.WakeQueue([wake.Chore("it", look)]).run())
    await until(lambda: looked > 3)
    running.cancel()
    await asyncio.wait({running})


async def test_a_ring_that_nobody_waited_for_is_heard_by_the_next_who_waits():
    bell = Bell()
    bell.ring()
    bell.ring()
    loop = asyncio.get_running_loop()
    began = loop.time()
    await bell.wait(60)
    assert loop.time() - began < 30
    began = loop.time()
    await bell.wait(0.05)
    assert loop.time() - began >= 0.04


async def test_a_job_that_was_done_by_being_claimed_takes_no_slot(leases):
    begun, rung = [], []

    async def advance(job):
        begun.append(job.name)

    leases.idle, leases.due = 1, [due("scout-1")]
    await made(advance, changed=lambda: rung.append(True)).look()
    await until(lambda: len(rung) == 2)
    assert begun == ["scout-1"]


async def test_a_loop_that_is_ended_at_the_moment_of_a_ring_ends():
    bell = Bell()

    async def loop():
        while True:
            await bell.wait(1)

    looping = asyncio.create_task(loop())
    await asyncio.sleep(0)
    bell.ring()
    await asyncio.sleep(0)
    looping.cancel()
    await asyncio.wait({looping}, timeout=30)
    assert looping.cancelled()


async def test_a_look_for_what_can_wait_rests_once_there_is_no_more():
    answers = [True, False, False]
    looked = []

    async def look():
        looked.append(asyncio.get_running_loop().time())
        return answers[len(looked) - 1]

    seldom = wake.Seldom("old things", look, rest_seconds=1.0)
    assert [await seldom.look() for _ in range(4)] == [True, False, False, False]
    assert len(looked) == 2
    await asyncio.sleep(1.01)
    await seldom.look()
    assert len(looked) == 3
