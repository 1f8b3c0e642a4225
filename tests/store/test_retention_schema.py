"""The schema that retention brings, on a database that has lived without it."""

from __future__ import annotations

from pathlib import Path

import asyncpg

from anabranch.store import migrate, migrations

VERSIONS = Path(migrations.__file__).parent / "versions"


async def test_branches_from_before_retention_know_their_parents_and_hold_them_while_they_are_live(empty_database):
    conn = await asyncpg.connect(empty_database.migrate)
    await conn.execute("CREATE TABLE alembic_version (version_num varchar(32) PRIMARY KEY)")
    for script in ("0001_initial", "0002_roles", "0003_lifecycle"):
        await conn.execute((VERSIONS / f"{script}.sql").read_text(encoding="utf-8"))
    await conn.execute(
        """
        INSERT INTO alembic_version VALUES ('0003');
        INSERT INTO lines (line, namespace, namespace_uid, name, uid) VALUES ('l', 'n', 'u', 'facts', 'u');
        INSERT INTO manifests (line, generation, baseline_id, parent_generation, manifest_hash, records, revision,
                               origin, feed_watermark)
        SELECT 'l', number, 'bl_' || number, number - 1, 'root'::bytea, 0, number, '{}', 0
        FROM generate_series(1, 2) AS number;
        INSERT INTO branches (line, branch_id, run_id, namespace, name, uid, agent_id, agent_instance, service_account,
                              sharing_policy, parent_generation, phase)
        VALUES ('l', 'live', 'r', 'n', 'live', 'u1', 'a', '0', 'a', '{}', 2, 'Active'),
               ('l', 'over', 'r', 'n', 'over', 'u2', 'a', '0', 'a', '{}', 1, 'Completed');
        """
    )

    await migrate.upgrade(empty_database.migrate)

    rows = await conn.fetch("SELECT * FROM branches ORDER BY branch_id")
    assert [(row["branch_id"], row["parent_baseline_id"], row["held_generation"], row["kept"]) for row in rows] == [
        ("live", "bl_2", 2, "whole"),
        ("over", "bl_1", None, "whole"),
    ]
    # Lines are looked at at once: all of their past may be too old.
    assert await conn.fetchval("SELECT retain_at <= now() FROM lines")
    await conn.close()
