"""``anabranch migrate``: the schema, and on request the three database roles."""

from __future__ import annotations

import asyncio
import os

import click

from anabranch.model.errors import InvalidInputError
from anabranch.store import migrate
from anabranch.store import roles as database_roles


@click.command()
@click.option(
    "--dsn",
    metavar="DSN",
    envvar="ANABRANCH_MIGRATE_DSN",
    show_envvar=True,
    required=True,
    help="Of the role that owns the tables.",
)
@click.option(
    "--roles-from-env",
    is_flag=True,
    help="First make the roles with the passwords of ANABRANCH_MIGRATE_PASSWORD, ANABRANCH_OPERATOR_PASSWORD and "
    "ANABRANCH_API_PASSWORD, then work as anabranch_migrate. The DSN is then that of a role with CREATEROLE.",
)
@click.option(
    "--wait",
    metavar="SECONDS",
    type=click.IntRange(min=0),
    help="Migrate nothing: wait so long for somebody else to do it. Any of the three roles will do.",
)
@click.option(
    "--wait-server",
    metavar="SECONDS",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="First wait so long for a server that is not up yet. One that refuses the login is not waited for.",
)
def command(dsn: str, *, roles_from_env: bool, wait: int | None, wait_server: int) -> None:
    """Bring the database to this version's schema.

    Safe to run again, and by several at once: one migrates, the others wait.
    """
    if wait is not None:
        if roles_from_env:
            raise click.UsageError("--wait migrates nothing, so it makes no roles: leave out --roles-from-env.")
        if wait_server:
            raise click.UsageError("--wait waits for the server, too: leave out --wait-server.")
        found = asyncio.run(migrate.wait(dsn, seconds=wait, say=_say))
    else:
        roles = _passwords() if roles_from_env else None
        found = asyncio.run(_migrate(dsn, roles=roles, patience=wait_server))
    click.echo(f"The database is at schema {found}.")


async def _migrate(dsn: str, *, roles: database_roles.RolePasswords | None, patience: int) -> str:
    if patience:
        await migrate.wait_for_server(dsn, seconds=patience, say=_say)
    if roles is None:
        return await migrate.upgrade(dsn)
    await database_roles.ensure_roles(dsn, roles)
    return await migrate.upgrade(dsn, password=roles.migrate)


def _say(text: str) -> None:
    click.echo(text, err=True)


def _passwords() -> database_roles.RolePasswords:
    names = {part: f"ANABRANCH_{part.upper()}_PASSWORD" for part in ("migrate", "operator", "api")}
    if missing := [name for name in names.values() if not os.environ.get(name)]:
        raise InvalidInputError(f"Not set: {', '.join(missing)}.", hint="Set a password for each role.")
    return database_roles.RolePasswords(**{part: os.environ[name] for part, name in names.items()})
