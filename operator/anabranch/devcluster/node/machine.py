"""What a node asks of the machine: Linux, root, packages of Debian, free addresses, and to be the only one.

Nothing is installed and nothing is changed before it has been said.
"""

from __future__ import annotations

import ipaddress
import json
import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Final

from anabranch.devcluster.errors import DevclusterError
from anabranch.devcluster.node import addresses, cgroups

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path
    from typing import BinaryIO

    from anabranch.devcluster.folders import Say

PROGRAMS: Final[Mapping[str, str]] = {
    "containerd": "containerd",
    "runc": "runc",
    "ptp": "containernetworking-plugins",
    "iptables": "iptables",
    "conntrack": "conntrack",
    "ip": "iproute2",
    "nsenter": "util-linux",
    "mount": "mount",
}
"""What a node runs beside what is built here, and the Debian package of each."""

IMAGE_PROGRAMS: Final[Mapping[str, str]] = {"buildah": "buildah", "mmdebstrap": "mmdebstrap"}
"""What builds an image where there is no docker."""

NAMESPACES: Final = ("--mount", "--net", "--pid")
"""A node's own, as unshare and nsenter name them."""

PATIENT: Final = ("--option=Acquire::Retries=3", "--option=DPkg::Lock::Timeout=300")
"""Options of apt-get: a download that breaks off is tried again, and another installation is waited for."""

PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/usr/lib/cni"


def available() -> str | None:
    """Why a node cannot run here, in a sentence; None where it can, after an installation of packages perhaps."""
    if sys.platform != "linux":
        return "A node needs Linux."
    if os.geteuid() != 0:
        return "A node needs root."
    if absent(PROGRAMS) and not shutil.which("apt-get"):
        return f"A node needs {', '.join(sorted(absent(PROGRAMS)))}, and there is no apt-get to install it with."
    return _confined()


def _confined() -> str | None:
    """What a container that this is may not do and a node must, if anything."""
    probe = subprocess.run(
        ["unshare", *NAMESPACES, "--fork", "--mount-proc", "true"],
        check=False,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env={"PATH": PATH},
    )
    if probe.returncode:
        return f"A node needs namespaces of its own, and root may make none here: {probe.stderr.strip()}."
    if not os.access(cgroups.TOP, os.W_OK):
        return f"A node needs cgroups of its own, and {cgroups.TOP} is read-only here."
    return None


def absent(programs: Mapping[str, str]) -> list[str]:
    """The packages that are missing of some programs."""
    return [package for program, package in programs.items() if not shutil.which(program, path=PATH)]


def install(programs: Mapping[str, str], *, say: Say) -> None:
    """Installs the packages that are missing of some programs, by apt-get, after saying so.

    Raises:
        DevclusterError: It failed; with the end of what apt-get said.
    """
    packages = absent(programs)
    if not packages:
        return
    say(f"installing Debian packages on this machine: {' '.join(packages)}")
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    for command in (
        ["apt-get", *PATIENT, "update", "--quiet"],
        ["apt-get", *PATIENT, "install", "--quiet", "--yes", "--no-install-recommends", *packages],
    ):
        done = subprocess.run(
            command, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
        )
        if done.returncode:
            tail = "\n".join(done.stdout.splitlines()[-10:])
            raise DevclusterError(
                f"`{' '.join(command)}` failed:\n{tail}", hint=f"Install {' '.join(packages)} yourself."
            )


def check_addresses() -> None:
    """Sees to it that no network of the machine has a node's addresses.

    Raises:
        DevclusterError: One has.
    """
    routes = json.loads(run("ip", "-json", "route", "show", "table", "all"))
    if taken := overlapping(route["dst"] for route in routes):
        raise DevclusterError(
            f"This machine has a route to {taken}, which a node needs for itself.",
            hint="Take down the other cluster or network with these addresses.",
        )


def overlapping(destinations: Iterable[str]) -> str | None:
    """The first of some routes' destinations that a node needs for itself."""
    ours = [ipaddress.IPv4Network(network) for network in (addresses.LINK, addresses.PODS, addresses.SERVICES)]
    for destination in destinations:
        try:
            network = ipaddress.IPv4Network(destination)
        except ValueError:  # the default route, or one of IPv6
            continue
        if any(network.overlaps(our) for our in ours):
            return destination
    return None


def run(*command: str | Path, stdin: BinaryIO | None = None) -> str:
    """Runs a command of the system to its end, and returns what it printed.

    Args:
        command: The program and its arguments.
        stdin: What it reads; nothing unless given.

    Raises:
        DevclusterError: It failed; with its own words.
    """
    words = [str(word) for word in command]
    done = subprocess.run(
        words,
        check=False,
        stdin=stdin or subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env={"PATH": PATH, "HOME": "/"},
    )
    if done.returncode:
        raise DevclusterError(f"`{' '.join(words)}` failed: {(done.stderr or done.stdout).strip()}")
    return done.stdout
