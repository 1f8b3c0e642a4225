"""Where the story plays: prints each step, shows what kubectl sees, stops at the first thing that did not happen."""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from anabranch.cli.kubectl import Kubectl
from anabranch.client import AnabranchClient
from anabranch.devcluster import accounts
from anabranch.model.errors import AnabranchError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from anabranch.cli.story.cast import Cast
    from anabranch.devcluster.stack import Stack

T = TypeVar("T")

PATIENCE: Final = 30.0
"""Seconds that something may take to show."""


class StepFailedError(AnabranchError):
    """A step of the story did not happen."""

    code = "StepFailed"


@dataclass
class Stage:
    """The running system, and the narrator.

    Attributes:
        stack: Cluster, Postgres, operator and API.
        cast: Who plays.
        steps: How many have begun.
        shown: Rows of kubectl's tables that were shown, without their age.
    """

    stack: Stack
    cast: Cast
    steps: int = 0
    shown: set[str] = field(default_factory=set)

    def step(self, title: str) -> None:
        """Begin a step."""
        self.steps += 1
        click.echo(f"\n{click.style(f'{self.steps:>2}  {title}', bold=True)}")

    def fact(self, text: str) -> None:
        """Say what was seen to be so."""
        click.echo(f"    {click.style('✓', fg='green')} {text}")

    def expect(self, holds: bool, text: str) -> None:  # noqa: FBT001  (reads as a sentence: expect(this, "…"))
        """Say what is so, or end the story because it is not."""
        if not holds:
            raise StepFailedError(
                f"Step {self.steps}: not so: {text}.", hint=f"Logs: {self.stack.log('operator').parent}"
            )
        self.fact(text)

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        """Run kubectl as the admin."""
        return self.stack.cluster.kubectl(*filter(None, arguments), stdin=stdin)

    def show(self) -> None:
        """Show what kubectl shows of the three kinds: every column, and of the rows those that changed since."""
        command = "kubectl get baselines,branches,consolidationjobs -A"
        click.echo(click.style(f"    $ {command}{'   # the rows that changed' if self.shown else ''}", dim=True))
        for block in self.kubectl(*command.split()[1:]).strip().split("\n\n"):
            heading, *rows = block.splitlines()
            changed = [row for row in rows if _told(row) not in self.shown]
            self.shown.update(map(_told, rows))
            for line in [heading, *changed] if changed else []:
                click.echo(f"      {line}")

    def wait(self, resource: str, condition: str, *, namespace: str) -> None:
        """Wait for a condition with ``kubectl wait``, as a script would."""
        self.kubectl(
            "wait", f"--namespace={namespace}", f"--for=condition={condition}", "--timeout=60s", *resource.split()
        )
        self.fact(f"kubectl wait --for=condition={condition} {resource}")

    def get(self, kind: str, name: str, *, namespace: str) -> Any:
        """An object as JSON."""
        return json.loads(self.kubectl("get", kind, name, f"--namespace={namespace}", "--output=json"))

    async def until(self, what: str, look: Callable[[], Awaitable[T | None]]) -> T:
        """Look again and again until there is something; the story ends if there never is."""
        deadline = time.monotonic() + PATIENCE
        while True:
            found = await look()
            if found:
                return found
            if time.monotonic() > deadline:
                raise StepFailedError(
                    f"Step {self.steps}: {what} did not come within {PATIENCE:.0f} s.",
                    hint=f"Logs: {self.stack.log('operator').parent}",
                )
            await asyncio.sleep(0.1)

    async def condition(
        self, kind: str, name: str, condition: str, *, namespace: str, reason: str | None = None
    ) -> str:
        """Wait until a condition is true (for a reason, if one is given), and return its message."""

        async def look() -> str | None:
            status = self.get(kind, name, namespace=namespace).get("status", {})
            for found in status.get("conditions", ()):
                if found["type"] == condition and found["status"] == "True" and reason in (None, found["reason"]):
                    return f"{found['reason']}: {found['message']}"
            return None

        return await self.until(f"{condition}{f' ({reason})' if reason else ''} of {kind} {name}", look)

    def cast_kubectl(self, account: str, *, namespace: str, at: str | None = None) -> Kubectl:
        """Give kubectl with a ServiceAccount's own kubeconfig: it may do what that account may.

        Args:
            account: The ServiceAccount.
            namespace: Its namespace.
            at: The namespace that calls go to; its own unless given.
        """
        folder = self.stack.folder / "cast"
        kubeconfig = accounts.set_up(self.stack.cluster, namespace=namespace, name=account, folder=folder).kubeconfig
        program = str(self.stack.cluster.kubectl_path)
        return Kubectl(at or namespace, (f"--kubeconfig={kubeconfig}",), program)

    @asynccontextmanager
    async def client(self, namespace: str, account: str) -> AsyncIterator[AnabranchClient]:
        """The API, called with a ServiceAccount's own token."""
        token = await asyncio.to_thread(self.stack.token, namespace, account)
        async with AnabranchClient(self.stack.api_url, token=token) as client:
            yield client


def _told(row: str) -> str:
    """What a row of kubectl's tells, less the age at its end, which always changes, and the padding."""
    return " ".join(row.split()[:-1])
