"""A migrated database of its own for each test: a copy of one that is migrated once, which takes a few milliseconds."""

from __future__ import annotations

import contextlib
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from tests import pairs
from tests.store.served import serving
from tests.store.working import Place

from anabranch.client import transport
from anabranch.devcluster import databases
from anabranch.devcluster.postgres import with_database
from anabranch.devcluster.stack import TEMPORARY
from anabranch.store import database as store
from anabranch.store import migrate
from anabranch.store import roles as database_roles

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable


@dataclass(frozen=True)
class Database:
    """A database by its addresses: of the server's superuser and of the three roles."""

    name: str
    admin: str
    migrate: str
    operator: str
    api: str


@pytest.fixture(scope="session")
async def role_passwords(postgres_server) -> AsyncIterator[database_roles.RolePasswords]:
    """The passwords of this run; on a server that already has such roles from elsewhere, the run ends here."""
    roles = (migrate.MIGRATE_ROLE, migrate.OPERATOR_ROLE, migrate.API_ROLE)
    await databases.claim_roles(postgres_server.dsn, roles, owner=TEMPORARY)
    yield database_roles.RolePasswords(**{role: secrets.token_urlsafe(18) for role in ("migrate", "operator", "api")})
    await databases.leave(postgres_server.dsn, roles, owner=TEMPORARY)


def addresses(server: str, name: str, passwords: database_roles.RolePasswords) -> Database:
    def address(role: str, password: str) -> str:
        return with_database(server, name, user=role, password=password)

    return Database(
        name=name,
        admin=with_database(server, name),
        migrate=address(migrate.MIGRATE_ROLE, passwords.migrate),
        operator=address(migrate.OPERATOR_ROLE, passwords.operator),
        api=address(migrate.API_ROLE, passwords.api),
    )


@pytest.fixture(scope="session")
async def superuser(postgres_server) -> AsyncIterator[databases.Connection]:
    """A connection that makes and drops databases: a test that had to log in for that would take twice as long."""
    async with databases.connected(postgres_server.dsn) as connection:
        yield connection


@pytest.fixture
async def empty_database(postgres_server, superuser, role_passwords) -> AsyncIterator[Database]:
    """A database with roles and without tables."""
    name = f"empty_{secrets.token_hex(6)}"
    await databases.create_on(superuser, name, owner=TEMPORARY)
    made = addresses(postgres_server.dsn, name, role_passwords)
    await database_roles.ensure_roles(made.admin, role_passwords)
    yield made
    await databases.drop_on(superuser, name)


@pytest.fixture(scope="session")
async def template(postgres_server, role_passwords) -> AsyncIterator[Database]:
    """What every test's database is a copy of."""
    name = f"template_{secrets.token_hex(6)}"
    await databases.create(postgres_server.dsn, name, owner=TEMPORARY)
    made = addresses(postgres_server.dsn, name, role_passwords)
    await database_roles.ensure_roles(made.admin, role_passwords)
    await migrate.upgrade(made.migrate)
    yield made
    await databases.drop(postgres_server.dsn, name)


@pytest.fixture
async def database(postgres_server, superuser, template, role_passwords) -> AsyncIterator[Database]:
    """A database at the newest schema, empty, of one test."""
    name = f"test_{secrets.token_hex(6)}"
    await databases.create_on(superuser, name, owner=TEMPORARY, template=template.name)
    yield addresses(postgres_server.dsn, name, role_passwords)
    await databases.drop_on(superuser, name)


@pytest.fixture
async def db(database) -> AsyncIterator[store.Database]:
    """The test's database as the operator sees it."""
    opened = await store.Database.open(database.operator, application_name="test operator")
    yield opened
    await opened.close()


@pytest.fixture
async def api_db(database) -> AsyncIterator[store.Database]:
    """The test's database as the API sees it."""
    opened = await store.Database.open(database.api, application_name="test api")
    yield opened
    await opened.close()


@pytest.fixture
async def synchronous(postgres_server, run_folder, template, role_passwords) -> AsyncIterator[pairs.Pair]:
    """A primary of the test's own whose commits wait for its standby."""
    if postgres_server.folder is None:
        pytest.skip("a server that was given is not copied")
    with pairs.folder_below(run_folder) as folder:
        pair = await pairs.start(
            folder, origin=postgres_server, database=template.name, passwords=role_passwords, synchronous=True
        )
        yield pair
        await pair.stop()


@pytest.fixture
async def opened() -> AsyncIterator[Callable[..., Awaitable[store.Database]]]:
    """Opens databases, and closes them, whatever becomes of their servers."""
    async with contextlib.AsyncExitStack() as stack:

        async def opening(dsn: str, **options: Any) -> store.Database:
            db = await store.Database.open(dsn, application_name="test", **options)
            stack.push_async_callback(db.close)
            return db

        yield opening


@pytest.fixture
async def place(db, database, monkeypatch, tmp_path) -> AsyncIterator[Place]:
    """A Baseline behind a real API, for workers that do not wait long between attempts."""
    monkeypatch.setattr(transport, "pause", lambda _attempt: 0.001)
    async with serving(db, database.api) as served:
        place = Place(served, tmp_path)
        await place.set_up()
        yield place
        await place.tear_down()


@pytest.fixture
async def worker(place):
    """A worker that is in step."""
    worker = await place.open()
    await worker.sync()
    return worker
