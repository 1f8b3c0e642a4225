"""The stage of a run: started once, with a Postgres that can be filled up and a control plane that can be killed."""

from __future__ import annotations

import os
import random
from typing import TYPE_CHECKING

import pytest
from tests.chaos import stage as stages

from anabranch.client import transport
from anabranch.devcluster import choose
from anabranch.devcluster.stack import load

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@pytest.fixture(scope="session")
async def stage(run_folder) -> AsyncIterator[stages.Stage]:
    if choose.cluster_kind() != "local" or os.environ.get(choose.DSN):
        pytest.skip("what belongs to somebody else is not killed")
    stages.unmount_left()
    folder = run_folder / "chaos"
    stack = stages.set_up(folder)
    stage = stages.Stage(stack, random.Random("service"))
    try:
        await stage.open()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(transport, "pause", lambda _attempt: 0.1)
            yield stage
    finally:
        await stage.close()
        if started := load(folder):
            started.down()
        stages.unmount(folder / "postgres")
