"""``anabranch backup``: for whoever runs the installation, at the database and the targets themselves.

The API has no part in it: what is restored is what the API stands on. In a cluster these run in the operator's pod, or
in one like it, which has the DSN and the configuration of the targets.
"""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import asyncpg
import click

from anabranch.backup import making, restoring
from anabranch.backup.description import folder_of
from anabranch.backup.turning import Targets
from anabranch.cli.output import output_option, show
from anabranch.controllers.configuration import Configuration
from anabranch.model.canonical import hash_text
from anabranch.model.errors import ForbiddenError, InvalidInputError, NotFoundError
from anabranch.store import lines, migrate, reviving
from anabranch.store.database import Database

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from anabranch.backup.description import BackupDescription
    from anabranch.backup.target import Target

_BASELINE: Final = "NAMESPACE/NAME"

_dsn = click.option(
    "--dsn",
    metavar="DSN",
    envvar="ANABRANCH_OPERATOR_DSN",
    show_envvar=True,
    required=True,
    help="Of Postgres, as the operator's role.",
)


def _target_options(command: Callable[..., Any]) -> Callable[..., Any]:
    config = click.option(
        "--config",
        metavar="PATH",
        envvar="ANABRANCH_CONFIG",
        show_envvar=True,
        required=True,
        type=click.Path(dir_okay=False, path_type=Path),
        help="The operator's configuration, which names the targets.",
    )
    target = click.option("--target", metavar="NAME", required=True, help="One of its backupTargets.")
    return config(target(command))


_root = click.option(
    "--root",
    metavar="HASH",
    help="sha256:… of the manifest that it must be of, as status.lastBackup had it: whoever can write to the target "
    "could have put something else there.",
)


def _baseline(_context: click.Context, _argument: click.Parameter, value: str) -> tuple[str, str]:
    namespace, _, name = value.partition("/")
    if not namespace or not name:
        raise click.BadParameter(f"write it as {_BASELINE}")
    return namespace, name


@click.group()
def command() -> None:
    """List, check, make and restore backups, at the database and the targets themselves."""


@command.command("list")
@click.argument("baseline", metavar=_BASELINE, callback=_baseline)
@_target_options
@output_option
def list_(*, baseline: tuple[str, str], target: str, config: Path, output: str) -> None:
    """List the backups of a Baseline in a target, the newest last. Needs no database."""
    namespace, name = baseline
    found = asyncio.run(restoring.listed(_archives(config, target), namespace=namespace, name=name))
    show([{"taken": each.taken, "generation": each.generation, "place": each.place} for each in found], output)


@command.command()
@click.argument("place", metavar="PLACE")
@_root
@_target_options
@output_option
def check(*, place: str, root: str | None, target: str, config: Path, output: str) -> None:
    """Fetch a backup and check it, down to the root that its records lead to. Needs no database."""
    about = asyncio.run(restoring.check(_archives(config, target), place=place, root=root))
    show({**_told(about), "checked": True}, output)


@command.command()
@click.argument("baseline", metavar=_BASELINE, callback=_baseline)
@_dsn
@_target_options
@output_option
def make(*, baseline: tuple[str, str], dsn: str, target: str, config: Path, output: str) -> None:
    """Back a Baseline up now, whether its spec asks for backups or not."""

    async def work(db: Database) -> dict[str, Any]:
        namespace, name = baseline
        async with db.connection() as conn:
            state = await lines.find(conn, namespace=namespace, name=name)
        if state is None:
            raise NotFoundError(f"The database has no Baseline {namespace}/{name}.", hint="Check the name.")
        made = await making.make(db, line=state.line.line, name=target, target=_archives(config, target))
        return {
            "place": made.place,
            "generation": made.generation,
            "manifestHash": hash_text(made.manifest_hash),
            "bytes": made.bytes,
        }

    show(_at(dsn, work), output)


@command.command()
@click.argument("baseline", metavar=_BASELINE, callback=_baseline)
@click.option("--place", metavar="PLACE", help="One that `list` shows.  [default: the newest]")
@click.option(
    "--replace", is_flag=True, help="Set aside a line that the Baseline has begun anew; nothing of it is deleted."
)
@_root
@_dsn
@_target_options
@output_option
def restore(
    *,
    baseline: tuple[str, str],
    place: str | None,
    replace: bool,
    root: str | None,
    dsn: str,
    target: str,
    config: Path,
    output: str,
) -> None:
    """Put a Baseline's line back that the database does not have. Stop the operator and the API before."""
    namespace, name = baseline
    if place is not None and not place.startswith(folder_of(namespace, name)):
        raise InvalidInputError(f"{place} is no backup of {namespace}/{name}.", hint="Name one that `list` shows.")

    async def work(db: Database) -> dict[str, Any]:
        archives = _archives(config, target)
        wanted = place or await restoring.newest(archives, namespace=namespace, name=name)
        return _told(await restoring.restore(db, archives, place=wanted, root=root, replace=replace))

    show(_at(dsn, work), output)


@command.command()
@_dsn
@output_option
def restored(*, dsn: str, output: str) -> None:
    """Give every feed another epoch: once, after the database as a whole was set back to an earlier time.

    Followers then read a snapshot, instead of taking for new what they have seen, or for seen what is new.
    """

    async def work(db: Database) -> dict[str, Any]:
        return {"lines": await reviving.renew_epochs(db)}

    show(_at(dsn, work), output)


def _at(dsn: str, work: Callable[[Database], Any]) -> Any:
    async def run() -> Any:
        try:
            async with _opened(dsn) as db:
                return await work(db)
        except asyncpg.InsufficientPrivilegeError as error:
            raise ForbiddenError(
                f"The role of this DSN may not do that: {error}.",
                hint="Give the operator's DSN, by --dsn or ANABRANCH_OPERATOR_DSN.",
            ) from error

    return asyncio.run(run())


@contextlib.asynccontextmanager
async def _opened(dsn: str) -> AsyncIterator[Database]:
    db = await Database.open(dsn, application_name="anabranch backup", max_size=4)
    try:
        async with db.connection() as conn:
            await migrate.check(conn)
        yield db
    finally:
        await db.close()


def _archives(config: Path, target: str) -> Target:
    return Targets(Configuration.read(config).backup_targets).archives(target)


def _told(about: BackupDescription) -> dict[str, Any]:
    return {
        "baseline": f"{about.namespace}/{about.name}",
        "line": about.line,
        "generation": about.manifest.generation,
        "manifestHash": about.manifest.manifest_hash,
        "records": about.manifest.records,
        "takenAt": about.taken_at.isoformat(),
    }
