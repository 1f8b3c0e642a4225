"""The three database roles: made with their passwords, which no server log gets to see.

``anabranch_migrate`` owns the tables, ``anabranch_operator`` writes them, ``anabranch_api`` cannot write what is
published (``0002_roles.sql`` says who may what).
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import asyncpg

from anabranch.model.errors import InvalidInputError
from anabranch.store import migrate
from anabranch.store.migrate import API_ROLE, MIGRATE_ROLE, OPERATOR_ROLE

if TYPE_CHECKING:
    from anabranch.store.database import Connection

_SCRAM_ITERATIONS: Final = 4096
_ATTEMPTS: Final = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class RolePasswords:
    """The passwords of the three database roles, in ASCII."""

    migrate: str = field(repr=False)
    operator: str = field(repr=False)
    api: str = field(repr=False)


async def ensure_roles(admin_dsn: str, passwords: RolePasswords) -> None:
    """Make the three roles with these passwords, and let ``anabranch_migrate`` create tables in this database.

    Safe to repeat, and when two do it at once.

    Args:
        admin_dsn: Of a role with CREATEROLE that owns the database, ``postgresql://…/database``.
        passwords: Set on each call, so a changed one takes effect.
    """
    verifiers = {
        MIGRATE_ROLE: _scram_verifier(passwords.migrate),
        OPERATOR_ROLE: _scram_verifier(passwords.operator),
        API_ROLE: _scram_verifier(passwords.api),
    }
    conn = await migrate.connect(admin_dsn)
    try:
        for attempt in range(_ATTEMPTS):
            try:
                async with conn.transaction():
                    # Serializes those who come through this database; roles are the server's, hence the attempts.
                    await conn.execute("SELECT pg_advisory_xact_lock($1)", migrate.LOCK)
                    await _make_roles(conn, verifiers)
            except (asyncpg.DuplicateObjectError, asyncpg.UniqueViolationError, asyncpg.InternalServerError):
                if attempt == _ATTEMPTS - 1:
                    raise
                await asyncio.sleep(0.05 * 2**attempt)
            else:
                return
    finally:
        await conn.close()


async def _make_roles(conn: Connection, verifiers: dict[str, str]) -> None:
    for role, verifier in verifiers.items():
        exists = await conn.fetchval("SELECT EXISTS (SELECT FROM pg_roles WHERE rolname = $1)", role)
        # Names and passwords cannot be parameters of these commands: Postgres itself quotes them.
        await conn.execute(
            await conn.fetchval(
                "SELECT format('%s ROLE %I LOGIN PASSWORD %L', $1::text, $2::text, $3::text)",
                "ALTER" if exists else "CREATE",
                role,
                verifier,
            )
        )
    grants = await conn.fetch(
        """
        SELECT format('GRANT CONNECT, TEMPORARY ON DATABASE %I TO %I', current_database(), role) AS command
        FROM unnest($1::text[]) AS role
        UNION ALL SELECT format('GRANT CREATE ON SCHEMA public TO %I', $2::text)
        """,
        list(verifiers),
        MIGRATE_ROLE,
    )
    for grant in grants:
        await conn.execute(grant["command"])


def _scram_verifier(password: str) -> str:
    """What Postgres stores of a password (RFC 5803): sent in its stead, so that no server log shows the password."""
    if not password or not password.isascii():
        raise InvalidInputError(
            "A database password is empty or not ASCII.", hint="Generate one of letters and digits."
        )
    salt = os.urandom(16)
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), salt, _SCRAM_ITERATIONS)
    stored = hashlib.sha256(hmac.digest(salted, b"Client Key", "sha256")).digest()
    server = hmac.digest(salted, b"Server Key", "sha256")
    salt_text, stored_text, server_text = (base64.b64encode(part).decode() for part in (salt, stored, server))
    return f"SCRAM-SHA-256${_SCRAM_ITERATIONS}:{salt_text}${stored_text}:{server_text}"
