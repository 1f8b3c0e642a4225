"""A streaming standby of a local Postgres: its copy, which follows it, can be read, and takes its place when told to.

With it, what a primary's end costs is tried on real servers instead of believed.
"""

from __future__ import annotations

import pwd
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from anabranch.devcluster import folders, postgres
from anabranch.devcluster.errors import DevclusterError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from anabranch.devcluster.postgres import PostgresServer


def follow(
    primary: PostgresServer, folder: Path, *, name: str, settings: Mapping[str, str] | None = None
) -> PostgresServer:
    """Copies a server that runs, and starts the copy as its standby.

    Args:
        primary: The server, one that was started here.
        folder: Where the standby keeps everything; as in `postgres.start`.
        name: What the primary knows it by, in its ``synchronous_standby_names`` above all.
        settings: Further ones of the standby, by name.

    Returns:
        The standby. Its superuser is the primary's, and so are all its roles.

    Raises:
        DevclusterError: It could not be copied, or did not start.
    """
    folder = folder.resolve()
    if (folder / "data").exists():
        raise DevclusterError(f"There is a server in {folder} already.", hint="Choose another folder.")
    folder.mkdir(parents=True, exist_ok=True)
    address, user = urlsplit(primary.dsn), postgres.server_user()
    password = unquote(address.password or "")
    with folders.exclusive(folder):
        if user:
            folder.chmod(0o711)
        secret = folder / "password"
        secret.touch(mode=0o600)
        secret.write_text(password)
        with tempfile.TemporaryDirectory(dir=folder, ignore_cleanup_errors=True) as place:
            if user:
                shutil.chown(place, user, pwd.getpwnam(user).pw_gid)
            command = [
                str(postgres.program("pg_basebackup")),
                f"--pgdata={place}/data",
                f"--host={address.hostname}",
                f"--port={address.port}",
                f"--username={unquote(address.username or '')}",
                "--checkpoint=fast",
                "--wal-method=stream",
                "--write-recovery-conf",
                "--no-sync",
            ]
            # The copy's own configuration remembers the password, as the standby needs it.
            postgres.complete(command, cwd=Path(place), user=user, environment={"PGPASSWORD": password})
            Path(place, "data").rename(folder / "data")
    return postgres.start(folder, durable=False, settings={"cluster_name": name, **(settings or {})})
