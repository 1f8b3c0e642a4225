"""Connections to Postgres as all of this program has them: with which settings, and given up when the peer vanishes.

A server that is killed says so; a machine that vanishes says nothing, and a client that waits for its answer would wait
until the network's own patience ends, which is a quarter of an hour. So every connection is probed by the system, and
given up 20 seconds after the last sign of life: then a pool is on its way to the new primary before its callers have
given up.
"""

from __future__ import annotations

import json
import socket
from typing import TYPE_CHECKING, Any, Final

import asyncpg

if TYPE_CHECKING:
    from collections.abc import Mapping

    from anabranch.store.database import Connection

SETTINGS: Final = {
    "statement_timeout": "30s",
    "lock_timeout": "10s",
    "idle_in_transaction_session_timeout": "60s",
    "timezone": "UTC",
    "jit": "off",  # compiling takes longer than any query here runs
    # Every query walks an index that begins with what it names. A plan must not depend on how large a line was when the
    # statement was first planned on this connection, or on whether the statistics have seen the line yet.
    "enable_seqscan": "off",
    "enable_bitmapscan": "off",
}

FAILURES: Final = (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError)
"""What the driver says when a server does not do what it is asked, or is not the one that was asked for."""

UNHEARD_SECONDS: Final = 20
"""How long what was sent may stay without an acknowledgement."""

_PROBES: Final = {"TCP_KEEPIDLE": 10, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 2, "TCP_USER_TIMEOUT": UNHEARD_SECONDS * 1_000}


class _Connection(asyncpg.Connection):
    """A connection that remembers that a commit did not wait for its standby to the end."""

    __slots__ = ("unsettled",)

    def _process_log_message(self, fields: dict[str, str], last_query: str) -> None:
        # By the function that says it: the words are in the server's language, and the code is that of all warnings.
        if fields.get("R") == "SyncRepWaitForLSN":
            self.unsettled = True
        super()._process_log_message(fields, last_query)  # type: ignore[misc]  # its stubs leave it out


def take_unsettled(conn: Connection) -> bool:
    """Whether a commit since the last call was ended before its standby had it; Postgres has called it a success."""
    inner: Any = getattr(conn, "_con", conn)  # the proxy of a pool does not pass a subclass's attributes on
    found = bool(getattr(inner, "unsettled", False))
    if found:
        inner.unsettled = False
    return found


async def create(  # noqa: PLR0913  (all but the address by keyword)
    dsn: str,
    *,
    application_name: str,
    min_size: int,
    max_size: int,
    connect_seconds: float,
    settings: Mapping[str, str] | None = None,
) -> asyncpg.Pool[asyncpg.Record]:
    """A pool of connections; one without a minimum connects when it is first used.

    Args:
        dsn: ``postgresql://user:password@host:port/database``, or with several hosts and ``target_session_attrs``.
        application_name: What ``pg_stat_activity`` shows.
        min_size: Connections that stay open.
        max_size: Connections at most.
        connect_seconds: How long connecting to one host may take.
        settings: Of each session, beside `SETTINGS`.
    """
    return await asyncpg.create_pool(
        dsn,
        min_size=min_size,
        max_size=max_size,
        timeout=connect_seconds,
        init=prepare,
        reset=_keep,
        connection_class=_Connection,
        server_settings={"application_name": application_name, **SETTINGS, **(settings or {})},
    )


async def prepare(conn: Connection) -> None:
    """Make jsonb travel as Python values, in the binary form that COPY needs too, and have the peer's end noticed."""
    probe(conn)
    await conn.set_type_codec("jsonb", schema="pg_catalog", encoder=_to_jsonb, decoder=_from_jsonb, format="binary")


def probe(conn: Connection) -> None:
    """Have the system give a connection up whose server has vanished."""
    transport = conn._transport  # type: ignore[union-attr]  # noqa: SLF001  (the driver has no option for it)
    own = transport.get_extra_info("socket")
    if own is None or own.family not in {socket.AF_INET, socket.AF_INET6}:
        return
    own.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _PROBES.items():
        if hasattr(socket, name):  # Linux has them all
            own.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


async def _keep(_conn: Connection) -> None:
    """Nothing to reset: no code here leaves a setting, a lock or a cursor behind. It saves a round trip each time."""


def _to_jsonb(value: Any) -> bytes:
    return b"\x01" + json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def _from_jsonb(raw: bytes) -> Any:
    return json.loads(memoryview(raw)[1:].tobytes())
