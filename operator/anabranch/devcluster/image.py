"""The container image, built with docker where there is one, else with buildah, and saved as an archive.

Without docker there is no registry to take a base image from either: it is made from Debian's packages, once. The time
of the commit is the time of every file, so the same commit on the same base gives the same layers.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import tarfile
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import anabranch
from anabranch.devcluster import children, folders, kind
from anabranch.devcluster.errors import DevclusterError
from anabranch.devcluster.node import machine

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from anabranch.devcluster.folders import Say

REPOSITORY: Final = children.SOURCE_ROOT.parent
"""The checkout: where the Dockerfile is."""

BASE_PACKAGES: Final = "python3,python3-venv,libstdc++6,git,openssh-client,ca-certificates"
SUITE: Final = "bookworm"
SOURCES: Final = Path("/etc/apt/sources.list.d/debian.sources")
"""Where this machine takes Debian's packages from, which surely answers; without it, mmdebstrap chooses."""

CERTIFICATES: Final = Path("/etc/ssl/certs/ca-certificates.crt")
INSIDE: Final = "/run/build/ca-certificates.crt"
"""Where the build finds whom this machine trusts: not at the usual place, which the image takes its own from."""

RETRIES: Final = '--aptopt=Acquire::Retries "3"'
"""Of a download that breaks off."""

ALONE: Final = ("unshare", "--mount", "--propagation=private")
"""In a mount namespace of its own: what a command mounts goes with it, however it ends."""


@dataclass(frozen=True, kw_only=True)
class Image:
    """A saved image.

    Attributes:
        name: Its name with its tag, as pods ask for it.
        archive: The docker archive.
        digest: Of its configuration, which names every layer: equal digests, equal images.
        layers: The digests of its layers, unpacked.
        size: Of its layers, unpacked, in bytes.
        labels: Its labels.
    """

    name: str
    archive: Path
    digest: str
    layers: tuple[str, ...]
    size: int
    labels: Mapping[str, str]


def available() -> str | None:
    """Why no image can be built here, in a sentence; None where one can."""
    if not (REPOSITORY / "Dockerfile").exists():
        return "An image is built from a checkout, and this is none."
    if kind.docker_answers():
        return None
    return machine.available()


def prepare(*, say: Say = folders.silent) -> None:
    """Brings what every build here needs, once: where there is no docker, programs and a base image.

    Args:
        say: Takes progress, and what is about to be installed on the machine.

    Raises:
        DevclusterError: Something of it cannot be had.
    """
    if not kind.docker_answers():
        with _buildah_here(say) as buildah:
            buildah.base(say)


def build(archive: Path, *, say: Say = folders.silent) -> Image:
    """Builds the image of this checkout and saves it.

    Args:
        archive: Where to.
        say: Takes progress, and what is about to be installed on the machine.

    Raises:
        DevclusterError: It cannot be built here, or the build failed; with the end of its output.
    """
    if reason := available():
        raise DevclusterError(reason, hint="Start docker, or run this as root on Debian.")
    archive = archive.resolve()
    archive.parent.mkdir(parents=True, exist_ok=True)
    name = f"localhost/anabranch:{anabranch.__version__}"
    tool = _docker if kind.docker_answers() else _buildah
    part = archive.with_name(f".{archive.name}.{os.getpid()}")
    try:
        tool(name, part, say)
        image = read(part)
        part.rename(archive)
    finally:
        part.unlink(missing_ok=True)
    return Image(**(vars(image) | {"archive": archive}))


def read(archive: Path) -> Image:
    """What a docker archive says of the one image that it holds."""
    with tarfile.open(archive) as opened:

        def load(name: str) -> Any:
            file = opened.extractfile(name)
            return json.loads(file.read()) if file else None

        entry = load("manifest.json")[0]
        config_file = opened.extractfile(entry["Config"])
        text = config_file.read() if config_file else b""
        size = sum(opened.getmember(name).size for name in entry["Layers"])
    config = json.loads(text)
    return Image(
        name=entry["RepoTags"][0],
        archive=archive,
        digest=f"sha256:{hashlib.sha256(text).hexdigest()}",
        layers=tuple(config["rootfs"]["diff_ids"]),
        size=size,
        labels=config["config"].get("Labels") or {},
    )


