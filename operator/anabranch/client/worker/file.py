"""The SQLite file of a worker: one writer, one thread, and every change a whole transaction.

What is acknowledged to the agent has been committed and synced, so it survives the end of the process and of the
machine. A change is one function that runs from BEGIN to COMMIT in the file's own thread: a task that is cancelled
meanwhile cannot leave a transaction half done, as it could between two awaited statements.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from importlib import resources
from typing import TYPE_CHECKING, Concatenate, Final, ParamSpec, TypeVar

from anabranch.model.errors import ConflictError, InvalidInputError, UnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

T = TypeVar("T")
P = ParamSpec("P")

VERSION: Final = 1
"""Of the tables, as `PRAGMA user_version`."""

_APPLICATION: Final = 0x616E6162  # "anab", as `PRAGMA application_id`


class WorkerFile:
    """An open file; made by `open`."""

    def __init__(self, connection: sqlite3.Connection, thread: ThreadPoolExecutor) -> None:
        self._connection = connection
        self._thread = thread

    @classmethod
    async def open(cls, path: Path) -> WorkerFile:
        """Open a file, or make it.

        Args:
            path: Where; only its owner may read it.

        Raises:
            ConflictError: If another process has it open.
            InvalidInputError: If it is no worker's file, or one of a newer release.
            UnavailableError: If it cannot be opened.
        """
        thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="anabranch-file")
        loop = asyncio.get_running_loop()
        try:
            return cls(await loop.run_in_executor(thread, _connect, path), thread)
        except BaseException:
            thread.shutdown(wait=False)
            raise

    async def close(self) -> None:
        """Close it; what is being written is finished first."""
        await asyncio.get_running_loop().run_in_executor(self._thread, self._connection.close)
        self._thread.shutdown()

    async def read(
        self, look: Callable[Concatenate[sqlite3.Connection, P], T], *arguments: P.args, **options: P.kwargs
    ) -> T:
        """Run a function that only reads, and sees one state of the file."""
        return await self.write(look, *arguments, **options)

    async def write(
        self, change: Callable[Concatenate[sqlite3.Connection, P], T], *arguments: P.args, **options: P.kwargs
    ) -> T:
        """Run a function as one transaction: what it wrote is durable when this returns, or nothing of it is there."""

        def run() -> T:
            return transaction(self._connection, change, *arguments, **options)

        return await asyncio.get_running_loop().run_in_executor(self._thread, run)

    async def flush(self) -> None:
        """Move everything from the log beside the file into it, so that nothing that was deleted is left there."""
        await asyncio.get_running_loop().run_in_executor(self._thread, _move_log, self._connection)


def transaction(
    db: sqlite3.Connection,
    change: Callable[Concatenate[sqlite3.Connection, P], T],
    *arguments: P.args,
    **options: P.kwargs,
) -> T:
    """Run a function from BEGIN to COMMIT.

    Raises:
        UnavailableError: If the file cannot be written, as on a full disk.
    """
    try:
        db.execute("BEGIN")
        try:
            result = change(db, *arguments, **options)
            db.execute("COMMIT")
        except BaseException:
            if db.in_transaction:
                db.execute("ROLLBACK")
            raise
    except sqlite3.OperationalError as error:
        raise UnavailableError(
            f"The worker's file cannot be used: {error}.", hint="Check the disk that it is on."
        ) from error
    return result


def _move_log(db: sqlite3.Connection) -> None:
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


def _connect(path: Path) -> sqlite3.Connection:
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))  # what an agent knows is not for every user
        db = sqlite3.connect(path, timeout=0.2, isolation_level=None, check_same_thread=False)
    except (OSError, sqlite3.OperationalError) as error:
        raise UnavailableError(f"{path} cannot be opened: {error}.", hint="Check the path.") from error
    try:
        _set_up(db, path)
    except BaseException:
        db.close()
        raise
    return db


def _set_up(db: sqlite3.Connection, path: Path) -> None:
    db.row_factory = sqlite3.Row
    try:
        # Two processes on one file would give the same sequence to different batches. Held until the process ends.
        db.execute("PRAGMA locking_mode = EXCLUSIVE")
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = FULL")
        db.execute("PRAGMA foreign_keys = ON")
        db.execute("PRAGMA secure_delete = ON")  # what is purged is overwritten
        transaction(db, _make_tables, path)
    except (sqlite3.OperationalError, UnavailableError) as error:
        if "locked" in str(error):
            raise ConflictError(
                f"{path} is in use by another process.", hint="Give each worker a file of its own."
            ) from error
        if isinstance(error, UnavailableError):
            raise
        raise UnavailableError(
            f"{path} cannot be opened: {error}.", hint="Check the disk and the folder that it is on."
        ) from error
    except sqlite3.DatabaseError as error:
        raise InvalidInputError(f"{path} is no file of a worker: {error}.", hint="Choose another path.") from error


def _make_tables(db: sqlite3.Connection, path: Path) -> None:
    (version,) = db.execute("PRAGMA user_version").fetchone()
    (application,) = db.execute("PRAGMA application_id").fetchone()
    if version == VERSION and application == _APPLICATION:
        return
    (tables,) = db.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    if version or tables:
        raise InvalidInputError(
            f"{path} is no file of this release's workers (version {version}).",
            hint="Choose another path, or use the release that wrote it.",
        )
    for statement in _statements():
        db.execute(statement)
    db.execute(f"PRAGMA user_version = {VERSION}")
    db.execute(f"PRAGMA application_id = {_APPLICATION}")


def _statements() -> list[str]:
    """The statements of schema.sql: `executescript` would commit what was begun."""
    text = resources.files(__package__).joinpath("schema.sql").read_text(encoding="utf-8")
    bare = "\n".join(line.partition("--")[0] for line in text.splitlines())
    return [statement for part in bare.split(";") if (statement := part.strip())]
