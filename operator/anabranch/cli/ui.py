"""``anabranch ui``: the review page, served to the person's own browser, through their own kubeconfig."""

from __future__ import annotations

import asyncio
import logging
import socket
import webbrowser

import click
import uvicorn

from anabranch.cli.connection import Connection, connection_options
from anabranch.cli.desk import KubectlDesk
from anabranch.cli.forwarding import reached
from anabranch.cli.output import hint
from anabranch.web.app import create
from anabranch.web.local import HOST, LocalGate


@click.command()
@click.option(
    "--port", type=click.IntRange(0, 65_535), default=0, metavar="PORT", help="Of this machine.  [default: a free one]"
)
@click.option("--no-browser", is_flag=True, help="Only print the link.")
@connection_options
def command(port: int, connection: Connection, *, no_browser: bool) -> None:
    """Open the review page: what waits for a decision, both sides of it, and the decision.

    Nothing is logged in to. Pages read by a token, such as one that --service-account mints; a decision is made by your
    kubectl, as yourself. The page opens by its link only, on this machine only, for as long as the command runs.

    Without --url the API's port is forwarded from its Service by your kubectl, for as long as the command runs.

    Without -n it shows every namespace with a Baseline that you may list.
    """
    with reached(connection) as near, socket.create_server((HOST, port)) as listening:
        desk = KubectlDesk(near)
        gate = LocalGate(desk, port=listening.getsockname()[1])
        click.echo(gate.link)
        hint("Whoever has this link decides as you. Ctrl+C ends it.")
        if not no_browser:
            webbrowser.open(gate.link)
        asyncio.run(_serve(desk, gate, listening))


async def _serve(desk: KubectlDesk, gate: LocalGate, listening: socket.socket) -> None:
    logging.getLogger("uvicorn.error").setLevel(logging.WARNING)
    config = uvicorn.Config(
        create(gate),
        lifespan="off",
        ws="none",
        log_config=None,
        access_log=False,  # the link's key is in it
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=2,
    )
    try:
        await uvicorn.Server(config).serve(sockets=[listening])
    finally:
        await desk.close()
