"""Exports: a manifest as a file, which has its name only when it is whole and leads to the manifest's root."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from typing import TYPE_CHECKING, Any, BinaryIO

import httpx

from anabranch.archive import ArchiveReader
from anabranch.archive.errors import ArchiveDigestError, ArchiveFormatError
from anabranch.archive.verifying import VerifiedArchive, verify
from anabranch.client import transport
from anabranch.client.baselines import BaselineCalls
from anabranch.client.errors import error_of
from anabranch.client.transport import ATTEMPTS, path
from anabranch.model.errors import ConflictError, PreconditionFailedError, UnavailableError

if sys.platform != "win32":
    import fcntl

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path


class ExportCalls(BaselineCalls):
    """Calls that bring a whole manifest."""

    async def export(  # noqa: PLR0913  (all but the place by keyword)
        self,
        namespace: str,
        name: str,
        file: Path,
        *,
        ref: str | int = "current",
        scopes: Sequence[str] | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> VerifiedArchive:
        """Export a manifest as an archive (docs/spec/archive.md).

        The bytes go to ``<file>.part``, and go on from there: after a broken connection, and when this is called again
        for the same file by another process. The file has its own name only when the archive is whole and its records,
        with the hashes of those that were withheld, lead to the root that the manifest names.

        Args:
            namespace: Of the Baseline.
            name: Of the Baseline.
            file: Where the archive goes; one that is there already is replaced.
            ref: The manifest, by generation, baseline id, ``current`` or ``head``.
            scopes: Only records of these; None for all that you may export.
            progress: Takes how many bytes have arrived.

        Raises:
            ConflictError: If another process exports to this file.
            ForbiddenError: If you may not export, or not one of these scopes; naming it.
            ArchiveDigestError: If what arrived is not what the manifest says.
            UnavailableError: If the API stays away; called again, it goes on.
        """
        manifest = await self.manifest(namespace, name, ref)
        place = path(namespace, "baselines", name, "manifests", manifest.generation, "export")
        part = _Part(file, [place, manifest.manifest_hash, sorted(scopes or ())])
        await asyncio.to_thread(part.claim)
        try:
            await self._receive_whole(place, part, scopes, progress)
            return await asyncio.to_thread(part.finish, manifest.manifest_hash)
        finally:
            await asyncio.to_thread(part.release)

    async def _receive_whole(
        self, place: str, part: _Part, scopes: Sequence[str] | None, progress: Callable[[int], None] | None
    ) -> None:
        attempt = 0
        while True:
            before = await asyncio.to_thread(part.open)
            try:
                await self._receive(place, part, scopes, progress)
            except PreconditionFailedError:
                await asyncio.to_thread(part.discard)
                if before == 0:
                    raise
            except (httpx.TransportError, UnavailableError) as error:
                attempt = 1 if part.size > before else attempt + 1
                if attempt == ATTEMPTS:
                    raise UnavailableError(
                        f"The export broke off after {part.size} bytes: {str(error) or type(error).__name__}.",
                        hint="Call it again: it goes on from there.",
                    ) from error
                await asyncio.sleep(transport.pause(attempt))
            else:
                return
            finally:
                await asyncio.to_thread(part.close)

    async def _receive(
        self, place: str, part: _Part, scopes: Sequence[str] | None, progress: Callable[[int], None] | None
    ) -> None:
        query: dict[str, Any] = {} if scopes is None else {"scope": list(scopes)}
        headers = {}
        if part.tag is not None:
            query["offset"] = part.size
            headers["If-Match"] = part.tag
        async with self._http.stream("GET", place, params=query, headers=headers) as response:
            if not response.is_success:
                await response.aread()
                raise error_of(response)
            part.begin(response.headers["ETag"])
            async for piece in response.aiter_raw():
                await asyncio.to_thread(part.write, piece)
                if progress is not None:
                    progress(part.size)


class _Part:
    """What has arrived of an archive, with a note of which archive it is.

    Args:
        file: What it is to become.
        what: Names what was asked for (JSON): what is there of something else is of no use.
    """

    def __init__(self, file: Path, what: list[Any]) -> None:
        self._target = file
        self._what = what
        self._file = file.with_name(f"{file.name}.part")
        self._note = file.with_name(f"{file.name}.part.json")
        self._open: Any = None
        self._claim: BinaryIO | None = None
        self.tag: str | None = None
        self.size = 0

    def claim(self) -> None:
        """Have it alone: what two processes receive at the same time into one file is no archive.

        Raises:
            ConflictError: If another process has it.
        """
        while self._claim is None:
            claim = self._file.open("ab")
            try:
                if sys.platform != "win32":
                    fcntl.flock(claim, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if self._is(claim):
                    self._claim = claim
            except BlockingIOError:
                raise ConflictError(
                    f"Another process exports to {self._target}.", hint="Wait for it, or choose another file."
                ) from None
            finally:
                if self._claim is None:
                    claim.close()

    def release(self) -> None:
        """Let others have it, and leave nothing of it where nothing has arrived."""
        if self._claim is not None:
            if os.fstat(self._claim.fileno()).st_size == 0:
                self._file.unlink(missing_ok=True)
            self._claim.close()
            self._claim = None

    def open(self) -> int:
        """Go on with what is there; how many bytes that is."""
        self.tag = self._noted()
        if self.tag is None:
            self.discard()
        self._open = self._file.open("ab")
        self.size = self._open.tell()
        if self.size == 0:
            self.tag = None
        return self.size

    def begin(self, tag: str) -> None:
        """Note which archive it is, before the first byte of it."""
        if self.tag is None:
            self.tag = tag
            beside = self._note.with_name(f"{self._note.name}.new")
            beside.write_text(json.dumps({"what": self._what, "tag": tag}))
            beside.replace(self._note)

    def write(self, piece: bytes) -> None:
        """Append."""
        self._open.write(piece)
        self.size += len(piece)

    def close(self) -> None:
        """Let go of the file."""
        if self._open is not None:
            self._open.flush()
            os.fsync(self._open.fileno())
            self._open.close()
            self._open = None
        if self.size == 0:
            self.discard()

    def discard(self) -> None:
        """Forget what has arrived."""
        self._file.write_bytes(b"")
        self._note.unlink(missing_ok=True)
        self.tag, self.size = None, 0

    def finish(self, root: str) -> VerifiedArchive:
        """Check it, and give it its name.

        Raises:
            ArchiveDigestError: If it is not what the manifest says; what has arrived is discarded.
            ArchiveFormatError: Likewise.
        """
        try:
            with self._file.open("rb") as opened:
                verified = verify(ArchiveReader(opened), root=root)
        except (ArchiveDigestError, ArchiveFormatError):
            self.discard()
            raise
        self._file.replace(self._target)
        self._note.unlink(missing_ok=True)
        return verified

    def _is(self, opened: BinaryIO) -> bool:
        """Whether an open file is still the one of this name: whoever had it before may have given it another."""
        try:
            return os.path.samestat(os.fstat(opened.fileno()), self._file.stat())
        except FileNotFoundError:
            return False

    def _noted(self) -> str | None:
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            note = json.loads(self._note.read_text())
            if note["what"] == self._what:
                return str(note["tag"])
        return None
