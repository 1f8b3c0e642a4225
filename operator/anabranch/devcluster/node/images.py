"""Images on a node, which has no registry to pull from: they are built, saved as an archive, and loaded.

Pods must not ask for more: ``imagePullPolicy: IfNotPresent`` or ``Never`` (the tag ``latest`` means ``Always``).
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import tarfile
from typing import TYPE_CHECKING, Final

from anabranch.devcluster import binaries
from anabranch.devcluster.node import machine, namespaces

if TYPE_CHECKING:
    from pathlib import Path

    from anabranch.devcluster.cluster import Cluster
    from anabranch.devcluster.processes import Processes

PAUSE: Final = "localhost/anabranch-pause:1"
"""The image of each pod's first container, which holds the pod's namespaces."""

CTR: Final = ("ctr", "--namespace=k8s.io", "images")

ARCHITECTURES: Final = {"x86_64": "amd64", "aarch64": "arm64"}


def load_image(cluster: Cluster, archive: Path) -> str:
    """Makes the images of a docker or OCI archive known to a cluster's node.

    A tag that is there already means the new image from then on; running pods keep the old one.

    Args:
        cluster: One that :func:`anabranch.devcluster.node.up` returned.
        archive: As ``docker save`` or ``buildah push … docker-archive:`` write it.

    Returns:
        What containerd said, a line for each image.

    Raises:
        DevclusterError: No node runs, or the archive is none.
    """
    return load(namespaces.processes(cluster.kubeconfig.parent), archive)


def load(processes: Processes, archive: Path) -> str:
    """The same, by a node's processes. The node sees no folder of the host below /run, /var/lib and /var/log."""
    with archive.open("rb") as file:
        return machine.run(*namespaces.enter(processes, *CTR, "import", "-"), stdin=file).strip()


def ensure_pause(processes: Processes) -> None:
    """Loads the image that each pod needs, unless it is there."""
    if PAUSE not in machine.run(*namespaces.enter(processes, *CTR, "list", "--quiet")).split():
        archive = processes.folder / "data/pause.tar"
        write_pause(archive)
        load(processes, archive)


def write_pause(path: Path) -> None:
    """Writes a docker archive of an image that holds only the program ``pause``."""
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as archive:
        _add(archive, "pause", binaries.path("pause").read_bytes(), mode=0o755)
    config = {
        "architecture": ARCHITECTURES[os.uname().machine],
        "os": "linux",
        "config": {"Entrypoint": ["/pause"], "User": "65535:65535"},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer.getvalue()).hexdigest()}"]},
    }
    manifest = [{"Config": "config.json", "RepoTags": [PAUSE], "Layers": ["layer.tar"]}]
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w") as archive:
        _add(archive, "manifest.json", json.dumps(manifest).encode())
        _add(archive, "config.json", json.dumps(config).encode())
        _add(archive, "layer.tar", layer.getvalue())


def _add(archive: tarfile.TarFile, name: str, content: bytes, *, mode: int = 0o644) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content), mode
    archive.addfile(entry, io.BytesIO(content))
