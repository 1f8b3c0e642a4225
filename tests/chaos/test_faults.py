"""Faults do what they say, or they would be nothing to withstand."""

from __future__ import annotations

import random

from tests.chaos import fault_processes
from tests.cluster.places import eventually

from anabranch.manifests import LEASE


async def test_a_lease_that_is_taken_is_its_holders_no_more(stage):
    await stage.run_code(None)  # other tests have had them run what is wrong

    async def lease():
        async with stage.kube() as kube:
            path = f"/apis/coordination.k8s.io/v1/namespaces/{stage.stack.namespace}/leases/{LEASE}"
            return (await kube.get(path)).raise_for_status().json()["spec"]

    async def held():
        return (await lease())["holderIdentity"] not in {"", fault_processes.NOBODY}

    await eventually(held, within=60)
    before = await lease()
    assert await fault_processes.take_lease(stage, random.Random("it")) == LEASE
    assert (await lease())["holderIdentity"] == fault_processes.NOBODY
    await eventually(held, within=60)
    assert (await lease())["leaseTransitions"] > before["leaseTransitions"]
