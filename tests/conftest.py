"""What the tiers share: one Postgres and one cluster for a run, and their logs where a test fails."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import time
from typing import TYPE_CHECKING

import pytest
from tests.unit.security_page import shown_by

from anabranch.devcluster import binaries, choose, ephemeral
from anabranch.devcluster.errors import DevclusterError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from anabranch.devcluster.cluster import Cluster
    from anabranch.devcluster.postgres import PostgresServer

RUN_FOLDER = pytest.StashKey["Path"]()
STARTED = pytest.StashKey[float]()
LOG_LINES = 40
WRONG = re.compile(r'"level": "(?:warning|error|critical)"')
"""What a line of operator or API that tells of something wrong has."""

WORKERS = 4
"""Most processes of ``-n auto``: each has a Postgres, and perhaps a cluster, of its own."""

# Who starts the tests in the background of a script hands down that SIGINT is ignored, to them and to all that they
# start; tests that send it would wait for ever.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def run_folder(pytestconfig) -> Iterator[Path]:
    """A folder for the run; its processes end with it, also when pytest is killed."""
    with ephemeral.folder("anabranch-test-") as folder:
        pytestconfig.stash[RUN_FOLDER] = folder
        yield folder


@pytest.fixture(scope="session")
def postgres_server(run_folder) -> Iterator[PostgresServer]:
    """The server of ANABRANCH_DSN, else one of this run: fast, since nobody needs its data afterwards."""
    server = choose.postgres_server(run_folder / "postgres", durable=False)
    yield server
    server.stop()


@pytest.fixture(scope="session")
def cluster(run_folder) -> Iterator[Cluster]:
    """The cluster of ANABRANCH_KUBECONFIG, else one of this run."""
    folder = run_folder / "cluster"
    cluster = choose.cluster(folder, audit=True)
    yield cluster
    choose.remove_cluster(folder, cluster)


def pytest_xdist_auto_num_workers():
    """A process for each core, but one alone on a server or a cluster that was given: they would share its roles."""
    given = os.environ.get(choose.DSN) or os.environ.get(choose.KUBECONFIG)
    return 0 if given else min(WORKERS, len(os.sched_getaffinity(0)))


def pytest_xdist_setupnodes(config):
    """Builds the control plane where people see the progress, which no worker can show."""
    if not all(argument.startswith(("tests/unit", "tests/store", "tests/chart")) for argument in config.args):
        build_control_plane(config)


def pytest_collection_modifyitems(config, items):
    """Marks the tests that docs/security.md names, since what it says stands on them, and lets long files begin.

    A long one that comes last keeps a process busy for a minute while the others have nothing left to do.
    """
    items.sort(key=lambda item: item.get_closest_marker("long") is None)
    named = shown_by()
    for item in items:
        if (item.path.relative_to(config.rootpath).as_posix(), getattr(item, "originalname", "")) in named:
            item.add_marker(pytest.mark.security)


def pytest_collection_finish(session):
    """Builds the control plane before any test's clock runs: that takes minutes, once on a machine."""
    wanted = any({"cluster", "stack"} & set(item.fixturenames) for item in session.items)
    if wanted and not session.config.option.collectonly:
        build_control_plane(session.config)


def build_control_plane(config):
    try:
        if choose.cluster_kind() == "local":
            binaries.ensure(say=config.get_terminal_writer().line)
    except DevclusterError as error:
        raise pytest.UsageError(str(error)) from error


def pytest_runtest_setup(item):
    item.stash[STARTED] = time.time()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item):
    """Adds to a failure what the servers have logged since the test began."""
    report = yield
    folder = item.config.stash.get(RUN_FOLDER, None)
    if report.failed and folder:
        # A server that is ended just now may take its log along: what failed must not fail to be told for that.
        with contextlib.suppress(OSError):
            for log in sorted(folder.rglob("log/*.log")):
                if log.name != "audit.log" and log.stat().st_mtime >= item.stash[STARTED]:
                    lines = log.read_text(errors="replace").splitlines()
                    wrong = [line for line in lines[:-LOG_LINES] if WRONG.search(line)][-LOG_LINES:]
                    title = f"Last lines of {log.relative_to(folder)}, behind what was wrong before them"
                    report.sections.append((title, "\n".join([*wrong, *lines[-LOG_LINES:]])))
    return report
