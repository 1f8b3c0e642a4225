"""An operator that has nothing to do, among a thousand Branches, leaves the API server and Postgres alone."""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from collections import Counter

import asyncpg
import pytest
from benchmarks.crowd import Crowd
from tests.cluster.places import eventually

from anabranch.manifests import OPERATOR_ACCOUNT

pytestmark = pytest.mark.long

BRANCHES = 1_000
WINDOW_SECONDS = 10.0
WRITES = {"create", "update", "patch", "delete"}


@pytest.fixture
async def thousand(stack):
    """A thousand Branches as after a restart of their operator, which has just had it; gives their namespace."""
    if stack.cluster.audit_log is None:
        pytest.skip("only a local control plane has an audit log")
    crowd, namespace = Crowd(stack), f"idle-{secrets.token_hex(4)}"
    await asyncio.to_thread(crowd.home)
    await asyncio.to_thread(crowd.model, f"{namespace}-model", ready=True)
    await asyncio.to_thread(stack.stop, "operator")
    await crowd.copy(f"{namespace}-model", namespace, BRANCHES, rows=True)
    yield namespace
    await asyncio.to_thread(stack.stop, "operator")
    await crowd.remove(namespace)
    await asyncio.to_thread(stack.start_operator)


def calls(stack, begin, namespace=None):
    """What the operator has asked of the API server since, about a namespace or at all: by verb and resource."""
    user = f"system:serviceaccount:{stack.namespace}:{OPERATOR_ACCOUNT}".encode()
    with stack.cluster.audit_log.open("rb") as log:
        log.seek(begin)
        entries = [json.loads(line) for line in log if user in line and line.endswith(b"\n")]
    objects = [(entry["verb"], entry.get("objectRef", {})) for entry in entries]
    return Counter(
        (verb, what.get("resource", ""))
        for verb, what in objects
        if namespace is None or what.get("namespace") == namespace
    )


async def transactions(stack):
    conn = await asyncpg.connect(stack.admin_dsn)
    try:
        return await conn.fetchval("SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()")
    finally:
        await conn.close()


async def test_an_operator_that_starts_among_a_thousand_branches_writes_nothing_and_then_idles(stack, thousand):
    begin, before, began = stack.cluster.audit_log.stat().st_size, await transactions(stack), time.monotonic()
    await asyncio.to_thread(stack.start_operator)
    await asyncio.sleep(6)  # until the statuses are compared too, or later on a busy machine

    async def settled():
        seen, since = await transactions(stack), time.monotonic()
        await asyncio.sleep(3)
        calm = (await transactions(stack) - seen) / (time.monotonic() - since) < BRANCHES / 10
        return calm and calls(stack, begin)["list", "branches"] >= BRANCHES / 500

    await eventually(settled)
    starting = calls(stack, begin)
    assert starting["list", "branches"] >= BRANCHES / 500, "it has looked at all of them"
    # What earlier tests of this stack left may be due as well; these are not.
    assert not {verb for verb, _ in calls(stack, begin, thousand) if verb in WRITES}
    at_start, seconds_of_start = await transactions(stack) - before, time.monotonic() - began

    begin, before, began = stack.cluster.audit_log.stat().st_size, await transactions(stack), time.monotonic()
    await asyncio.sleep(WINDOW_SECONDS)
    idle, seconds = calls(stack, begin), time.monotonic() - began
    # It looks at the database from time to time whatever there is: what is asked beyond that is for the start.
    a_second = (await transactions(stack) - before) / seconds
    assert a_second < BRANCHES / 10, a_second
    assert at_start - a_second * seconds_of_start < BRANCHES / 2, (at_start, a_second)
    writes = sum(count for (verb, _), count in idle.items() if verb in WRITES)
    reads = sum(idle.values()) - writes
    assert 0 < writes < seconds, idle  # the Lease is renewed: the log tells
    assert reads < 2 * seconds, idle