def arguments() -> dict[str, str]:
    """The build's arguments, read off the checkout."""
    seconds = int(_git("log", "-1", "--format=%ct") or 0)
    origin = urlsplit(_git("config", "--get", "remote.origin.url"))
    return {
        "SOURCE_DATE_EPOCH": str(seconds),
        "CREATED": f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%SZ}",
        "VERSION": anabranch.__version__,
        "REVISION": _git("rev-parse", "HEAD") or "unknown",
        # Without the name and password that an address may hold.
        "SOURCE": origin._replace(netloc=origin.netloc.rpartition("@")[2]).geturl() or "unknown",
    }


def _docker(name: str, archive: Path, say: Say) -> None:
    given = [f"--build-arg={key}={value}" for key, value in arguments().items()]
    say(f"building {name} with docker")
    _run(["docker", "build", "--quiet", *given, f"--tag={name}", str(REPOSITORY)])
    _run(["docker", "save", f"--output={archive}", name])


def _buildah(name: str, archive: Path, say: Say) -> None:
    with _buildah_here(say) as buildah:
        base = buildah.base(say)
        values = arguments()
        given = values | {"BASE": base, "PIP_CERT": INSIDE}
        if index := os.environ.get("PIP_INDEX_URL"):
            given["PIP_INDEX_URL"] = index
        say(f"building {name} with buildah")
        buildah.run(
            "bud",
            "--quiet",
            "--network=host",
            f"--timestamp={values['SOURCE_DATE_EPOCH']}",
            *(f"--build-arg={key}={value}" for key, value in given.items()),
            f"--volume={CERTIFICATES}:{INSIDE}:ro",
            "--volume=/etc/hosts:/etc/hosts:ro",
            f"--volume={buildah.folder('pip')}:/root/.cache/pip:rw",
            f"--tag={name}",
            str(REPOSITORY),
        )
        buildah.run("push", "--quiet", name, f"docker-archive:{archive}:{name}")
        buildah.run("rmi", "--prune")  # what the name meant before


@contextmanager
def _buildah_here(say: Say) -> Iterator[_Buildah]:
    """This machine's buildah, for one process at a time."""
    machine.install(machine.IMAGE_PROGRAMS, say=say)
    storage = folders.cache() / "images"
    with folders.exclusive(storage, waiting=lambda: say("another process is building an image: waiting for it")):
        yield _Buildah(storage)


class _Buildah:
    """Buildah with a storage of its own, in a way that works in a container too: without a runtime and a bridge."""

    def __init__(self, storage: Path) -> None:
        self._storage = storage

    def run(self, command: str, *words: str) -> str:
        """Runs one of its commands, and returns what it printed."""
        places = (f"--root={self._storage}/storage", f"--runroot={self._storage}/run")
        environment = os.environ | {"BUILDAH_ISOLATION": "chroot", "TMPDIR": str(self.folder("tmp"))}
        return _run([*ALONE, "buildah", *places, command, *words], env=environment)

    def folder(self, name: str) -> Path:
        """A folder beside the storage."""
        folder = self._storage / name
        folder.mkdir(exist_ok=True)
        return folder

    def base(self, say: Say) -> str:
        """The base image: Debian with Python, made from its packages unless it is there."""
        name = f"localhost/anabranch-base:{SUITE}-{hashlib.sha256(BASE_PACKAGES.encode()).hexdigest()[:8]}"
        if self.run("images", "--quiet", f"--filter=reference={name}").strip():
            return name
        say(f"making a base image of Debian {SUITE} with {BASE_PACKAGES}")
        archive = self._storage / "base.tar"
        sources = [str(SOURCES)] if SOURCES.exists() else []
        options = ("--quiet", "--mode=root", "--variant=essential", "--dpkgopt=force-unsafe-io", RETRIES)
        _run([*ALONE, "mmdebstrap", *options, f"--include={BASE_PACKAGES}", SUITE, str(archive), *sources])
        container = self.run("from", "scratch").strip()
        self.run("add", "--quiet", container, str(archive), "/")
        self.run("commit", "--quiet", "--rm", container, name)
        archive.unlink()
        return name


def _git(*words: str) -> str:
    done = subprocess.run(["git", "-C", str(REPOSITORY), *words], check=False, capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else ""


def _run(command: list[str], *, env: Mapping[str, str] = os.environ) -> str:
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=env, stdin=subprocess.DEVNULL)
    if done.returncode:
        tail = "\n".join((done.stdout + done.stderr).splitlines()[-20:])
        raise DevclusterError(f"`{' '.join(command[:2])} …` failed:\n{tail}")
    return done.stdout
