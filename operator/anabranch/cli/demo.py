"""``anabranch demo``: the whole idea, on real parts, in a minute; it ends in an error where a step did not happen."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import click

from anabranch.cli.story import opening, running, way_back
from anabranch.cli.story.cast import Cast
from anabranch.cli.story.stage import Stage
from anabranch.devcluster import assembly

if TYPE_CHECKING:
    from anabranch.devcluster.stack import Stack


@click.command()
def command() -> None:
    """Run the main job on a real API server and a real Postgres, and show each step.

    Uses the cluster of ANABRANCH_KUBECONFIG and the Postgres of ANABRANCH_DSN where these are set; otherwise it makes
    its own, and leaves nothing behind.
    """
    started = time.monotonic()
    opening.check_examples()
    click.echo(click.style("Setting up a cluster, Postgres, the operator and the API", bold=True))
    with assembly.temporary(say=_progress) as stack:
        ready = time.monotonic()
        asyncio.run(_play(stack))
        told = time.monotonic()
        click.echo(f"\nEvery step happened. {told - ready:.1f} s for the story, {ready - started:.1f} s to set up.")
    click.echo("Leave it running and look around: make dev")


async def _play(stack: Stack) -> None:
    cast = Cast.for_cluster(stack.cluster.kind)
    for namespace in (cast.memory, cast.agents):
        stack.make_namespace(namespace)
    stack.cluster.apply(cast.manifests())
    stage = Stage(stack, cast)
    original = await opening.import_knowledge(stage)
    await opening.fork(stage)
    await running.publish_during_run(stage)
    await running.follow(stage, original)
    await running.conflict(stage)
    await running.decide(stage)
    await way_back.roll_back(stage)
    await way_back.resume(stage)


def _progress(line: str) -> None:
    click.echo(click.style(f"    {line}", dim=True), err=True)
