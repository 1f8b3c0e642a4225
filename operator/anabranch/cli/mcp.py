"""``anabranch mcp``: an agent's tools by the Model Context Protocol, over standard input and output."""

from __future__ import annotations

import asyncio

import click

from anabranch.cli.connection import Connection, connection_options
from anabranch.mcp import stdio


@click.command()
@click.option(
    "--instantkv",
    "branch",
    metavar="BRANCH",
    help="Offer instantKV's tools instead, on this branch of the namespace.",
)
@connection_options
def command(branch: str | None, connection: Connection) -> None:
    """Serve tools by the Model Context Protocol, over standard input and output.

    For an agent runtime that starts its tools itself; the API serves the same ones over HTTP at /mcp. Whose token is
    shown decides what the tools may do.
    """

    async def run() -> None:
        async with connection.client() as client:
            await stdio.serve(client, instantkv_on=None if branch is None else (connection.namespace, branch))

    asyncio.run(run())
