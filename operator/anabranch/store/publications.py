"""Which job has published which generation: once per job, whatever crashes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from anabranch.model.errors import ConflictError
from anabranch.store import queries

if TYPE_CHECKING:
    from anabranch.store.database import Connection

_sql: Final = queries.load("publications")


class AlreadyPublishedError(ConflictError):
    """The job has published before: its work is done."""

    code = "AlreadyPublished"


async def record(conn: Connection, *, line: str, job_id: str, generation: int) -> None:
    """Note that a job has published, in the transaction that publishes: once per job, whatever crashes.

    Raises:
        AlreadyPublishedError: If it had before; ``extra["generation"]`` names the generation.
    """
    if await _sql.record(conn, line=line, job_id=job_id, generation=generation) is None:
        earlier = await _sql.of_job(conn, line=line, job_id=job_id)
        raise AlreadyPublishedError(
            f"The job published generation {earlier} before.", hint="Nothing is left to do.", generation=earlier
        )


async def of_job(conn: Connection, *, line: str, job_id: str) -> int | None:
    """The generation that a job has published, or None."""
    generation: int | None = await _sql.of_job(conn, line=line, job_id=job_id)
    return generation
