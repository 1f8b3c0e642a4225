"""The release before this one, for an upgrade that migrates: the last commit with an older schema whose programs start.

Its chart is that commit's. Its image is the one under test with that commit's programs instead of this one's, so
nothing is built for it; what they depend on is then this commit's, which is another thing only where
`requirements-runtime.lock` has changed in between.

A clone that does not reach back so far, as CI may make one, has no such commit. There it is this release itself under
another version, and the upgrade shows all but a migration.
"""

from __future__ import annotations

import compileall
import os
import py_compile
import shutil
import subprocess
import sys
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import yaml
from tests.e2e import layered
from tests.e2e.releases import CHART

from anabranch.devcluster import node

if TYPE_CHECKING:
    from collections.abc import Callable

    from anabranch.devcluster.cluster import Cluster
    from anabranch.devcluster.image import Image

VERSION = "0.0.9"
"""Of its chart, and the tag of its image: commits between releases have none of their own."""

ROOT = CHART.parents[1]
PACKAGE = "operator/anabranch"
PROGRAMS = "anabranch.api.serve, anabranch.cli.main, anabranch.controllers.operator, anabranch.store.migrate"

COMMITS = 30
"""How many are tried."""

MIGRATIONS = f"{PACKAGE}/store/migrations/versions"


@dataclass(frozen=True, kw_only=True)
class Previous:
    """What to install before the upgrade; its image is on the node.

    Attributes:
        chart: A folder.
        migrates: Whether the upgrade from it changes the schema.
        rolls: Whether its programs may go on after that, as the newest migration says by leaving the schema's floor.
    """

    chart: Path
    migrates: bool
    rolls: bool


def prepare(cluster: Cluster, folder: Path, *, image: Image, say: Callable[[str], None]) -> Previous:
    """Makes it, and loads its image.

    Args:
        cluster: With a node.
        folder: For files, which stay.
        image: The image under test.
        say: Takes what it was made from.
    """
    folder.mkdir()
    commit = next((each for each in _commits() if _extract(folder, each) and _runs(folder)), None)
    if commit:
        say(f"upgrading from {_git('log', '-1', '--format=%h (%s)', commit)}, before the last migration")
    else:
        say("this clone has no commit before the last migration: upgrading from this one under another version")
        shutil.rmtree(folder)
        shutil.copytree(ROOT / PACKAGE, folder / PACKAGE, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copytree(CHART, folder / "charts/anabranch")
    chart = folder / "charts/anabranch"
    described = yaml.safe_load((chart / "Chart.yaml").read_text())
    (chart / "Chart.yaml").write_text(yaml.safe_dump(described | {"version": VERSION, "appVersion": VERSION}))
    archive = folder / "image.tar"
    save(image, folder / PACKAGE, archive, name=f"{image.name.rpartition(':')[0]}:{VERSION}")
    node.load_image(cluster, archive)
    archive.unlink()
    raises = "schema_floor" in (ROOT / MIGRATIONS / f"{_newest()}.sql").read_text()
    return Previous(chart=chart, migrates=commit is not None, rolls=commit is None or not raises)


def save(base: Image, package: Path, archive: Path, *, name: str) -> None:
    """Writes an image with other programs than its base's.

    Args:
        base: The image that it builds on.
        package: The folder `anabranch` that comes instead of the base's.
        archive: Where to.
        name: Its name with its tag.
    """
    program = "/site-packages/anabranch/__init__.py"
    (place,) = {Path(each.name).parent for each in layered.files(base) if each.name.endswith(program)}
    # The file system of a pod is read-only: without bytecode, each of them would compile all that it imports.
    unchecked = py_compile.PycInvalidationMode.UNCHECKED_HASH
    compileall.compile_dir(package, quiet=1, workers=0, invalidation_mode=unchecked, stripdir=package)
    layer = archive.with_suffix(".layer")
    with tarfile.open(layer, "w") as opened:
        layered.add(opened, f"{place}/.wh..wh..opq", "")  # nothing of the folder in the layers below
        opened.add(package, str(place), filter=layered.plain)
    layered.save(base, layer, archive, name=name)


def _commits() -> list[str]:
    """Those that do not know the newest schema, the last one first, as far as this clone reaches back."""
    added = _git("log", "-1", "--diff-filter=A", "--format=%H", "--", f"{MIGRATIONS}/{_newest()}.py")
    # Who is writing a migration has not committed it yet.
    return _git("log", f"--max-count={COMMITS}", "--format=%H", f"{added}^" if added else "HEAD").split()


def _newest() -> str:
    return max(each.stem for each in (ROOT / MIGRATIONS).glob("[0-9]*_*.py"))


def _extract(folder: Path, commit: str) -> bool:
    """Puts package and chart of a commit into the folder, if it has both."""
    shutil.rmtree(folder)
    folder.mkdir()
    archive = folder / "commit.tar"
    command = ["git", "-C", ROOT, "archive", f"--output={archive}", commit, PACKAGE, "charts/anabranch"]
    if subprocess.run(command, check=False, capture_output=True).returncode:
        return False
    with tarfile.open(archive) as opened:
        opened.extractall(folder, filter="data")
    archive.unlink()
    return True


def _runs(folder: Path) -> bool:
    """Whether the programs can be imported: work that went on side by side may have been committed in halves."""
    environment = os.environ | {"PYTHONPATH": str((folder / PACKAGE).parent), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-c", f"import {PROGRAMS}"]
    return subprocess.run(command, check=False, capture_output=True, env=environment).returncode == 0


def _git(*words: str) -> str:
    """What git prints; nothing where it fails, or where this is no clone."""
    done = subprocess.run(["git", "-C", ROOT, *words], check=False, capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else ""
