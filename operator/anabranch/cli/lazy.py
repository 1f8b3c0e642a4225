"""Groups that import a command's module when that command is called, and not before.

``anabranch --help`` must be quick, a key press in a shell that completes commands quicker still, and an agent that
installed only the SDK must not pay for, or even need, what the operator and the API import.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


class LazyGroup(click.Group):
    """A group of commands that are imported when they are called.

    Args:
        lazy: Name of a command to where it is (``module:attribute``) and its line in the help.
        extras: Name of a command to the extra of ours that brings what it imports, where it needs one.
        arguments: As `click.Group` takes them.
        settings: Likewise.
    """

    def __init__(
        self,
        *arguments: Any,
        lazy: Mapping[str, tuple[str, str]],
        extras: Mapping[str, str] | None = None,
        **settings: Any,
    ) -> None:
        super().__init__(*arguments, **settings)
        self._lazy = lazy
        self._extras = extras or {}

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The commands in the order in which they were written down."""
        del ctx
        return [*self.commands, *self._lazy]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command's object; says which extra to install when its module lacks a package."""
        if cmd_name not in self._lazy:
            return super().get_command(ctx, cmd_name)
        module, _, attribute = self._lazy[cmd_name][0].partition(":")
        try:
            command = getattr(importlib.import_module(module), attribute)
        except ModuleNotFoundError as error:
            if cmd_name not in self._extras or (error.name or "").startswith("anabranch"):
                raise
            if ctx.resilient_parsing:  # completion: nothing to offer, and nobody to tell
                return None
            raise click.ClickException(
                f"`{ctx.command_path} {cmd_name}` needs the package {error.name}: "
                f"pip install 'anabranch[{self._extras[cmd_name]}]'"
            ) from None
        if not isinstance(command, click.Command):
            raise TypeError(f"{self._lazy[cmd_name][0]} is no command")
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the help's list without importing anything."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl(list(self._lines()))

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete a command's name without importing anything, or an option's."""
        found = [CompletionItem(name, help=text) for name, text in self._lines() if name.startswith(incomplete)]
        return [*found, *click.Command.shell_complete(self, ctx, incomplete)]

    def _lines(self) -> Iterator[tuple[str, str]]:
        yield from ((name, command.get_short_help_str(limit=100)) for name, command in self.commands.items())
        yield from ((name, text) for name, (_, text) in self._lazy.items())
