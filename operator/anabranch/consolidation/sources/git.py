"""``git:<repository>@<commit>:<path>``: a file as it stood at a commit of a configured repository.

The commit must be part of a branch or a tag. That is stricter than asking for the object: hosting services keep the
commits of every fork and pull request in one place, so an object alone would let anybody "cite the repository" with
a file that they pushed themselves. Git runs as a program, without a shell, without prompts, with a time limit; what
an agent writes reaches it only as one argument behind a checked commit id.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from anabranch.consolidation.sources.check import Found, UnreachableSourceError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from anabranch.consolidation.sources.check import Citation
    from anabranch.consolidation.sources.config import GitRepository
    from anabranch.model.locators import Locator

_OPTIONS: Final = ("-c", "safe.directory=*", "-c", "core.hooksPath=/dev/null", "-c", "gc.auto=0")
_ENVIRONMENT: Final = {
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_SSH_COMMAND": "ssh -o BatchMode=yes",
    "LC_ALL": "C",
}
_LOOK_SECONDS: Final = 10.0
_FETCH_SECONDS: Final = 300.0
_NOT_FOUND: Final = Found(verified=False, detail="no branch or tag of the repository has such a file at that commit")


class GitResolver:
    """Looks files up in the configured repositories.

    Args:
        repositories: By the name that locators use.
        folder: Where mirrors of remote repositories are kept; a new temporary folder if None.
    """

    def __init__(self, repositories: Mapping[str, GitRepository], *, folder: Path | None = None) -> None:
        self._repositories = repositories
        self._folder = folder
        self._fetches: dict[str, asyncio.Task[None]] = {}

    async def __call__(self, citation: Citation, locator: Locator) -> Found:  # noqa: ARG002  (the same for every agent)
        """Look the file up; a mirror that lacks the commit is brought up to date first."""
        name, commit, path = (locator.parts[part] for part in ("repository", "commit", "path"))
        repository = self._repositories.get(name)
        if repository is None:
            return Found(verified=False, detail=f"no repository is configured under the name {name}")
        if repository.path is not None:
            return await self._look(Path(repository.path), commit, path)
        mirror = self._mirrors / hashlib.sha256(str(repository.url).encode()).hexdigest()[:32]
        if not await self._has(mirror, commit):
            await self._fetch(str(repository.url), mirror)
        return await self._look(mirror, commit, path)

    @property
    def _mirrors(self) -> Path:
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="anabranch-git-"))
        return self._folder

    async def _look(self, folder: Path, commit: str, path: str) -> Found:
        if not await self._has(folder, commit):
            return _NOT_FOUND
        status, kind = await _git(folder, "ls-tree", "--format=%(objecttype)", commit, "--", f":(top,literal){path}")
        return Found(verified=True) if status == 0 and kind.strip() == b"blob" else _NOT_FOUND

    async def _has(self, folder: Path, commit: str) -> bool:
        """Whether a branch or a tag contains the commit."""
        status, refs = await _git(
            folder, "for-each-ref", "--count=1", f"--contains={commit}", "refs/heads", "refs/tags"
        )
        return status == 0 and bool(refs.strip())

    async def _fetch(self, url: str, mirror: Path) -> None:
        """Bring a mirror up to date, once at a time, to its end: a large one outlives the lookup that asked for it."""
        if (fetch := self._fetches.get(url)) is None:
            fetch = asyncio.create_task(_mirror(url, mirror))
            self._fetches[url] = fetch
            fetch.add_done_callback(lambda done: self._fetched(url, done))
        await asyncio.shield(fetch)

    def _fetched(self, url: str, fetch: asyncio.Task[None]) -> None:
        del self._fetches[url]
        if not fetch.cancelled():
            fetch.exception()  # whoever asked may be gone


async def _mirror(url: str, mirror: Path) -> None:
    if not (mirror / "HEAD").exists():
        mirror.parent.mkdir(parents=True, exist_ok=True)
        await _git(mirror.parent, "init", "--quiet", "--bare", str(mirror))
    await _git(mirror, "config", "remote.origin.url", url)
    # Trees and commits only: whether a file exists does not need its content.
    refs = ("+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*")
    status, _ = await _git(
        mirror,
        "fetch",
        "--quiet",
        "--prune",
        "--no-tags",
        "--filter=blob:none",
        "origin",
        *refs,
        seconds=_FETCH_SECONDS,
    )
    if status != 0:
        raise UnreachableSourceError(
            "A configured Git repository could not be fetched.", hint="See the operator's log."
        )


async def _git(folder: Path, *arguments: str, seconds: float = _LOOK_SECONDS) -> tuple[int, bytes]:
    """Run git in a folder; its exit status and output.

    Raises:
        UnreachableSourceError: If there is no git, or it does not end in time.
    """
    try:
        process = await asyncio.create_subprocess_exec(
            "git",
            "-C",
            str(folder),
            *_OPTIONS,
            *arguments,
            env=os.environ | _ENVIRONMENT,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
    except OSError as error:
        raise UnreachableSourceError(f"git cannot be run: {error}.", hint="Install git beside the operator.") from None
    try:
        async with asyncio.timeout(seconds):
            output, _ = await process.communicate()
    except TimeoutError:
        raise UnreachableSourceError(f"git took longer than {seconds:.0f} s.", hint="It is tried again.") from None
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    return process.returncode or 0, output
