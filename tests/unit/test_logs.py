"""A log line is one JSON object that names what it is about, and quotes no row of Postgres."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from anabranch.model.errors import InvalidInputError
from anabranch.telemetry import logs

PROGRAM = """
import asyncio, logging, structlog
from anabranch.telemetry import logs

logs.configure()
log = structlog.get_logger("ours")

async def work():
    log.info("worked", line="own")
    logging.getLogger("a.library").warning("said by a %s", "library")

async def main():
    with logs.bound(namespace="team", job="run-1", line="bl", branch_id=None):
        task = asyncio.create_task(work())
    log.info("outside")
    await task
    logs.bind({"request_id": "r1"}, late=lambda: {"branch": "run"})
    log.debug("refused")
    try:
        raise ValueError('violates\\nDETAIL:  Failing row contains (SECRET).\\nHINT:  Mend it.')
    except ValueError:
        log.exception("failed")

asyncio.run(main())
"""


@pytest.fixture(scope="module")
def lines():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert "SECRET" not in done.stderr
    return {line["event"]: line for line in map(json.loads, done.stderr.splitlines())}


def test_what_is_said_while_something_is_worked_on_names_it(lines):
    assert {"namespace": "team", "job": "run-1"}.items() <= lines["worked"].items()
    assert lines["worked"]["line"] == "own", "what a line says itself comes first"
    assert {"namespace": "team", "line": "bl", "level": "warning"}.items() <= lines["said by a library"].items()
    assert "branch_id" not in lines["worked"]
    assert "job" not in lines["outside"]


def test_a_defect_is_told_with_its_traceback_and_its_request(lines):
    failed = lines["failed"]
    assert failed["exception"].startswith("Traceback")
    assert "HINT:  Mend it." in failed["exception"]
    assert {"level": "error", "request_id": "r1", "branch": "run"}.items() <= failed.items()


def test_what_callers_have_to_mend_is_told_in_debugging_only(lines):
    assert "refused" not in lines


def test_a_level_that_there_is_not_is_named():
    with pytest.raises(InvalidInputError, match="ANABRANCH_LOG_LEVEL is 'LOUD'"):
        logs.configure(level="loud")
