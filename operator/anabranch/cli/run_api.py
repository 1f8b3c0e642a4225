"""``anabranch api``: the process that agents and reviewers call."""

from __future__ import annotations

import os

import click

from anabranch.api.serve import run
from anabranch.api.settings import Settings
from anabranch.telemetry import logs


@click.command()
@click.option("--dsn", metavar="DSN", help="Of Postgres, as the API's role.  [env var: ANABRANCH_API_DSN]")
@click.option("--host", metavar="ADDRESS", default="127.0.0.1", show_default=True)
@click.option("--port", metavar="PORT", type=click.IntRange(1, 65535), default=8080, show_default=True)
@click.option("--health-host", metavar="ADDRESS", default="127.0.0.1", show_default=True)
@click.option(
    "--health-port",
    metavar="PORT",
    type=click.IntRange(0, 65535),
    default=0,
    help="Of /metrics, /healthz and /readyz, for the cluster alone.  [default: none]",
)
def command(*, dsn: str | None, host: str, port: int, health_host: str, health_port: int) -> None:
    """Run the HTTP API. It keeps nothing: run as many as the load asks for.

    \b
    ANABRANCH_CURSOR_KEYS       secrets that feed cursors are sealed with, comma-separated; the first one seals
    ANABRANCH_AUDIENCE          of the tokens that it accepts; anabranch.<system namespace> unless set
    ANABRANCH_SYSTEM_NAMESPACE  anabranch-system unless set
    ANABRANCH_API_DSN_RO        of Postgres' standbys, which reads of what never changes go to; none unless set
    ANABRANCH_LISTEN_DSN        a direct way to Postgres for LISTEN, where the DSN goes through a pooler
    ANABRANCH_DRAIN_SECONDS     how long it goes on answering, unready, after it was told to end; 3 unless set
    ANABRANCH_TLS_CERT          PEM file of its certificate, read again when it changes; plain HTTP unless set
    ANABRANCH_TLS_KEY           PEM file of the certificate's key
    ANABRANCH_SIGNING_KEY       PEM file of an Ed25519 key that signs manifests; they are not signed unless set
    ANABRANCH_OIDC              YAML file: whose ID tokens are people's (docs/oidc.md); nobody's unless set
    ANABRANCH_SESSION_KEYS      secrets that its sessions of the review page are sealed with; as for cursors
    ANABRANCH_EMBEDDER          for searches by meaning: wordllama, or a folder with another table; none unless set
    ANABRANCH_SEARCH_MODE       words or hybrid, where a search does not say it; hybrid where there is an embedder
    ANABRANCH_STORES            names of further databases, comma-separated; of each, with X for the name in capitals:
    ANABRANCH_STORE_X_API_DSN     how to reach it, as the API's role
    ANABRANCH_STORE_X_API_DSN_RO  its streaming standbys, for reads of what never changes
    ANABRANCH_STORE_X_LISTEN_DSN  a direct way to it, where that goes through a pooler
    ANABRANCH_STORES_WAIT_SECONDS how long it waits for those that are away before it serves without; 0 unless set
    ANABRANCH_LOG_LEVEL         DEBUG, INFO, WARNING or ERROR; INFO unless set
    """  # noqa: D301  (click's mark for a paragraph that is not to be wrapped)
    logs.configure()
    run(
        Settings.from_environment(
            os.environ, dsn=dsn, host=host, port=port, health_host=health_host, health_port=health_port
        )
    )
