"""``anabranch import``: a directory of documents as an archive, and where to upload it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.progress import Progress

from anabranch import __version__
from anabranch.archive.directory import write_archive
from anabranch.archive.git import GitTree
from anabranch.archive.settings import ImportSettings
from anabranch.archive.walk import scan
from anabranch.cli.connection import Connection, connection_options
from anabranch.cli.output import output_option, show

if TYPE_CHECKING:
    from anabranch.archive.directory import ImportResult

SHOWN = 10
"""How many skipped files are named."""


@click.command()
@click.argument("directory", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("-f", "--file", "target", type=click.Path(dir_okay=False, path_type=Path), help="Write the archive here.")
@click.option("--baseline", help="Upload the archive for this Baseline (needs the API's address and a token).")
@click.option("--scope", help="Of records for which nothing else names one.  [default: shared]")
@click.option("--scope-of", multiple=True, metavar="PATH=SCOPE", help="Scope of what lies below a path; repeatable.")
@click.option("--git-repository", help="Name of the repository in the operator's configuration: adds git locators.")
@output_option
@connection_options
def command(
    *,
    directory: Path,
    target: Path | None,
    baseline: str | None,
    scope: str | None,
    scope_of: tuple[str, ...],
    git_repository: str | None,
    output: str,
    connection: Connection,
) -> None:
    """Turn a directory of Markdown, JSON, YAML or JSONL files into an archive that a Baseline imports by digest.

    The same directory always gives the same digest. Put it under `spec.import.archive.digest`, apply, and upload; the
    Baseline waits for the upload.
    """
    if target is None and baseline is None:
        raise click.UsageError("Say where the archive goes: --file PATH, --baseline NAME, or both.")
    target = target or directory.with_name(f"{directory.resolve().name}.anabranch")
    settings = ImportSettings.load(directory).override(scope=scope, scopes=dict(map(_pair, scope_of)))
    result = _write(directory, target, settings, git_repository)
    if baseline is not None:
        asyncio.run(_upload(connection, baseline, target, result.summary.digest))
    show(
        {
            "digest": result.summary.digest,
            "records": result.summary.records,
            "bytes": result.summary.size,
            "scopes": result.scopes,
            "file": str(target),
            **({"uploadedFor": f"{connection.namespace}/{baseline}"} if baseline else {}),
            **({"leftOutAsPrivate": result.private} if result.private else {}),
            **(
                {"skipped": [f"{skip.path}: {skip.reason}" for skip in result.skipped[:SHOWN]]}
                if result.skipped
                else {}
            ),
        },
        output,
    )


def _write(directory: Path, target: Path, settings: ImportSettings, git_repository: str | None) -> ImportResult:
    """Write the archive beside its place and move it there when it is whole."""
    found = scan(directory, settings)
    git = GitTree.open(directory, repository=git_repository) if git_repository else None
    unfinished = target.with_name(f"{target.name}.part")
    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("reading", total=len(found.files))
        try:
            with unfinished.open("w+b") as file:
                result = write_archive(
                    found,
                    file,
                    created_by=f"anabranch {__version__}",
                    git=git,
                    progress=lambda _file: progress.advance(task),
                )
            unfinished.replace(target)
        finally:
            unfinished.unlink(missing_ok=True)
    return result


async def _upload(connection: Connection, baseline: str, archive: Path, digest: str) -> None:
    async with connection.client() as client:
        await client.upload_archive(connection.namespace, baseline, archive, digest)


def _pair(text: str) -> tuple[str, str]:
    path, equals, scope = text.partition("=")
    if not (path and equals and scope):
        raise click.BadParameter(f"{text!r} is not PATH=SCOPE.", param_hint="--scope-of")
    return path, scope
