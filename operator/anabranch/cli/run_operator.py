"""``anabranch operator``: the process that watches, works and writes status."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click
import uvloop

from anabranch.controllers.operator import run
from anabranch.controllers.settings import Settings
from anabranch.kube.leader import DEFAULT_PACE, LONGEST_SECONDS
from anabranch.manifests import DEFAULT_NAMESPACE
from anabranch.model import stores
from anabranch.model.crd import parse_period
from anabranch.model.stores import DEFAULT_STORE
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
@click.option(
    "--lease-seconds",
    metavar="N",
    type=click.IntRange(3, LONGEST_SECONDS),
    default=DEFAULT_PACE.duration,
    show_default=True,
    help="For how long a leader that is not heard of is waited for. The same for all.",
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
@click.option(
    "--embedder",
    metavar="NAME|FOLDER",
    envvar="ANABRANCH_EMBEDDER",
    show_envvar=True,
    help="Make vectors for searches by meaning: `wordllama`, or a folder with another table.  [default: none]",
)
@click.option(
    "--store",
    metavar="NAME",
    envvar="ANABRANCH_STORE",
    show_envvar=True,
    default=DEFAULT_STORE,
    show_default=True,
    help="Of several databases, the one that --dsn leads to: this operator sees to what lies in it. The others besides "
    "the default one stand in ANABRANCH_STORES, comma-separated.",
)
@click.option(
    "--agents-dsn",
    metavar="DSN",
    envvar="ANABRANCH_AGENTS_DSN",
    show_envvar=True,
    help="Of the default database, where agents are, for the operator of another one.",
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
    lease_seconds: int,
    health_host: str,
    health_port: int,
    workers: int,
    keep_agent_events: timedelta,
    embedder: str | None,
    store: str,
    agents_dsn: str | None,
    accept_missing: bool,
) -> None:
    """Run the operator. Several may run at once: one leads and writes status, the database fences all of them."""
    others = stores.named(os.environ)
    if store not in {DEFAULT_STORE, *others}:
        raise click.UsageError(f"{stores.NAMES} does not name the store {store}.")
    if (agents_dsn is None) != (store == DEFAULT_STORE):
        raise click.UsageError(
            "--agents-dsn is for the operators of stores other than the default one, and needed there."
        )
    settings = Settings(
        dsn=dsn,
        listen_dsn=listen_dsn,
        kubeconfig=kubeconfig,
        namespaces=namespaces,
        system_namespace=system_namespace,
        config=config,
        lease_seconds=lease_seconds,
        health_host=health_host,
        health_port=health_port,
        workers=workers,
        agent_events=keep_agent_events,
        embedder=embedder or None,
        accept_missing=accept_missing,
        store=store,
        stores=others,
        agents_dsn=agents_dsn,
    )
    logs.configure()
    uvloop.run(run(settings))
