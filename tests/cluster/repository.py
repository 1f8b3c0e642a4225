"""A Git repository with a person who pushes to it, and a loop that pulls and applies it as GitOps controllers do."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tests.cluster.places import eventually

from anabranch.devcluster.errors import DevclusterError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from anabranch.devcluster.cluster import Cluster

EXAMPLE = Path(__file__).parents[2] / "examples/gitops"
MANAGER = "kustomize-controller"
"""The field manager of Flux; Argo CD's is argocd-controller."""

_PERSON = {"NAME": "Ada", "EMAIL": "ada@example.org"}
_ENVIRONMENT = {
    **{f"GIT_{role}_{name}": value for role in ("AUTHOR", "COMMITTER") for name, value in _PERSON.items()},
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_SYSTEM": os.devnull,
}
_PAUSE = 0.5
"""Seconds between two turns: controllers take minutes, and are told of a push by a webhook."""


def git(folder: Path, *arguments: str) -> str:
    command = ["git", "-C", str(folder), *arguments]
    env = {**os.environ, **_ENVIRONMENT}
    return subprocess.run(command, check=True, capture_output=True, text=True, env=env).stdout.strip()


class Repository:
    """A bare repository that begins with the example, and somebody's clone of it."""

    def __init__(self, folder: Path, *, namespace: str) -> None:
        self.origin = folder / "origin.git"
        git(folder, "init", "--quiet", "--bare", "--initial-branch=main", str(self.origin))
        self.clone = folder / "ada"
        git(folder, "clone", "--quiet", str(self.origin), str(self.clone))
        git(self.clone, "checkout", "--quiet", "-B", "main")
        shutil.copytree(EXAMPLE / "memory", self.clone / "memory")
        self.replace("kustomization.yaml", "platform-memory", namespace)

    def replace(self, name: str, old: str, new: str) -> None:
        """Edit a file, and commit and push that."""
        path = self.clone / "memory" / name
        text = path.read_text(encoding="utf-8")
        assert text.count(old) == 1
        path.write_text(text.replace(old, new), encoding="utf-8")
        git(self.clone, "add", ".")
        git(self.clone, "commit", "--quiet", f"--message=Change {name}")
        git(self.clone, "push", "--quiet", "origin", "main")

    def revert(self) -> None:
        """Take the last commit back, by another one."""
        git(self.clone, "revert", "--no-edit", "HEAD")
        git(self.clone, "push", "--quiet", "origin", "main")


@dataclass
class Loop:
    """Pulls and applies, over and over, whether there is anything new or not.

    Unlike Argo CD and Flux it takes no field that another manager owns: whoever fought over one would be seen here.

    Attributes:
        cluster: As the controller's own ServiceAccount sees it.
        clone: Its working copy.
        turns: How often it has applied the whole.
        refusals: What the API server refused.
    """

    cluster: Cluster
    clone: Path
    turns: int = 0
    refusals: list[str] = field(default_factory=list)

    def turn(self) -> None:
        git(self.clone, "pull", "--quiet", "--ff-only")
        try:
            self.cluster.kubectl(
                "apply", "--server-side", f"--field-manager={MANAGER}", f"--kustomize={self.clone / 'memory'}"
            )
        except DevclusterError as error:
            self.refusals.append(str(error))
        self.turns += 1

    async def whole_turns(self, count: int) -> None:
        """Wait until it has applied so often what is there now."""
        last = self.turns + count + 1  # one may be under way that began before

        async def done() -> bool:
            return self.turns >= last

        await eventually(done)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[Loop]:
        async def go() -> None:
            while True:
                await asyncio.to_thread(self.turn)
                await asyncio.sleep(_PAUSE)

        task = asyncio.create_task(go())
        try:
            yield self
        finally:
            if task.done():
                task.result()  # it ends by itself only where it fails
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
