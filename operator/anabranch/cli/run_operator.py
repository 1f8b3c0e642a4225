"""``anabranch operator``: the process that watches, works and writes status."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click
import uvloop

from anabranch.controllers.operator import run
from anabranch.controllers.settings import Settings
from anabranch.manifests import DEFAULT_NAMESPACE
from anabranch.model.crd import parse_period
from anabranch.telemetry import logs

if TYPE_CHECKING:
    from datetime import timedelta


def _period(_context: click.Context, _option: click.Parameter, value: str) -> timedelta:
    try:
        return parse_period(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


@click.command()
@click.option(
    "--dsn",
    metavar="DSN",
    envvar="ANABRANCH_OPERATOR_DSN",
    show_envvar=True,
    required=True,
    help="Of Postgres, as the operator's role.",
)
@click.option(
    "--listen-dsn",
    metavar="DSN",
    envvar="ANABRANCH_LISTEN_DSN",
    show_envvar=True,
    help="A direct way for LISTEN, where --dsn goes through a pooler.",
)
@click.option("--kubeconfig", metavar="PATH", help="[default: $KUBECONFIG, else the pod's ServiceAccount]")
@click.option(
    "--namespace", "namespaces", metavar="NAME", multiple=True, help="Serve only this one; repeatable.  [default: all]"
)
@click.option(
    "--system-namespace",
    metavar="NAME",
    envvar="ANABRANCH_SYSTEM_NAMESPACE",
    show_envvar=True,
    default=DEFAULT_NAMESPACE,
    show_default=True,
)
@click.option(
    "--config",
    metavar="PATH",
    envvar="ANABRANCH_CONFIG",
    show_envvar=True,
    type=click.Path(dir_okay=False, path_type=Path),
    help="YAML of named sources.",
)
@click.option("--health-host", metavar="ADDRESS", default="127.0.0.1", show_default=True)
@click.option(
    "--health-port",
    metavar="PORT",
    type=click.IntRange(0, 65535),
    default=0,
    help="Of /metrics, /healthz and /readyz, for the cluster alone.  [default: none]",
)
@click.option(
    "--workers", metavar="N", type=click.IntRange(1, 64), default=4, show_default=True, help="Jobs worked on at once."
)
@click.option(
    "--keep-agent-events",
    metavar="PERIOD",
    callback=_period,
    default="7d",
    show_default=True,
    help="For how long events for agents are kept, fetched or not.",
)
@click.option("--accept-missing", is_flag=True, help="Whatever the cluster lacks was deleted, however much it is.")
def command(
    *,
    dsn: str,
    listen_dsn: str | None,
    kubeconfig: str | None,
    namespaces: tuple[str, ...],
    system_namespace: str,
    config: Path | None,
    health_host: str,
    health_port: int,
    workers: int,
    keep_agent_events: timedelta,
    accept_missing: bool,
) -> None:
    """Run the operator. Several may run at once: one leads and writes status, the database fences all of them."""
    settings = Settings(
        dsn=dsn,
        listen_dsn=listen_dsn,
        kubeconfig=kubeconfig,
        namespaces=namespaces,
        system_namespace=system_namespace,
        config=config,
        health_host=health_host,
        health_port=health_port,
        workers=workers,
        agent_events=keep_agent_events,
        accept_missing=accept_missing,
    )
    logs.configure()
    uvloop.run(run(settings))
