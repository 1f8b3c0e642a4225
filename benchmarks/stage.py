"""What the rows stand on: one durable Postgres for a run, a migrated database for each that wants one, and large lines.

A line of a million records takes most of a minute to make, and several rows need one: it is made once a run, and they
go on with it one after the other. Each line has a database of its own, so that a small one is not measured in the
tables of a large one.
"""

from __future__ import annotations

import contextlib
import hashlib
import random
import secrets
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import asyncpg

from anabranch.devcluster import choose, databases, ephemeral
from anabranch.devcluster.postgres import with_database
from anabranch.domain.facts import Fact
from anabranch.store import importing, lines, migrate, publish
from anabranch.store.database import Database

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
    from pathlib import Path

OWNER = "benchmark"

SETTINGS = {"shared_buffers": "2GB", "max_wal_size": "8GB", "checkpoint_timeout": "15min"}
"""Of the server, for ours and the peers alike: what whoever sets up a Postgres for a million records sets."""

FILES = 100
"""From so many files the records of a line come, as it seems."""


@dataclass(slots=True)
class Line:
    """A line that is worked on.

    Attributes:
        db: Its database, which has no other line.
        dsn: The database's address.
        line: Its id.
        records: How many it has.
        chance: What the next changes are.
    """

    db: Database
    dsn: str
    line: str
    records: int
    chance: random.Random = field(default_factory=lambda: random.Random(1))

    async def change(self, changes: int) -> None:
        """Publish new contents for some records, as the service does it."""
        await self.write(self.versions(changes))

    def versions(self, changes: int) -> list[publish.NewVersion]:
        """New versions for some records."""
        return self.versions_of(self.chance.sample(range(self.records), changes))

    def versions_of(self, numbers: Iterable[int]) -> list[publish.NewVersion]:
        """New versions for these records."""
        return [new_version(key(number), content(self.chance)) for number in numbers]

    async def write(self, new: list[publish.NewVersion]) -> None:
        """Publish versions."""
        events = [
            publish.NewEvent(kind="published", scope=one.scope, key=one.key, content_hash=one.content_hash)
            for one in new
        ]
        async with self.db.connection() as conn:
            prepared = await publish.prepare(conn, head=await lines.head(conn, self.line), versions=new)
        async with self.db.transaction() as conn:
            head = await lines.lock_head(conn, self.line)
            await publish.write_generation(
                conn, head=head, prepared=prepared, events=events, origin={"kind": "publication"}
            )


class Stage:
    """A Postgres and a folder for one run; made by `opened`."""

    def __init__(self, *, dsn: str, folder: Path, exits: contextlib.AsyncExitStack) -> None:
        self.dsn = dsn
        self.folder = folder
        self._exits = exits
        self._lines: dict[int, Line] = {}

    async def database_dsn(self) -> str:
        """The address of a new, empty database, dropped at the end."""
        name = f"bench_{secrets.token_hex(4)}"
        await databases.create(self.dsn, name, owner=OWNER)
        self._exits.push_async_callback(databases.drop, self.dsn, name)
        return with_database(self.dsn, name)

    async def database(self, *, dsn: str | None = None, max_size: int = 32) -> Database:
        """A new database at the newest schema, or another pool on the one at ``dsn``; closed at the end.

        Args:
            dsn: Of a database that is migrated already.
            max_size: Connections at most.
        """
        if dsn is None:
            dsn = await self.database_dsn()
            await migrate.upgrade(dsn)
        db = await Database.open(dsn, application_name="benchmark", max_size=max_size)
        self._exits.push_async_callback(db.close)
        return db

    async def checkpoint(self) -> None:
        """Let whoever is measured begin with the same, where the server lets us."""
        async with contextlib.AsyncExitStack() as exits:
            conn = await asyncpg.connect(self.dsn)
            exits.push_async_callback(conn.close)
            with contextlib.suppress(asyncpg.InsufficientPrivilegeError):
                await conn.execute("CHECKPOINT")

    async def line(self, records: int) -> Line:
        """A line of so many records in a database of its own: made once a run, shared by its rows."""
        if records not in self._lines:
            self._lines[records] = await self.new_line(records)
        return self._lines[records]

    def adopt(self, line: Line) -> None:
        """Let later rows share a line that a row has made."""
        self._lines[line.records] = line

    async def empty_line(self, records: int, *, beside: Line | None = None) -> Line:
        """A line to which a row brings its records: in a database of its own, or beside another line."""
        if beside:
            dsn, db, name = beside.dsn, beside.db, f"line-{secrets.token_hex(4)}"
        else:
            dsn, name = await self.database_dsn(), "line"
            await migrate.upgrade(dsn)
            db = await self.database(dsn=dsn)
        async with db.transaction() as conn:
            state = await lines.adopt_or_create(conn, namespace="bench", namespace_uid="n", name=name, uid=name)
        return Line(db, dsn, state.line.line, records)

    async def new_line(self, records: int, *, beside: Line | None = None) -> Line:
        """A line of so many records in a database of its own, or beside another line."""
        line = await self.empty_line(records, beside=beside)
        await importing.import_first(
            line.db, line=line.line, records=_stream(records), origin={"kind": "import"}, import_digest=None
        )
        return line


@contextlib.asynccontextmanager
async def opened(*, settings: Mapping[str, str] | None = None) -> AsyncIterator[Stage]:
    """A stage on a durable Postgres of its own, or on that of ANABRANCH_DSN; nothing is left of it afterwards.

    Args:
        settings: Further ones of the Postgres of its own.
    """
    with ephemeral.folder("anabranch-benchmark-") as folder:
        server = choose.postgres_server(folder / "postgres", durable=True, settings={**SETTINGS, **(settings or {})})
        try:
            async with on(server.dsn, folder) as place:
                yield place
        finally:
            server.stop()


@contextlib.asynccontextmanager
async def on(dsn: str, folder: Path) -> AsyncIterator[Stage]:
    """A stage on a server that runs."""
    async with contextlib.AsyncExitStack() as exits:
        yield Stage(dsn=dsn, folder=folder, exits=exits)


def key(number: int) -> str:
    """The key of a record."""
    return f"platform/topic-{number % 997}/note-{number}"


def content(chance: random.Random) -> bytes:
    """A content unlike any other, in canonical form."""
    return b'{"note":"%x, and some words that make it as long as a short note is"}' % chance.getrandbits(256)


def imported(records: int) -> Iterator[importing.ImportRecord]:
    """The records of a new line, always the same, in the order of their keys, as a source gives them."""
    chance = random.Random(records)
    facts = [Fact(source_locators=sources_of(place)).canonical() for place in range(FILES)]
    for place, name in enumerate(sorted(map(key, range(records)))):
        body = content(chance)
        yield importing.ImportRecord(
            key=name,
            scope="shared",
            content_hash=hashlib.sha256(body).digest(),
            content_body=body,
            fact_body=facts[place % FILES],
        )


def sources_of(place: int) -> tuple[str, ...]:
    """Where the record at this place of the source comes from."""
    return (f"import:{place % FILES}.md@sha256:{'0' * 64}",)


def new_version(name: str, body: bytes, *, run: str = "run_benchmark") -> publish.NewVersion:
    """A version of a record."""
    return publish.NewVersion(
        key=name,
        scope="shared",
        content_hash=hashlib.sha256(body).digest(),
        content_body=body,
        fact_body=Fact(origin_runs=(run,)).canonical(),
    )


async def _stream(records: int) -> AsyncIterator[importing.ImportRecord]:
    for record in imported(records):
        yield record
