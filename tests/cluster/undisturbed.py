"""What all tests of a run share on the stack, so that a file that leaves it otherwise than it found it fails itself.

Files come in any order. Without this, another one would fail for it, in one run of many, and nobody would see why.
"""

from __future__ import annotations

import json
import time
import urllib.request
from http.client import HTTPException
from typing import TYPE_CHECKING

import asyncpg
from tests.pace import allowed

from anabranch.devcluster import databases
from anabranch.devcluster.processes import Processes

if TYPE_CHECKING:
    from anabranch.devcluster.stack import Stack

OF_THE_CLUSTER = (
    "crd,clusterroles,clusterrolebindings,validatingadmissionpolicies,validatingadmissionpolicybindings,"
    "serviceaccounts,configmaps,secrets,pods,deployments"
)
"""Kinds of the whole cluster, and of the system namespace: but for what serves only the operator of another store."""

OF_THE_DATABASE = """
    SELECT 'database ' || datname FROM pg_database
    UNION ALL SELECT 'role ' || rolname FROM pg_roles
    UNION ALL SELECT 'setting of a role ' || setrole || ' ' || setdatabase || ' ' || setconfig::text
    FROM pg_db_role_setting
    UNION ALL SELECT 'setting of the server ' || name || '=' || setting
    FROM pg_file_settings WHERE sourcefile LIKE '%auto.conf'
    UNION ALL SELECT 'relation ' || oid::regclass FROM pg_class WHERE relnamespace = 'public'::regnamespace
    UNION ALL SELECT 'function ' || oid::regprocedure FROM pg_proc WHERE pronamespace = 'public'::regnamespace
    UNION ALL SELECT 'trigger ' || tgname FROM pg_trigger WHERE NOT tgisinternal
"""

OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))

LEADS_WITHIN = 40.0
"""Seconds until the operator leads: those of the Lease of one that was killed, and some more."""


def state(stack: Stack) -> frozenset[str]:
    """What is there, each thing in words."""
    processes = Processes(stack.folder)
    running = {file.stem for file in (stack.folder / "run").glob("*.json") if processes.running(file.stem)}
    objects = stack.cluster.kubectl("get", OF_THE_CLUSTER, f"--namespace={stack.namespace}", "--output=name").split()
    return frozenset(
        {
            *(f"process {name}" for name in running),
            f"config.yaml: {(stack.folder / 'config.yaml').read_text()}",
            *objects,
            *databases.blocking(_database(stack.admin_dsn)),
        }
    )


def await_leader(stack: Stack) -> None:
    """Wait until the ordinary operator leads: a test may have ended another one, or the whole of Postgres."""
    deadline = time.monotonic() + allowed(LEADS_WITHIN)
    while not _leads(stack):
        assert time.monotonic() < deadline, "the ordinary operator does not lead any more"
        time.sleep(0.1)


def _leads(stack: Stack) -> bool:
    try:
        with OPENER.open(f"{stack.inner_url('operator')}/readyz", timeout=5) as answer:
            return bool(json.load(answer)["leading"])
    except (OSError, HTTPException):
        return False


async def _database(dsn: str) -> list[str]:
    conn = await asyncpg.connect(dsn)
    try:
        return [row[0] for row in await conn.fetch(OF_THE_DATABASE)]
    finally:
        await conn.close()
