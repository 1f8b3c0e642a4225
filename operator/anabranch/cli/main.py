"""The entry point: finds the command that was asked for, and turns errors into words and exit codes.

Exit codes: 0 done; 1 an error, or a check that found something wrong; 2 a command line that cannot be understood; 130
interrupted. Results go to standard output, everything else to standard error.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Final

import click

from anabranch import __version__
from anabranch.cli.lazy import LazyGroup
from anabranch.model.errors import AnabranchError

if TYPE_CHECKING:
    from collections.abc import Sequence

INTERRUPTED: Final = 130

COMMANDS: Final[dict[str, tuple[str, str]]] = {
    "demo": ("anabranch.cli.demo:command", "Run the main job on real parts, step by step."),
    "dev": ("anabranch.cli.dev:command", "Leave the whole system running, and print how to talk to it."),
    "import": ("anabranch.cli.importing:command", "Turn a directory of documents into an archive for a Baseline."),
    "baseline": ("anabranch.cli.baseline:command", "See, compare, prove, verify, export and roll back."),
    "branch": ("anabranch.cli.branch:command", "Fork, read, write and submit as an agent."),
    "search": ("anabranch.cli.search:command", "Search a Baseline, or what a branch sees."),
    "quality": ("anabranch.cli.quality:command", "Measure whether a memory answers what it is for."),
    "feed": ("anabranch.cli.feed:command", "Follow what is published."),
    "memory": ("anabranch.cli.memory:command", "See what an agent remembers, was told, and is to be told."),
    "mcp": ("anabranch.cli.mcp:command", "Offer an agent's tools by the Model Context Protocol."),
    "job": ("anabranch.cli.job:command", "See and review consolidation jobs."),
    "ui": ("anabranch.cli.ui:command", "Open the review page in your browser, through your kubeconfig."),
    "doctor": ("anabranch.cli.doctor:command", "Say what an installation lacks, and how to mend it."),
    "manifests": ("anabranch.cli.manifests:command", "Print what an installation applies to the cluster."),
    "backup": ("anabranch.cli.backup:command", "List, check, make and restore backups, at the database."),
    "migrate": ("anabranch.cli.migrate:command", "Bring the database to this version's schema."),
    "operator": ("anabranch.cli.run_operator:command", "Run the operator."),
    "api": ("anabranch.cli.run_api:command", "Run the HTTP API."),
    "retire": ("anabranch.cli.retire:command", "Stop the operator for good: before an installation goes."),
    "completion": ("anabranch.cli.completion:command", "Print the script that completes commands in a shell."),
}

EXTRAS: Final = {
    "demo": "dev",
    "dev": "dev",
    "migrate": "store",
    "backup": "operator",
    "operator": "operator",
    "api": "api",
    "retire": "operator",
    "mcp": "mcp",
    "ui": "ui",
}
"""What an agent's plain installation lacks, by the command that needs it."""


@click.group(
    cls=LazyGroup,
    lazy=COMMANDS,
    extras=EXTRAS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)
@click.version_option(__version__, prog_name="anabranch")
def cli() -> None:
    """Branching, reviewed memory for fleets of AI agents, on Kubernetes and Postgres."""


def run(arguments: Sequence[str] | None = None, *, program: str = "anabranch") -> int:
    """Run a command line; known errors become a line or two on standard error, never a traceback.

    Args:
        arguments: Without the program's name; those of this process unless given.
        program: What the person called: usage lines show it.

    Returns:
        The exit code.
    """
    try:
        # A command that ends by `click.exceptions.Exit` gives its code; one that returns has nothing to add.
        return cli.main(args=arguments, prog_name=program, standalone_mode=False) or 0
    except click.exceptions.Abort:
        click.echo("Interrupted.", err=True)
        return INTERRUPTED
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except AnabranchError as error:
        from anabranch.domain.wording import visible  # noqa: PLC0415  (the help need not wait for it)

        # An error may quote what others wrote, or come from a server that is not what it seems.
        click.echo(visible(f"Error: {error.detail}" + (f"\n{error.hint}" if error.hint else "")), err=True)
    except BrokenPipeError:
        # Whoever read our output has seen enough (`| head`); Python must not try again when it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        if error.filename is None:
            raise
        click.echo(f"Error: {error.filename}: {error.strerror}.", err=True)
    return 1


def main() -> None:
    """Run this process's command line as ``anabranch``."""
    sys.exit(run())


def plugin() -> None:
    """Run it as ``kubectl anabranch``: kubectl finds the program ``kubectl-anabranch`` on PATH."""
    sys.exit(run(program="kubectl anabranch"))


if __name__ == "__main__":
    main()
