"""``anabranch baseline history``: the generations that are kept, what made each, and which one readers have."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import click

from anabranch.cli.calls import as_json, call
from anabranch.cli.completion import names
from anabranch.cli.connection import Connection, connection_options
from anabranch.cli.output import Column, moment, output_option, show

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from anabranch.client import AnabranchClient

SHORT: Final = 19
"""Characters of a digest that tell it from others."""

COLUMNS: Final[dict[str, Column]] = {
    "generation": "generation",
    "": lambda manifest: ", ".join(manifest["marks"]),
    "records": "records",
    "made at": lambda manifest: moment(manifest["created_at"]),
    "made by": lambda manifest: made_by(manifest["origin"]),
    "manifest hash": "manifest_hash",
}


@click.command()
@click.argument("name", shell_complete=names("baselines"))
@click.option("--limit", type=click.IntRange(min=1), default=50, show_default=True, help="Generations at most.")
@output_option
@connection_options
def history(name: str, limit: int, output: str, connection: Connection) -> None:
    """List the generations that are kept, newest first, and what made each.

    What readers have is marked `current`; after a rollback the newest one is not.
    """

    async def ask(client: AnabranchClient, namespace: str) -> list[dict[str, Any]]:
        state = as_json(await client.baseline(namespace, name))
        found: list[dict[str, Any]] = []
        async for manifest in client.manifests(namespace, name):
            found.append({**as_json(manifest), "marks": list(marks(state, manifest.generation))})
            if len(found) == limit:
                break
        return found

    show(call(connection, ask), output, columns=COLUMNS)


def marks(state: Mapping[str, Any], generation: int) -> Iterator[str]:
    """What a generation is to its Baseline.

    Args:
        state: The Baseline's, as the API's JSON has it.
        generation: Of the manifest.
    """
    for name in ("current", "previous", "head"):
        if (state[name] or {}).get("generation") == generation:
            yield name
    if state["pinned_generation"] == generation:
        yield "pinned"


def made_by(origin: Mapping[str, Any]) -> str:
    """What made a manifest, in a few words."""
    match origin:
        case {"kind": "import", "config_map": name}:
            return f"import of ConfigMap {name}"
        case {"kind": "import", "archive": digest}:
            return f"import of archive {digest[:SHORT]}…"
        case {"kind": "publication", "job_id": job}:
            return f"publication of {job}"
        case {"kind": "publication", "job_ids": jobs}:
            return f"publication of {len(jobs)} jobs"
        case {"kind": "restore", "generation": generation, "id": restore_id}:
            return f"restore of generation {generation} ({restore_id})"
    members = ", ".join(f"{name} {value}" for name, value in islice(origin.items(), 1, None))
    return f"{origin.get('kind', 'unknown')}{f' ({members})' if members else ''}"
