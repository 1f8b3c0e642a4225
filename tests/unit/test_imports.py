"""What a process imports at its start is paid for at each start: in the demo, in the tests, in a restarted pod."""

from __future__ import annotations

import subprocess
import sys

import pytest

ONLY_FOR_MIGRATIONS = ("sqlalchemy", "alembic", "mako")


@pytest.mark.parametrize("module", ["anabranch.controllers.operator", "anabranch.api.serve", "anabranch.cli.dev"])
def test_only_who_migrates_imports_what_migrations_need(module):
    code = f"import sys, {module}; print(*sorted(sys.modules.keys() & {set(ONLY_FOR_MIGRATIONS)}))"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)

    assert done.stdout.strip() == ""
