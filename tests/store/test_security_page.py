"""What the security page says of database roles is what a migrated database grants them."""

from __future__ import annotations

import asyncpg
from tests.unit.security_page import of_tables, told

RIGHTS = """
    SELECT tables.tablename AS table_name, string_agg(
        lower(privilege) || CASE WHEN NOT has_table_privilege($1, relation, privilege) THEN ' of ' || (
            SELECT string_agg('`' || attname || '`', ', ' ORDER BY attname) FROM pg_attribute
            WHERE attrelid = relation AND attnum > 0 AND NOT attisdropped
                AND has_column_privilege($1, relation, attnum, privilege)
        ) ELSE '' END,
        ', ' ORDER BY ordinal
    ) AS rights
    FROM pg_tables AS tables
    CROSS JOIN LATERAL (SELECT format('%I.%I', schemaname, tablename)::regclass AS relation) AS found
    LEFT JOIN unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE', 'TRUNCATE', 'REFERENCES', 'TRIGGER'])
        WITH ORDINALITY AS privileges (privilege, ordinal)
        ON has_table_privilege($1, relation, privilege)
            OR (privilege IN ('INSERT', 'UPDATE') AND has_any_column_privilege($1, relation, privilege))
    WHERE schemaname = 'public'
    GROUP BY tables.tablename
"""


async def test_what_the_database_roles_may_do_is_told_as_it_is(database):
    conn = await asyncpg.connect(database.admin)
    try:
        rights = [
            {row["table_name"]: row["rights"] or "nothing" for row in await conn.fetch(RIGHTS, role)}
            for role in ("anabranch_operator", "anabranch_api")
        ]
    finally:
        await conn.close()
    both = {table: tuple(each[table] for each in rights) for table in rights[0]}
    assert told("What each database role may do") == list(of_tables(both))
