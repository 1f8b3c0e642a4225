"""Which commit a file of the imported directory comes from.

A git locator promises that the named commit holds exactly the bytes that became the record. So cleanness is not asked
of `git status`, which knows line-ending filters and can be stale, but decided by the file's own blob id. The commit
named is the one that last brought the file to this branch, not HEAD: an archive of unchanged files stays the same
archive while the rest of the repository moves on.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from typing import TYPE_CHECKING, Final, Self

from anabranch.model.errors import InvalidInputError
from anabranch.model.locators import check_locator

if TYPE_CHECKING:
    from _hashlib import HASH
    from collections.abc import Iterator
    from pathlib import Path

_COMMIT: Final = b"\x01"
"""Marks a commit in the log's output: no file whose name begins so can become a key."""


class GitTree:
    """The committed files at or below a directory of a git work tree.

    Args:
        repository: The name by which the operator's configuration knows the repository.
        prefix: The directory's path in the repository: empty, or ending in ``/``.
        object_format: ``sha1`` or ``sha256``.
        blobs: Blob id of each committed file, by its path below the directory.
        commits: The commit that last brought each file, by the same path.
    """

    def __init__(
        self, *, repository: str, prefix: str, object_format: str, blobs: dict[str, str], commits: dict[str, str]
    ) -> None:
        self._repository = repository
        self._prefix = prefix
        self._object_format = object_format
        self._blobs = blobs
        self._commits = commits

    @classmethod
    def open(cls, directory: Path, *, repository: str) -> Self | None:
        """Look up what is committed, or None where the directory is in no work tree with a commit.

        Raises:
            InvalidInputError: If git is not installed, or refuses the work tree.
        """
        git = _Git(directory)
        about = git.ask("rev-parse", "--is-inside-work-tree", "--show-object-format", "--show-prefix")
        if about is None or git.ask("rev-parse", "--verify", "--quiet", "HEAD") is None:
            return None
        inside, object_format, prefix = about.split("\n")[:3]
        if inside != "true":
            return None
        blobs = {}
        for entry in git.tell("ls-tree", "-r", "-z", "HEAD").split("\0"):
            meta, _, path = entry.partition("\t")
            if meta.startswith("100"):  # a file, executable or not; links and submodules hold other bytes
                blobs[path] = meta.split(" ")[2]
        return cls(
            repository=repository,
            prefix=prefix,
            object_format=object_format,
            blobs=blobs,
            commits=_last_commits(git, set(blobs)),
        )

    def blob_hash(self, size: int) -> HASH:
        """A hash that becomes the blob id of a file of this size once it has been fed the file's bytes."""
        return hashlib.new(self._object_format, b"blob %d\0" % size, usedforsecurity=False)

    def locator(self, path: str, blob: str) -> str | None:
        """``git:<repository>@<commit>:<path>`` of a file with this blob id, or None unless those bytes are committed.

        Raises:
            InvalidInputError: If the path or the repository's name cannot stand in a locator.
        """
        if self._blobs.get(path) != blob or path not in self._commits:
            return None
        return check_locator(f"git:{self._repository}@{self._commits[path]}:{self._prefix}{path}")


def _last_commits(git: _Git, wanted: set[str]) -> dict[str, str]:
    """The commit that last changed each path, along the first parents of HEAD."""
    commits: dict[str, str] = {}
    commit = ""
    # The first parents alone: a merge then counts as the commit that brought the file, and its blob is HEAD's blob.
    for token in git.stream(
        "log",
        "--first-parent",
        "-m",
        "-z",
        "--format=%x01%H",
        "--name-only",
        "--relative",
        "--no-renames",
        "HEAD",
        "--",
        ".",
    ):
        if token.startswith(_COMMIT):
            commit = token[1:].decode()
            continue
        path = os.fsdecode(token.removeprefix(b"\n"))
        if path in wanted:
            commits[path] = commit
            wanted.discard(path)
        if not wanted:
            break
    return commits


class _Git:
    """Runs git in one directory, reading only."""

    def __init__(self, directory: Path) -> None:
        program = shutil.which("git")
        if program is None:
            raise InvalidInputError("git is not installed.", hint="Install git, or leave --git-repository out.")
        self._command = [program, "-C", str(directory)]
        # Within a git hook these name the hook's own repository.
        inherited = {name: value for name, value in os.environ.items() if name not in ("GIT_DIR", "GIT_WORK_TREE")}
        self._environment = {**inherited, "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}

    def ask(self, *arguments: str) -> str | None:
        """The output, decoded as file names are, or None where git says no.

        Raises:
            InvalidInputError: If git distrusts the work tree, with its own words: that is no answer.
        """
        done = self._run(arguments)
        if b"dubious ownership" in done.stderr:
            raise _failed(done)
        return os.fsdecode(done.stdout) if done.returncode == 0 else None

    def tell(self, *arguments: str) -> str:
        """The output, decoded as file names are.

        Raises:
            InvalidInputError: If git failed, with its own words.
        """
        done = self._run(arguments)
        if done.returncode:
            raise _failed(done)
        return os.fsdecode(done.stdout)

    def _run(self, arguments: tuple[str, ...]) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(  # noqa: S603  (fixed arguments, no shell)
            [*self._command, *arguments], env=self._environment, capture_output=True, check=False
        )

    def stream(self, *arguments: str) -> Iterator[bytes]:
        """The NUL-separated tokens of the output as they come; closing the iterator ends git."""
        with subprocess.Popen(  # noqa: S603  (fixed arguments, no shell)
            [*self._command, *arguments], env=self._environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        ) as process:
            assert process.stdout is not None  # noqa: S101  (asked for by PIPE)
            rest = b""
            try:
                while block := process.stdout.read(1 << 16):
                    *tokens, rest = (rest + block).split(b"\0")
                    yield from tokens
            finally:
                process.kill()


def _failed(done: subprocess.CompletedProcess[bytes]) -> InvalidInputError:
    complaint = os.fsdecode(done.stderr).strip()
    return InvalidInputError(f"git failed: {complaint}", hint="Mend that, or leave --git-repository out.")
