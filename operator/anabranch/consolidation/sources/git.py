"""``git:<repository>@<commit>:<path>``: a file as it stood at a commit of a configured repository.

The commit must be part of a branch or a tag. That is stricter than asking for the object: hosting services keep the
commits of every fork and pull request in one place, so an object alone would let anybody "cite the repository" with
a file that they pushed themselves. Git runs as a program, without a shell, without prompts, with a time limit; what
an agent writes reaches it only as one argument behind a checked commit id.

A mirror is fetched when a commit is missing from it. One that was missing after that too is remembered for a while, so
that an agent which cites it again and again does not make the operator fetch again and again.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import re
import shutil
import signal
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from anabranch.consolidation.sources.check import Found, UnreachableSourceError
from anabranch.telemetry import tracing

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

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
_ABSENT_SECONDS: Final = 10.0
"""How long a commit that a fetch did not bring is taken for absent."""

_ABSENT_AT_MOST: Final = 10_000
_MIRROR: Final = re.compile(r"[0-9a-f]{32}")
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
        self._absent: dict[tuple[str, str], float] = {}  # until when, by address and commit; oldest first
        if folder is not None:
            _remove_mirrors(folder, but={_mirror_name(one.url) for one in repositories.values() if one.url})

    async def __call__(self, citation: Citation, locator: Locator) -> Found:  # noqa: ARG002  (the same for every agent)
        """Look the file up; a mirror that lacks the commit is brought up to date first."""
        name, commit, path = (locator.parts[part] for part in ("repository", "commit", "path"))
        repository = self._repositories.get(name)
        if repository is None:
            return Found(verified=False, detail=f"no repository is configured under the name {name}")
        if repository.url is None:
            return await self._look(Path(str(repository.path)), commit, path)
        mirror = self._mirrors / _mirror_name(repository.url)
        if not await self._has(mirror, commit) and not await self._bring(repository.url, mirror, commit):
            return _NOT_FOUND
        return await self._look(mirror, commit, path)

    async def _bring(self, url: str, mirror: Path, commit: str) -> bool:
        """Fetch a commit that a mirror lacks; whether it came."""
        if self._absent.get((url, commit), 0.0) > time.monotonic():
            return False
        if url in self._fetches:
            # That one may have begun before the commit was pushed: if it does not bring it, the next one tells.
            await self._fetch(url, mirror)
            if await self._has(mirror, commit):
                return True
        await self._fetch(url, mirror)
        if await self._has(mirror, commit):
            return True
        self._absent.pop((url, commit), None)
        self._absent[url, commit] = time.monotonic() + _ABSENT_SECONDS
        if len(self._absent) > _ABSENT_AT_MOST:
            del self._absent[next(iter(self._absent))]
        return False

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
        with tracing.span("fetch repository", kind="client") as span:
            span.describe({"server.address": urlsplit(url).hostname})
            await asyncio.shield(fetch)

    def _fetched(self, url: str, fetch: asyncio.Task[None]) -> None:
        del self._fetches[url]
        if not fetch.cancelled():
            fetch.exception()  # whoever asked may be gone


def _mirror_name(url: str) -> str:
    return hashlib.sha256(url.encode()).hexdigest()[:32]


def _remove_mirrors(folder: Path, *, but: Collection[str]) -> None:
    """Remove the mirrors of repositories that are not configured any more, and nothing else."""
    for found in folder.iterdir() if folder.is_dir() else ():
        if _MIRROR.fullmatch(found.name) and found.name not in but:
            shutil.rmtree(found, ignore_errors=True)


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


async def _git(folder: Path, *arguments: str, seconds: float | None = None) -> tuple[int, bytes]:
    """Run git in a folder, as long as a look may take unless told otherwise; its exit status and output.

    Raises:
        UnreachableSourceError: If there is no git, or it does not end in time.
    """
    seconds = _LOOK_SECONDS if seconds is None else seconds
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
            process_group=0,  # git starts others, which would outlive it
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
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
    return process.returncode or 0, output
