"""The entry point: finds the command that was asked for and imports no other.

``anabranch --help`` must be quick, and an agent that installed only the SDK must not pay for, or even need, what the
operator and the API import. So each command lives in a module of its own that is imported when it is called.
"""

from __future__ import annotations

import importlib
import sys
from typing import Final

import click

from anabranch import __version__
from anabranch.model.errors import AnabranchError

# command: (module, one line for --help)
COMMANDS: Final[dict[str, tuple[str, str]]] = {
    "demo": ("demo", "Run the main job on a real API server and a real Postgres, and show each step."),
    "dev": ("dev", "Leave a cluster, Postgres, the operator and the API running, and print how to talk to them."),
    "import": ("importing", "Turn a directory of documents into an archive that a Baseline imports by digest."),
    "baseline": ("baseline", "List, show, verify and roll back baselines."),
    "branch": ("branch", "List and show branches; read and write as an agent."),
    "job": ("job", "List, show and review consolidation jobs."),
    "doctor": ("doctor", "Say what is missing in an installation and how to mend it."),
    "migrate": ("migrate", "Bring the database to this version's schema."),
    "operator": ("run_operator", "Run the operator."),
    "api": ("run_api", "Run the HTTP API."),
    "manifests": ("manifests", "Print the resources that an installation needs: CRDs, roles, admission policies."),
}

EXTRAS: Final = {"kopf": "operator", "kubernetes": "operator", "fastapi": "api", "uvicorn": "api", "asyncpg": "store"}


class LazyGroup(click.Group):
    """A group that imports a command's module only when that command is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The commands in the order of the table above."""
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command's object; says which extra to install when its module lacks a package."""
        del ctx
        if cmd_name not in COMMANDS:
            return None
        module = f"anabranch.cli.{COMMANDS[cmd_name][0]}"
        try:
            command = importlib.import_module(module).command
        except ModuleNotFoundError as error:
            package = (error.name or "").partition(".")[0]
            if package not in EXTRAS:
                raise
            raise click.ClickException(
                f"`anabranch {cmd_name}` needs the package {package}: pip install 'anabranch[{EXTRAS[package]}]'"
            ) from None
        if not isinstance(command, click.Command):
            raise TypeError(f"{module}.command is no command")
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the help's list from the table, without importing anything."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, prog_name="anabranch")
def cli() -> None:
    """Branching, reviewed memory for fleets of AI agents, on Kubernetes and Postgres."""


def main() -> None:
    """Run the command line; known errors become one line and exit code 1, never a traceback."""
    try:
        cli.main(prog_name="anabranch", standalone_mode=False)
    except click.exceptions.Abort:
        click.echo("Interrupted.", err=True)
        sys.exit(130)
    except click.exceptions.Exit as leaving:
        sys.exit(leaving.exit_code)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except AnabranchError as error:
        click.echo(f"Error: {error.detail}" + (f"\n{error.hint}" if error.hint else ""), err=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
