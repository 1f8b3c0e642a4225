"""What a person should know before a rollback: what readers lose, who works on what is withdrawn, what will be held.

It informs and never stands in the way, since a rollback may be urgent: what cannot be seen is said to be unknown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from anabranch.cli.calls import call
from anabranch.cli.output import take
from anabranch.model.errors import AnabranchError, ForbiddenError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from anabranch.cli.connection import Connection
    from anabranch.client import AnabranchClient

SHOWN: Final = 20
"""How many keys, branches and jobs are named."""


def consequences(baseline: dict[str, Any], target: int, connection: Connection) -> Iterator[str]:
    """What a rollback will change, line by line.

    Args:
        baseline: The resource, with its status.
        target: The generation to go to.
        connection: To look around with.
    """
    metadata = baseline["metadata"]
    where = f"{metadata['namespace']}/{metadata['name']}"
    current = take(baseline, "status.current.generation") or 0
    if current == target:
        yield f"{where}: readers have generation {target} already; the pin pauses consolidation."
    else:
        yield f"{where}: readers go from generation {current} to {target}."
        yield from _changes(connection, metadata["name"], current, target)
    branches, unseen = _branches(connection)
    mine = [branch for branch in branches if of_baseline(branch, metadata)]
    yield from named("Branches forked from a withdrawn generation, which they keep", forked_after(mine, target))
    if unseen:
        yield f"  not all are known: {unseen}"
    try:
        jobs = connection.kubectl.get("consolidationjobs")
    except AnabranchError as error:
        yield f"Jobs held until the pin goes: not known. {error.detail}"
    else:
        yield from named("Jobs held until the pin goes", held(jobs, branches, metadata))


def forked_after(branches: list[dict[str, Any]], generation: int) -> list[str]:
    """The branches whose parent is newer than a generation, by name."""
    return [
        f"{branch['metadata']['namespace']}/{branch['metadata']['name']} (generation {parent})"
        for branch in branches
        if (parent := take(branch, "status.parent.generation") or 0) > generation
    ]


def held(jobs: list[dict[str, Any]], branches: list[dict[str, Any]], baseline: dict[str, Any]) -> list[str]:
    """The unfinished jobs of a Baseline; those of a branch that is not seen are taken for its own."""
    others = {_place(branch) for branch in branches if not of_baseline(branch, baseline)}
    return [
        f"{job['metadata']['name']} ({take(job, 'status.state') or 'new'})"
        for job in jobs
        if not _ended(job) and _branch_of(job) not in others
    ]


def of_baseline(branch: dict[str, Any], baseline: dict[str, Any]) -> bool:
    """Whether a Branch is one of a Baseline, which is given by its metadata."""
    ref = branch["spec"]["baselineRef"]
    namespace = ref.get("namespace") or branch["metadata"]["namespace"]
    return (namespace, ref["name"]) == (baseline["namespace"], baseline["name"])


def named(what: str, found: list[str]) -> Iterator[str]:
    """How many there are of something, and the first ones by name."""
    yield f"{what}: {len(found)}"
    yield from (f"  {name}" for name in found[:SHOWN])
    if len(found) > SHOWN:
        yield f"  … and {len(found) - SHOWN} more"


def _changes(connection: Connection, name: str, current: int, target: int) -> Iterator[str]:
    async def ask(client: AnabranchClient, namespace: str) -> list[str]:
        pages = client.diff(namespace, name, from_generation=current, to_generation=target)
        return [entry.key async for entry in pages]

    try:
        yield from named("Records that change for readers", call(connection, ask))
    except AnabranchError as error:
        yield f"Records that change for readers: not known. {error}"


def _branches(connection: Connection) -> tuple[list[dict[str, Any]], str]:
    """All branches that the person may list, and what kept them from listing all."""
    try:
        return connection.kubectl.get("branches", everywhere=True), ""
    except ForbiddenError as error:
        unseen = error.detail
    except AnabranchError as error:
        return [], error.detail
    try:
        return connection.kubectl.get("branches"), unseen
    except AnabranchError:
        return [], unseen


def _ended(job: dict[str, Any]) -> bool:
    conditions = take(job, "status.conditions") or ()
    return any(each["type"] in ("Complete", "Failed") and each["status"] == "True" for each in conditions)


def _branch_of(job: dict[str, Any]) -> tuple[str, str] | None:
    ref = job["spec"].get("branchRef")
    return None if ref is None else (ref.get("namespace") or job["metadata"]["namespace"], ref["name"])


def _place(branch: dict[str, Any]) -> tuple[str, str]:
    return branch["metadata"]["namespace"], branch["metadata"]["name"]
