"""``anabranch memory``: what an agent remembers, what it was told, what waits for it; as that agent and nobody else.

Looking changes nothing: exchanges stay unseen, and events stay in the queue.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from anabranch.cli.calls import as_json, call
from anabranch.cli.connection import Connection, connection_options
from anabranch.cli.output import Column, moment, output_option, show

if TYPE_CHECKING:
    from anabranch.client import AnabranchClient
    from anabranch.model.agent_events import EventStatus


def _size(section: Any) -> str:
    return f"{section['bytes']:,}"


SECTIONS: Final[dict[str, Column]] = {
    "section": "section",
    "item": "item",
    "visibility": "visibility",
    "bytes": _size,
    "revision": "revision",
    "source": "source",
    "updated": lambda section: moment(section["updated_at"]),
}
EXCHANGES: Final[dict[str, Column]] = {
    "at": lambda entry: moment(entry["ts"]),
    "kind": "kind",
    "where": lambda entry: entry["surfaceLabel"] or entry["surfacePodId"],
    "peers": lambda entry: ", ".join(entry["peers"]),
    "seen": "seen",
    "takeaway": "takeaway",
}
EVENTS: Final[dict[str, Column]] = {
    "id": "event_id",
    "type": lambda event: event["type"].removeprefix("dev.anabranch.agent."),
    "status": "status",
    "attempts": "attempts",
    "created": lambda event: moment(event["created_at"]),
    "error": "error",
}

agent_argument = click.argument("agent")
instance_option = click.option("--instance", default="default", show_default=True, help="Which of its instances.")


@click.group()
def command() -> None:
    """See what an agent remembers, was told, and is to be told: with that agent's own token."""


@command.command("show")
@agent_argument
@click.argument("section", required=False)
@click.argument("item", required=False)
@instance_option
@output_option
@connection_options
def show_(
    *, agent: str, section: str | None, item: str | None, instance: str, output: str, connection: Connection
) -> None:
    """List the sections of an agent's memory, or show what one of them says.

    ITEM is a date of `daily`, or another instance of `relationships`.
    """

    async def ask(client: AnabranchClient, namespace: str) -> Any:
        from anabranch.model.memory import ITEMIZED, SYSTEM_EXCHANGES  # noqa: PLC0415  (pydantic, for this one alone)

        if section is None:
            return as_json(await client.memory(namespace, agent, instance=instance))
        if section == SYSTEM_EXCHANGES and item is None:  # a read of the section itself would mark its entries as seen
            return as_json((await client.memory(namespace, agent, instance=instance)).system_exchanges)
        if section in ITEMIZED and item is None:
            return as_json(await client.memory_items(namespace, agent, section, instance=instance))
        return as_json(await client.memory_section(namespace, agent, section, item, instance=instance))

    found = call(connection, ask)
    if section is None and output == "table":
        show(found["sections"], output, columns=SECTIONS)
    else:
        show(found, output)


@command.command("exchanges")
@agent_argument
@click.option("--seen", is_flag=True, help="Mark them as seen, as the agent does when it reads them.")
@instance_option
@output_option
@connection_options
def exchanges(*, agent: str, seen: bool, instance: str, output: str, connection: Connection) -> None:
    """Show what the platform noted for an agent of its other sessions, newest first."""

    async def ask(client: AnabranchClient, namespace: str) -> Any:
        if seen:
            return as_json(await client.system_exchanges(namespace, agent, instance=instance))
        return as_json((await client.memory(namespace, agent, instance=instance)).system_exchanges)

    show(call(connection, ask)["entries"], output, columns=EXCHANGES)


@command.command("events")
@agent_argument
@click.option(
    "--status", type=click.Choice(["pending", "claimed", "acked", "failed"]), help="Only those in this state."
)
@instance_option
@output_option
@connection_options
def events(*, agent: str, status: EventStatus | None, instance: str, output: str, connection: Connection) -> None:
    """Show what is in an agent's queue, newest first. Nothing is taken out of it."""

    async def ask(client: AnabranchClient, namespace: str) -> Any:
        found = client.queued_events(namespace, agent, instance=instance, status=status)
        return [as_json(event) async for event in found]

    show(call(connection, ask), output, columns=EVENTS)
