"""What the tests of backups share: a world whose operator makes backups."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from anabranch.backup.config import BackupTarget, FolderTarget
from anabranch.backup.turning import Targets, Turns
from anabranch.store import backups

if TYPE_CHECKING:
    from datetime import timedelta
    from pathlib import Path

    from tests.store.world import World

    from anabranch.store.backups import BackupRow, Standing
    from anabranch.store.database import Database

BEFORE_PUBLISH = {"backup": {"policy": "BeforePublish", "target": "vault"}}
AUTOMATIC = {"review": {"mode": "Automatic"}, **BEFORE_PUBLISH}


def folder(path: Path) -> Targets:
    """Targets with one, `vault`, in a folder."""
    return Targets({"vault": BackupTarget(folder=FolderTarget(path=str(path)))})


def turns(db: Database, targets: Targets, kube: Any = None) -> Turns:
    return Turns(db, kube=kube, targets=targets)


async def all_due(looking: Turns) -> int:
    """Make every backup that is due; how many turns there were."""
    count = 0
    while await looking.look():
        count += 1
    return count


async def recorded(world: World, line: str) -> list[BackupRow]:
    """Backups of a line, the newest first."""
    async with world.db.connection() as conn:
        return await backups.newest(conn, line=line, limit=100)


async def standing(world: World, line: str) -> Standing | None:
    async with world.db.connection() as conn:
        return await backups.standing(conn, line=line)


async def grow_old(world: World, line: str, age: timedelta) -> None:
    """Let all backups of a line, and its turn, be older by so much."""
    async with world.db.connection() as conn:
        await conn.execute("UPDATE backups SET taken_at = taken_at - $2::interval WHERE line = $1", line, age)
        await conn.execute("UPDATE backup_turns SET due_at = due_at - $2::interval WHERE line = $1", line, age)
