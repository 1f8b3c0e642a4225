"""The worker in an installation: its ServiceAccount's token, its Role, the operator, and a grant that is taken away."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import pytest
import yaml
from tests.cluster.places import BASELINE, RECORDS, eventually

from anabranch.client import AnabranchClient
from anabranch.client.worker import Evidence, Finding, ReplicaPurgedError, Worker
from anabranch.model.errors import ForbiddenError, NotFoundError
from anabranch.model.objects import Publication

ROLE = Path(__file__).parents[2] / "examples/agent.yaml"


@pytest.fixture
async def narrow(place):
    """An agent with the example's Role, of this Baseline; its token."""
    (role,) = [one for one in yaml.safe_load_all(ROLE.read_text()) if one["kind"] == "Role"]
    rules = json.loads(json.dumps(role["rules"]).replace('"handbook"', json.dumps(BASELINE)))
    metadata = {"name": "narrow-worker", "namespace": place.namespace}
    version = "rbac.authorization.k8s.io/v1"
    subject = {"kind": "ServiceAccount", **metadata}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": metadata["name"]}
    place.stack.cluster.apply(
        [
            {"apiVersion": version, "kind": "Role", "metadata": metadata, "rules": rules},
            {
                "apiVersion": version,
                "kind": "RoleBinding",
                "metadata": metadata,
                "roleRef": reference,
                "subjects": [subject],
            },
        ]
    )
    return place.account(metadata["name"])


async def test_a_run_with_the_examples_role_from_its_fork_to_the_loss_of_its_grant(place, narrow, tmp_path):
    place.apply(
        "Branch",
        "worker",
        {
            "baselineRef": {"name": BASELINE},
            "agent": {"serviceAccountName": "narrow-worker"},
            "lease": {"duration": "5s"},
        },
    )
    async with (
        AnabranchClient(place.stack.api_url, token=narrow) as client,
        await Worker.open(tmp_path / "run.db", client, namespace=place.namespace, branch="worker") as worker,
    ):
        place.kubectl("wait", "--for=condition=Ready", "branch/worker", "--timeout=60s")
        await worker.sync()
        assert {record.key async for record in worker.records()} == RECORDS.keys()
        async with worker.running():
            found = Finding("worker/found", "here", scope="team/build", sources=[Evidence(b"a log")])
            submitted = await worker.submit(found)
            await worker.write("mine", 1)

            async def followed():
                return (await worker.status()).applied_sequence > 0

            await eventually(followed)
            assert (await worker.read("worker/found")).layer == "shared"
            assert isinstance(await worker.outcome(submitted.sequence), Publication)
        place.kubectl("delete", "rolebinding", "narrow-worker")

        async def purged():
            with contextlib.suppress(ForbiddenError, NotFoundError):
                await worker.sync()
            return (await worker.status()).purged

        await eventually(purged)
        with pytest.raises(ReplicaPurgedError):
            await worker.read("worker/found")
        assert (await worker.read("mine")).content == 1
