"""``anabranch dev``: everything running, its data kept, and the lines to copy into a shell."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import yaml

from anabranch.devcluster import assembly, folders
from anabranch.devcluster import stack as stacks
from anabranch.model.errors import InvalidInputError, NotFoundError

if TYPE_CHECKING:
    from collections.abc import Mapping


@click.command()
@click.option(
    "--dir",
    "directory",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where it keeps everything.  [default: a folder of yours that outlives a restart]",
)
@click.option(
    "--config",
    "config_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="YAML with the operator's named models, backup targets, repositories and sources, as ANABRANCH_CONFIG names "
    "it. It is kept until another is given.",
)
@click.option("--down", is_flag=True, help="Stop it and delete what it made.")
def command(directory: Path | None, config_file: Path | None, *, down: bool) -> None:
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
    stack = assembly.up(folder, options=assembly.Options(durable=True, config=_config(config_file)), say=_progress)
    kubectl = stack.cluster.kubectl_path
    click.echo(
        f"""\
Running. In a shell:

  export KUBECONFIG={stack.cluster.kubeconfig}
  export PATH={Path(sys.executable).parent}:{kubectl.parent}:$PATH
  export ANABRANCH_URL={stack.api_url}
  export ANABRANCH_AUDIENCE={stack.audience}
  export ANABRANCH_API_DSN='{stack.api_dsn}'
  export ANABRANCH_OPERATOR_DSN='{stack.operator_dsn}'
  export ANABRANCH_CONFIG={stack.folder / "config.yaml"}

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


def _config(path: Path | None) -> Mapping[str, Any] | None:
    """What a configuration file says; None without one.

    Raises:
        InvalidInputError: If it is no YAML object. What its entries are the operator checks.
    """
    if path is None:
        return None
    try:
        config = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise InvalidInputError(f"{path} is no YAML: {error}.", hint="Mend it.") from error
    if not isinstance(config, dict):
        raise InvalidInputError(
            f"{path} is no YAML object.",
            hint="Begin it with `models:` or another of its names.",
        )
    return config


def _progress(line: str) -> None:
    click.echo(click.style(line, dim=True), err=True)
