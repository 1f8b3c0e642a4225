"""Runs the SQL file beside a migration: migrations are SQL, and Alembic keeps their order and the version."""

from __future__ import annotations

from pathlib import Path

from alembic import op


def run(migration: str) -> None:
    """Run the ``.sql`` file of the same name as a migration's ``.py``, inside the migration's transaction.

    Args:
        migration: The ``__file__`` of the migration.
    """
    sql = Path(migration).with_suffix(".sql").read_text(encoding="utf-8")
    # The driver itself: SQLAlchemy prepares what it runs, and a prepared statement is one statement.
    driver = op.get_bind().connection.dbapi_connection
    driver.run_async(lambda connection: connection.execute(sql))  # type: ignore[union-attr]  # asyncpg's adapter has it
