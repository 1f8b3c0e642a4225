"""The SQL of the store: a ``.sql`` file for each module, every query in it named, with its parameters, and described.

SQL is written as SQL, so that a reader, a linter and ``EXPLAIN`` all see what Postgres sees; no statement is put
together from strings. A module loads its own file once, at import, and wraps each query in a typed function::

    _sql = queries.load("lines")
    row = await _sql.get(conn, line=line)

What a query gives follows from the mark after its name: ``^`` one row or None, ``$`` one value, ``!`` the command tag,
no mark an async iterator of rows (`rows` makes a list of it).
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import aiosql
from aiosql.adapters.asyncpg import AsyncPGAdapter
from aiosql.query_loader import QueryLoader

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping, Sequence

    from aiosql.types import QueryDatum

    from anabranch.store.database import Connection

_FOLDER: Final = Path(__file__).parent / "sql"

_T = TypeVar("_T")


class _Adapter(AsyncPGAdapter):
    """The asyncpg adapter for callers that always hold a connection.

    The stock one also takes a pool, and finds out which it has by listing the attributes of what it is given: a tenth
    of the time of a point read.
    """

    async def select(
        self, conn: Connection, query_name: str, sql: str, parameters: Mapping[str, Any], _record_class: None = None
    ) -> AsyncIterator[Any]:
        for row in await conn.fetch(sql, *self._ordered(query_name, parameters)):
            yield row

    async def select_one(
        self, conn: Connection, query_name: str, sql: str, parameters: Mapping[str, Any], _record_class: None = None
    ) -> Any:
        return await conn.fetchrow(sql, *self._ordered(query_name, parameters))

    async def select_value(self, conn: Connection, query_name: str, sql: str, parameters: Mapping[str, Any]) -> Any:
        return await conn.fetchval(sql, *self._ordered(query_name, parameters))

    async def insert_update_delete(
        self, conn: Connection, query_name: str, sql: str, parameters: Mapping[str, Any]
    ) -> str:
        return await conn.execute(sql, *self._ordered(query_name, parameters))

    async def insert_update_delete_many(
        self, conn: Connection, query_name: str, sql: str, parameters: Sequence[Mapping[str, Any]]
    ) -> None:
        await conn.executemany(sql, [self._ordered(query_name, row) for row in parameters])

    def _ordered(self, query_name: str, parameters: Mapping[str, Any]) -> list[Any]:
        names = self.var_sorted[query_name]
        if len(names) != len(parameters):
            raise TypeError(f"{query_name} takes {sorted(names)} and was given {sorted(parameters)}.")
        return [parameters[name] for name in names]


# aiosql declares its adapters' asynchronous methods as synchronous ones.
_ADAPTER: Final[Any] = _Adapter


def load(module: str) -> Any:
    """The queries of ``sql/<module>.sql`` as attributes: call one with a connection, and its parameters by keyword."""
    return aiosql.from_path(_FOLDER / f"{module}.sql", _ADAPTER)


async def rows(found: AsyncIterator[Any], make: Callable[[Any], _T]) -> list[_T]:
    """All rows of a query, each made into a value."""
    return [make(row) async for row in found]


async def bounded(found: AsyncIterator[Any], make: Callable[[Any], _T], *, limit: int) -> tuple[list[_T], bool]:
    """The rows of a query that ends early where they are large, and whether there may be more behind them.

    Args:
        found: Rows, of which each has as `listed` how many there are without that end.
        make: Makes a value of one.
        limit: How many were asked for.
    """
    listed = 0
    made = []
    async for row in found:
        listed = row["listed"]
        made.append(make(row))
    return made, listed >= limit or len(made) < listed


def touched(tag: str) -> int:
    """How many rows a command says that it changed: ``UPDATE 3`` gives 3."""
    return int(tag.rpartition(" ")[2])


def catalogue() -> dict[str, QueryDatum]:
    """Every query of the store by ``module.name``, for the tests that hold all of them to the store's rules."""
    return {
        f"{path.stem}.{query.query_name}": query
        for path in sorted(_FOLDER.glob("*.sql"))
        for query in QueryLoader(_ADAPTER(), None).load_query_data_from_file(path)
    }
