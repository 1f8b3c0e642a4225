"""The trial database's script, as its pod runs it: makes the database once, whatever kills it half-way."""

from __future__ import annotations

import asyncio
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import asyncpg
import pytest
from tests.chart.rendering import TRIAL

from anabranch.devcluster import postgres
from anabranch.devcluster.ports import free
from anabranch.devcluster.processes import identity
from anabranch.store import migrate, roles

PASSWORD = "trial-password"


@pytest.fixture
def home():
    """A folder of the server's user."""
    folder = Path(tempfile.mkdtemp(prefix="anabranch-trial-"))
    (folder / "password").write_text(PASSWORD)
    if user := postgres.server_user():
        for path in (folder, folder / "password"):
            shutil.chown(path, pwd.getpwnam(user).pw_uid)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def start(render, home):
    """Starts the pod's command, with the database in a folder of the test."""
    container = render(TRIAL).container("anabranch-database")
    script = container["args"][0].replace("unix_socket_directories=/tmp", f"unix_socket_directories={home}")
    port = free(["postgres"])["postgres"]
    started = []

    def start():
        process = subprocess.Popen(
            [*container["command"], script],
            cwd=home,
            env={
                "PATH": f"{postgres._programs()}:{os.defpath}",
                "PGDATA": str(home / "data"),
                "POSTGRES_PASSWORD_FILE": str(home / "password"),
                "PGPORT": str(port),
            },
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            **identity(postgres.server_user()),
        )
        started.append(process)
        return process, f"postgresql://postgres:{PASSWORD}@127.0.0.1:{port}/anabranch"

    yield start
    for process in started:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


async def connect(dsn):
    deadline = time.monotonic() + 60
    while True:
        try:
            return await asyncpg.connect(dsn)
        except (OSError, asyncpg.PostgresError):
            assert time.monotonic() < deadline
            await asyncio.sleep(0.1)


def await_file(file, process):
    while not file.exists():
        assert process.poll() is None
        time.sleep(0.01)


async def test_a_first_start_that_was_cut_short_is_made_good_and_data_stays(start, home):
    # Killed while it makes the database: what is half made is never taken for one.
    process, dsn = start()
    await_file(home / "data.new/global", process)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert not (home / "data").exists()

    process, dsn = start()
    conn = await connect(dsn)
    await conn.close()
    passwords = roles.RolePasswords(migrate="m", operator="o", api="a")
    await roles.ensure_roles(dsn, passwords)
    await migrate.upgrade(dsn, password=passwords.migrate)
    process.send_signal(signal.SIGINT)
    assert process.wait(30) == 0

    process, dsn = start()
    conn = await connect(dsn.replace(f"postgres:{PASSWORD}", "anabranch_api:a"))
    assert await migrate.current(conn) == migrate.head()
    await conn.close()
    with pytest.raises(asyncpg.InvalidPasswordError):
        await asyncpg.connect(dsn.replace(PASSWORD, "another"))
