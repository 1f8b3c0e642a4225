"""The API keeps to its document: whatever is sent, no error of its own, and no answer that it does not foretell."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import os

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable
from schemathesis import checks
from schemathesis.config import SchemathesisConfig
from schemathesis.generation import GenerationMode
from tests.store.served import serving
from tests.store.world import AGENTS, AUTOMATIC, TEAM

from anabranch.api.app import create_app
from anabranch.archive import MEDIA_TYPE
from anabranch.model.requests import BranchRequest

pytestmark = pytest.mark.long

EXAMPLES = int(os.environ.get("ANABRANCH_DOCUMENT_EXAMPLES", "6"))
"""Requests for each operation, of each of two kinds."""

DOCUMENT = copy.deepcopy(create_app().openapi())
for path in DOCUMENT["paths"].values():
    for described in path.values():
        described["responses"].pop("default", None)  # whatever is answered must be foretold by its status

SCHEMA = schemathesis.openapi.from_dict(DOCUMENT, config=SchemathesisConfig())
OPERATIONS = {
    f"{found.ok().method.upper()} {found.ok().path}": found.ok()
    for found in SCHEMA.get_all_operations()
    if found.ok().path.startswith("/v1/")  # the others tell how the process is: 503 is an answer
}
CHECKS = (
    checks.not_a_server_error,
    checks.CHECKS.get_one("status_code_conformance"),
    checks.CHECKS.get_one("content_type_conformance"),
    checks.CHECKS.get_one("response_schema_conformance"),
)


@schemathesis.serializer(MEDIA_TYPE, "application/octet-stream")
def as_bytes(_context, value):
    return value if isinstance(value, bytes) else str(value).encode()


@pytest.fixture
async def served(db, database):
    async with serving(db, database.api) as served:
        await served.world.import_documents({"a": "one", "b": "two"}, **AUTOMATIC)
        client = await served.client()
        await client.create_branch(AGENTS, BranchRequest(name="run", baseline="facts", baseline_namespace=TEAM))
        yield served


def explore(served, operation, mode):
    """Send what the document allows, or what it does not; half of it about what is there."""
    there = {
        "baseline": "facts", "branch": "run", "manifest": "current", "key": "a", "agent": "ada", "instance": "default",
        "section": "daily", "item": "2026-11-30",
    }  # fmt: skip

    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(generation_mode=mode), real=st.booleans())
    def send(case, real):
        if real:
            namespace = TEAM if "/baselines" in operation.path else AGENTS
            parameters = {**there, "namespace": namespace}
            for name in parameters.keys() & (case.path_parameters or {}).keys():
                case.path_parameters[name] = parameters[name]
        if isinstance(case.body, dict) and "wait_seconds" in case.body:
            case.body["wait_seconds"] = min(case.body["wait_seconds"], 1)  # it is the answer that is looked at
        case.call_and_validate(base_url=served.url, headers={"Authorization": "Bearer ada"}, checks=CHECKS, timeout=30)

    send()


@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE], ids=lambda mode: mode.value)
@pytest.mark.parametrize("operation", OPERATIONS)
async def test_an_operation_answers_as_its_document_says(served, operation, mode):
    with contextlib.suppress(Unsatisfiable):  # there is nothing that the document does not allow
        await asyncio.to_thread(explore, served, OPERATIONS[operation], mode)
