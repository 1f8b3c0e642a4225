"""Structured memories of a key-value namespace: by when they happened, and by their words.

They are records like all others, of which the time, the labels and the words stand beside. An agent has thousands of
them at most, so both ways read the namespace and nothing else needs to be kept: what is counted for BM25 is counted as
it is asked, and is never behind.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from anabranch.model.limits import MAX_SAFE_INTEGER
from anabranch.store import queries
from anabranch.store.kv import KvRow

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anabranch.store.database import Connection
    from anabranch.store.kv_namespaces import Place

_sql = queries.load("kv_memories")

NEWEST: Final = (MAX_SAFE_INTEGER + 1, "")
"""A place behind which all memories lie."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """Which memories are meant.

    Attributes:
        topic: That they have; None: any.
        tag: That is among theirs.
        since_ms: When they happened at the earliest.
        until_ms: And at the latest.
    """

    topic: str | None = None
    tag: str | None = None
    since_ms: int = 0
    until_ms: int = MAX_SAFE_INTEGER


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """A word of a question, as it is indexed.

    Attributes:
        related: Whether it was given beside the question.
    """

    lexeme: str
    related: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranked:
    """A memory that was found.

    Attributes:
        score: BM25.
        matches: How many were found in all.
    """

    score: float
    matches: int
    row: KvRow


async def page(conn: Connection, place: Place, *, filters: Filters, before: tuple[int, str], limit: int) -> list[KvRow]:
    """Memories, the newest first.

    Args:
        conn: A connection.
        place: The namespace.
        filters: Which of its memories.
        before: When the last one that was seen happened, and its key; `NEWEST`: none was.
        limit: How many.
    """
    found = _sql.page(
        conn,
        line=place.line,
        branch_id=place.branch_id,
        namespace=place.namespace,
        low=place.low,
        topic=filters.topic,
        tag=filters.tag,
        since_ms=filters.since_ms,
        until_ms=filters.until_ms,
        before_ms=before[0],
        before_key=before[1],
        limit=limit,
    )
    return await queries.rows(found, lambda row: KvRow(**row))


async def terms(conn: Connection, *, text: str, related: str, limit: int) -> list[Term]:
    """The words of a question, and of what is related to it, without those that say nothing ("the", "of")."""
    found = _sql.terms(conn, text=text, more=related, most=limit)
    return await queries.rows(found, lambda row: Term(lexeme=row["lexeme"], related=row["related"]))


async def rank(  # noqa: PLR0913  (all but the place by keyword)
    conn: Connection, place: Place, *, words: Sequence[tuple[str, float]], filters: Filters, skip: int, limit: int
) -> list[Ranked]:
    """Memories by how well they answer, the best first.

    Args:
        conn: A connection.
        place: The namespace.
        words: As `terms` gives them, each with its weight; at least one.
        filters: Which of its memories are told; all of them count for the scores.
        skip: How many of the best to leave out.
        limit: How many to give.
    """
    lexemes = [lexeme for lexeme, _ in words]
    found = _sql.rank(
        conn,
        line=place.line,
        branch_id=place.branch_id,
        namespace=place.namespace,
        low=place.low,
        any_of=" | ".join(map(_quoted, lexemes)),
        lexemes=lexemes,
        weights=[weight for _, weight in words],
        topic=filters.topic,
        tag=filters.tag,
        since_ms=filters.since_ms,
        until_ms=filters.until_ms,
        skip=skip,
        limit=limit,
    )

    def ranked(row: dict[str, object]) -> Ranked:
        members = dict(row)
        return Ranked(score=members.pop("score"), matches=members.pop("matches"), row=KvRow(**members))  # type: ignore[arg-type]

    return await queries.rows(found, ranked)


def _quoted(lexeme: str) -> str:
    """A lexeme as a tsquery has it."""
    return "'" + lexeme.replace("\\", "\\\\").replace("'", "''") + "'"
