"""Programs and database of different releases: nobody works on a schema that he does not know, and says so."""

from __future__ import annotations

import subprocess

import asyncpg
import pytest

from anabranch.devcluster import children

pytestmark = pytest.mark.long

NOWHERE = "/nonexistent/kubeconfig"


def start(program, database):
    """Start a program that is going to end by itself; its exit code, and what it said."""
    env = children.environment(
        ANABRANCH_OPERATOR_DSN=database.operator,
        ANABRANCH_API_DSN=database.api,
        ANABRANCH_CURSOR_KEYS="a-key-that-is-long-enough-for-the-sealer",
        KUBECONFIG=NOWHERE,
    )
    command = children.command("anabranch.cli.main", program)
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=env, timeout=60)
    return done.returncode, done.stdout + done.stderr


async def set_version(database, version):
    conn = await asyncpg.connect(database.admin)
    await conn.execute("UPDATE alembic_version SET version_num = $1", version)
    await conn.execute("UPDATE schema_floor SET version = $1", version)
    await conn.close()


@pytest.mark.parametrize("program", ["operator", "api"])
async def test_a_program_that_is_older_than_the_schema_refuses_to_start_and_says_so(database, program):
    await set_version(database, "9999")
    code, said = start(program, database)
    assert code != 0
    assert "The database is at schema 9999, which is newer than this program" in said
    assert "Run the version of Anabranch that migrated it" in said
    assert "Traceback" not in said


@pytest.mark.parametrize("program", ["operator", "api"])
async def test_a_program_of_the_same_release_gets_past_the_schema(database, program):
    code, said = start(program, database)
    assert code != 0
    assert "No usable Kubernetes configuration" in said
