"""``anabranch import``: a directory of documents as an archive, and its upload for the Baseline that names it."""

from __future__ import annotations

import hashlib
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from anabranch import __version__
from anabranch.archive import ArchiveReader
from anabranch.archive.directory import write_archive
from anabranch.archive.git import GitTree
from anabranch.archive.settings import ImportSettings
from anabranch.archive.verifying import verify
from anabranch.archive.walk import scan
from anabranch.cli.calls import call
from anabranch.cli.completion import names
from anabranch.cli.connection import Connection, connection_options
from anabranch.cli.output import output_option, show
from anabranch.cli.progress import progress
from anabranch.model.canonical import hash_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from anabranch.archive.directory import ImportResult
    from anabranch.client import AnabranchClient
    from anabranch.model.answers import ArchiveState

SHOWN = 10
"""How many skipped files are named to a person."""


@click.command()
@click.argument("source", metavar="DIRECTORY|ARCHIVE", type=click.Path(exists=True, path_type=Path))
@click.option("-f", "--file", "target", type=click.Path(dir_okay=False, path_type=Path), help="Write the archive here.")
@click.option("--baseline", metavar="[NS/]NAME", shell_complete=names("baselines"), help="Upload it for this one.")
@click.option("--scope", help="Of records for which nothing else names one.  [default: shared]")
@click.option("--scope-of", multiple=True, metavar="PATH=SCOPE", help="Scope of what lies below a path; repeatable.")
@click.option(
    "--git-repository", metavar="NAME", help="Of the repository in the operator's configuration: adds git locators."
)
@output_option
@connection_options
def command(
    *,
    source: Path,
    target: Path | None,
    baseline: str | None,
    scope: str | None,
    scope_of: tuple[str, ...],
    git_repository: str | None,
    output: str,
    connection: Connection,
) -> None:
    """Turn a directory of Markdown, JSON, YAML or JSONL files into an archive that a Baseline imports by digest.

    The same directory always gives the same digest. Put it under `spec.import.archive.digest` and apply; the Baseline
    then waits for the upload. Without --file and --baseline nothing is kept: it only says what would be imported.

    An archive, such as one that `baseline export` wrote, is checked and taken as it is.
    """
    if baseline is not None:
        namespace, _, name = baseline.rpartition("/")
        baseline = f"{namespace or connection.namespace}/{name}"
    if source.is_file():
        if target or scope or scope_of or git_repository:
            raise click.UsageError("An archive is taken as it is: of the options only --baseline goes with it.")
        show(_take(source, baseline, connection), output)
        return
    settings = ImportSettings.load(source).override(scope=scope, scopes=dict(map(_pair, scope_of)))
    with _place(target) as file:
        result = _write(source, file, settings, git_repository)
        if baseline is not None:
            _upload(connection, baseline, file, result.summary.digest)
    report: dict[str, Any] = {
        "digest": result.summary.digest,
        "records": result.summary.records,
        "bytes": result.summary.size,
        "scopes": result.scopes,
    }
    if target is not None:
        report["file"] = str(target)
    if baseline is not None:
        report["uploadedFor"] = baseline
    if git_repository is not None:
        report["filesWithGitLocator"] = result.committed
    if result.private:
        report["leftOutAsPrivate"] = result.private
    if skipped := [f"{skip.path}: {skip.reason}" for skip in result.skipped]:
        more = len(skipped) - SHOWN
        shorten = output == "table" and more > 0
        report["skipped"] = [*skipped[:SHOWN], f"… and {more} more"] if shorten else skipped
    show(report, output)


@contextmanager
def _place(target: Path | None) -> Iterator[Path]:
    """Where the archive is written: the file that was asked for, else one that goes again."""
    if target is not None:
        yield target
        return
    with tempfile.TemporaryDirectory(prefix="anabranch-import-") as folder:
        yield Path(folder) / "archive"


def _write(directory: Path, target: Path, settings: ImportSettings, git_repository: str | None) -> ImportResult:
    """Write the archive beside its place and move it there when it is whole."""
    found = scan(directory, settings)
    git = GitTree.open(directory, repository=git_repository) if git_repository else None
    unfinished = target.with_name(f"{target.name}.part")
    read = 0
    with progress("reading", total=len(found.files)) as done:

        def count(_file: object) -> None:
            nonlocal read
            read += 1
            done(read)

        try:
            with unfinished.open("w+b") as file:
                result = write_archive(found, file, created_by=f"anabranch {__version__}", git=git, progress=count)
            unfinished.replace(target)
        finally:
            unfinished.unlink(missing_ok=True)
    return result


def _take(archive: Path, baseline: str | None, connection: Connection) -> dict[str, Any]:
    """Check an archive, and upload it; what it holds."""
    with progress("reading", total=None) as done, archive.open("rb") as file:
        verified = verify(ArchiveReader(file), progress=done)
        file.seek(0)
        digest = hashlib.file_digest(file, "sha256").digest()
    report: dict[str, Any] = {
        "digest": hash_text(digest),
        "records": verified.trailer.records,
        "bytes": archive.stat().st_size,
        "scopes": list(verified.scopes),
    }
    if baseline is not None:
        _upload(connection, baseline, archive, report["digest"])
        report["uploadedFor"] = baseline
    return report


def _upload(connection: Connection, baseline: str, archive: Path, digest: str) -> None:
    namespace, _, name = baseline.partition("/")
    with progress("uploading", total=archive.stat().st_size) as done:

        async def ask(client: AnabranchClient, _namespace: str) -> ArchiveState:
            return await client.upload_archive(namespace, name, archive, digest, progress=done)

        call(connection, ask)


def _pair(text: str) -> tuple[str, str]:
    path, equals, scope = text.partition("=")
    if not (path and equals and scope):
        raise click.BadParameter(f"{text!r} is not PATH=SCOPE.", param_hint="--scope-of")
    return path, scope
