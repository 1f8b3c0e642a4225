"""The floor of the stack: a bare FastAPI route with one INSERT by asyncpg, and nothing else.

It is served as the API is: uvicorn with uvloop and httptools, one process, a pool of ten connections. It checks
nothing, knows nobody, and makes no JSON but its small answer.

    python -m benchmarks.bare PORT        # ANABRANCH_BARE_DSN names a database, in which it makes its table
"""

from __future__ import annotations

import os
import sys
from typing import Any

import asyncpg
import uvicorn
import uvloop
from fastapi import FastAPI, Request

DSN = "ANABRANCH_BARE_DSN"

_TABLE = """
CREATE TABLE IF NOT EXISTS acknowledged (
    branch_id text NOT NULL, sequence bigint NOT NULL, body bytea NOT NULL,
    received_at timestamptz NOT NULL DEFAULT clock_timestamp(), PRIMARY KEY (branch_id, sequence)
)"""
_INSERT = "INSERT INTO acknowledged (branch_id, sequence, body) VALUES ($1, $2, $3) RETURNING received_at"


def create_app(pool: asyncpg.Pool[asyncpg.Record]) -> FastAPI:
    """The application."""
    app = FastAPI()

    @app.get("/readyz")
    async def ready() -> dict[str, Any]:
        return {}

    @app.put("/branches/{branch_id}/batches/{sequence}")
    async def put(branch_id: str, sequence: int, request: Request) -> dict[str, Any]:
        received_at = await pool.fetchval(_INSERT, branch_id, sequence, await request.body())
        return {"branch_id": branch_id, "sequence": sequence, "received_at": received_at}

    return app


async def serve(port: int) -> None:
    """Serve until a signal ends it."""
    async with asyncpg.create_pool(os.environ[DSN], min_size=10, max_size=10) as pool:
        await pool.execute(_TABLE)
        config = uvicorn.Config(create_app(pool), port=port, lifespan="off", log_config=None, access_log=False)
        await uvicorn.Server(config).serve()


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1])))
