"""``anabranch doctor``: looks at an installation as an SRE would, and says of each thing found what mends it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import click
import httpx
from pydantic import ValidationError

from anabranch import manifests
from anabranch.cli.calls import call
from anabranch.cli.connection import Connection, connection_options
from anabranch.cli.examination import Finding, examine
from anabranch.cli.output import output_option, show
from anabranch.client.transport import is_loopback
from anabranch.model.answers import Health
from anabranch.model.errors import AnabranchError, ForbiddenError, UnauthenticatedError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from anabranch.client import AnabranchClient

COLOURS: Final = {"ok": "green", "problem": "red", "unknown": "yellow"}

TIMEOUT: Final = 5
"""Seconds for the API to say whether it is ready."""


@click.command()
@click.option(
    "--dsn",
    envvar=["ANABRANCH_API_DSN", "ANABRANCH_DSN"],
    show_envvar=True,
    help="Of the database, to check its schema too.",
)
@click.option(
    "--system-namespace", envvar="ANABRANCH_SYSTEM_NAMESPACE", default=manifests.DEFAULT_NAMESPACE, show_default=True
)
@click.option(
    "--cluster/--no-cluster", default=True, show_default=True, help="Whether to look at what the API server holds."
)
@output_option
@connection_options
def command(
    dsn: str | None,
    system_namespace: str,
    cluster: bool,  # noqa: FBT001  (click passes it by name)
    output: str,
    connection: Connection,
) -> None:
    """Say what is missing in an installation and how to mend it. Exit code 1 where something is.

    It only reads. What you may not read, or did not say how to reach, is reported as unknown.
    """
    examined = examine(connection, system_namespace) if cluster else ()
    findings = [*examined, *_api(connection), *_token(connection), *_database(dsn)]
    if output == "table":
        for finding in findings:
            click.echo("\n".join(describe(finding)))
    else:
        show([vars(finding) for finding in findings], output)
    if any(finding.state == "problem" for finding in findings):
        raise click.exceptions.Exit(1)


def describe(finding: Finding) -> Iterator[str]:
    """A finding for people: what was found, and below it what to do."""
    state = click.style(f"{finding.state:<8}", fg=COLOURS[finding.state])
    yield f"{state} {finding.check:<13} {finding.found}"
    if finding.mend:
        yield f"{'':<22} → {finding.mend}"


def _api(connection: Connection) -> Iterator[Finding]:
    if connection.url is None:
        yield Finding("API", "unknown", "its address is not known", "give --url, or set ANABRANCH_URL")
        return
    try:
        answer = httpx.get(
            f"{connection.url.rstrip('/')}/readyz",
            timeout=TIMEOUT,
            verify=httpx.create_ssl_context(),
            trust_env=not is_loopback(connection.url),
        )
        checks = Health.model_validate_json(answer.content, extra="ignore").checks
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        if "CERTIFICATE_VERIFY_FAILED" in str(error):
            found = f"the certificate of {connection.url} is of no authority that is trusted here: {error}"
            yield Finding("API", "problem", found, "set SSL_CERT_FILE to the authority's file (see Install)")
            return
        yield Finding("API", "problem", f"{connection.url} does not answer: {error}", "start it, or mend the address")
    except ValidationError:
        yield Finding("API", "problem", f"{connection.url} answers, and is no Anabranch API", "mend the address")
    else:
        if answer.is_success:
            yield Finding("API", "ok", connection.url)
        for part, outcome in checks.items():
            if outcome != "ok":
                yield Finding("API", "problem", f"{part}: {outcome}", "read its log")


def _token(connection: Connection) -> Iterator[Finding]:
    """Whether the API accepts the token; what its owner may see is another question."""
    if not connection.configured:
        return

    async def ask(client: AnabranchClient, namespace: str) -> None:
        async for _ in client.baselines(namespace):
            break

    try:
        call(connection, ask)
    except UnauthenticatedError as error:
        yield Finding("token", "problem", error.detail, error.hint)
    except ForbiddenError as error:
        yield Finding("token", "ok", f"accepted, and {error.detail}")
    except AnabranchError as error:
        yield Finding("token", "unknown", error.detail, error.hint)
    else:
        yield Finding("token", "ok", "accepted by the API")


def _database(dsn: str | None) -> Iterator[Finding]:
    if not dsn:
        yield Finding("database", "unknown", "no DSN given", "give --dsn, or set ANABRANCH_API_DSN")
        return
    try:
        from anabranch.store import durability  # noqa: PLC0415
        from anabranch.store.database import Database  # noqa: PLC0415  (an agent's install has no Postgres driver)
        from anabranch.store.migrate import check  # noqa: PLC0415
    except ModuleNotFoundError as error:
        yield Finding("database", "unknown", f"{error.name} is not installed", "pip install 'anabranch[store]'")
        return

    async def look() -> tuple[durability.Promises, int]:
        database = await Database.open(dsn, application_name="anabranch doctor", max_size=1)
        try:
            async with database.connection() as conn:
                await check(conn)
                return await durability.promises(conn), await durability.waiting(conn, seconds=durability.LONG_SECONDS)
        finally:
            await database.close()

    try:
        promises, waiting = asyncio.run(look())
    except AnabranchError as error:
        yield Finding("database", "problem", error.detail, error.hint)
        return
    yield Finding("database", "ok", "reached, and at the schema of this release")
    if waiting:
        found = f"{waiting} commits wait for a synchronous standby of {promises.standbys}"
        yield Finding("database", "problem", found, "bring a standby back; docs/high_availability.md")
    elif promises.commit in {"off", "local"} and promises.standbys:
        found = f"synchronous_commit is {promises.commit}: commits do not wait for {promises.standbys}"
        yield Finding("database", "problem", found, "set it to on: what is acknowledged is to outlive the primary")
    elif not promises.standbys:
        yield Finding("database", "ok", "commits are on the primary alone: there is no synchronous standby")
