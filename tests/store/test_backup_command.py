"""What `anabranch backup` says to whoever gives it an address that does not fit."""

from __future__ import annotations

import asyncio

import pytest
from tests.store.building import new_line

from anabranch.cli.backup import command
from anabranch.model.errors import ForbiddenError


async def test_a_dsn_of_the_apis_role_is_refused_with_what_to_give_instead(db, database):
    await new_line(db)

    def restored() -> None:
        command.main(["restored", "--dsn", database.api], standalone_mode=False)

    with pytest.raises(ForbiddenError, match="Give the operator's DSN"):
        await asyncio.to_thread(restored)
