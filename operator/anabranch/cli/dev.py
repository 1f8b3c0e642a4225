"""``anabranch dev``: everything running, its data kept, and the lines to copy into a shell."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from anabranch.devcluster import folders
from anabranch.devcluster import stack as stacks
from anabranch.model.errors import NotFoundError


@click.command()
@click.option(
    "--dir",
    "directory",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where it keeps everything.  [default: a folder of yours that outlives a restart]",
)
@click.option("--down", is_flag=True, help="Stop it and delete what it made.")
def command(directory: Path | None, *, down: bool) -> None:
    """Leave a cluster, Postgres, the operator and the API running, and print how to talk to them.

    Run again it starts what has ended. Data outlives the machine's restart.
    """
    folder = directory or folders.state() / "dev"
    if down:
        stack = stacks.load(folder)
        if stack is None:
            raise NotFoundError(f"Nothing was started in {folder}.", hint="Start it with `anabranch dev`.")
        stack.down(say=_progress)
        click.echo("Stopped, and deleted what it made.")
        return
    stack = stacks.up(folder, options=stacks.Options(durable=True), say=_progress)
    kubectl = stack.cluster.kubectl_path
    click.echo(
        f"""\
Running. In a shell:

  export KUBECONFIG={stack.cluster.kubeconfig}
  export PATH={Path(sys.executable).parent}:{kubectl.parent}:$PATH
  export ANABRANCH_URL={stack.api_url}
  export ANABRANCH_AUDIENCE={stack.audience}
  export ANABRANCH_DSN='{stack.api_dsn}'

  kubectl apply -f examples/
  kubectl -n anabranch-examples wait --for=condition=Ready baseline/handbook branch/fix-flaky-build
  anabranch doctor
  anabranch branch submit fix-flaky-build build#when-a-build-hangs '{{"text": "Drain the cache node first."}}' \\
      --evidence README.md -n anabranch-examples --service-account build-agent
  kubectl -n anabranch-examples wait --for=condition=Complete consolidationjob/first-finding
  anabranch baseline history handbook -n anabranch-examples --service-account build-agent

Logs: {stack.log("operator")}, {stack.log("api")}
Stop it: anabranch dev --down{f" --dir {directory}" if directory else ""}"""
    )


def _progress(line: str) -> None:
    click.echo(click.style(line, dim=True), err=True)
