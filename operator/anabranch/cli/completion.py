"""Completion: of commands and options in three shells, of names as the cluster has them, and for kubectl's plugin."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

import click
from click.shell_completion import CompletionItem, ShellComplete, get_completion_class

from anabranch.model.errors import AnabranchError

if TYPE_CHECKING:
    from collections.abc import Callable

    from anabranch.cli.connection import Connection

_FILES: Final = 0
_NO_FILES: Final = 4
"""What kubectl is told to do beside what we offer (cobra's ShellCompDirective): complete file names, or not."""


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def command(ctx: click.Context, shell: str) -> None:
    """Print the script that completes commands, options and names in a shell.

    \b
    bash   source <(anabranch completion bash)     in ~/.bashrc
    zsh    source <(anabranch completion zsh)      in ~/.zshrc, after compinit
    fish   anabranch completion fish | source      in ~/.config/fish/config.fish

    As a plugin of kubectl the commands are completed by kubectl's own script.
    """  # noqa: D301  (click's mark for a paragraph that is not to be wrapped)
    made = get_completion_class(shell)
    if made is None:
        raise TypeError(f"click has no completion for {shell}")
    click.echo(made(ctx.find_root().command, {}, "anabranch", "_ANABRANCH_COMPLETE").source())


def names(kind: str) -> Callable[[click.Context, click.Parameter, str], list[CompletionItem]]:
    """Give what completes an argument with the names of a kind's objects, as the person's kubectl lists them."""

    def complete(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
        del parameter
        connection: Connection = ctx.params["connection"]
        try:
            found = connection.kubectl.names(kind)
        except AnabranchError:  # no cluster, no rights: nothing to offer
            return []
        return [CompletionItem(name) for name in found if name.startswith(incomplete)]

    return complete


def kubectl() -> None:
    """Answer kubectl, which runs ``kubectl_complete-anabranch`` with the words of ``kubectl anabranch …`` so far."""
    from anabranch.cli.main import cli  # noqa: PLC0415  (the entry point imports this module)

    print(offer(cli, sys.argv[1:]))  # noqa: T201


def offer(group: click.Command, words: list[str]) -> str:
    """What kubectl is to offer, a candidate a line with its explanation, and last whether to offer files too.

    Args:
        group: The root of the commands.
        words: What was typed; the last one is still being typed.
    """
    *typed, incomplete = words or [""]
    settings: dict[str, Any] = {}
    items = ShellComplete(group, settings, "kubectl anabranch", "").get_completions(typed, incomplete)
    plain = [item for item in items if item.type == "plain"]
    lines = [f"{item.value}\t{item.help}" if item.help else str(item.value) for item in plain]
    return "\n".join([*lines, f":{_NO_FILES if len(plain) == len(items) else _FILES}"])
