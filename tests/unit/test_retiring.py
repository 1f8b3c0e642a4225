"""A retirement that fails leaves each operator as it was."""

from __future__ import annotations

import pytest

from anabranch.baselines.retiring import retire
from anabranch.model.errors import UnavailableError


class FakeKube:
    """Operators of two stores; those of one of them cannot be scaled down."""

    def __init__(self) -> None:
        self.replicas = {"anabranch-operator": 2, "anabranch-operator-east": 2}

    async def find(self, _kind, **_where):
        return {}

    async def items(self, _kind, **_where):
        for nothing in ():
            yield nothing

    async def call(self, method, path, *, body=None, **_more):
        deployment = path.split("/")[-2]
        if method == "PATCH":
            if deployment.endswith("east"):
                raise UnavailableError("The API server is away.", hint="Try again.")
            self.replicas[deployment] = body["spec"]["replicas"]
        return {"spec": {"replicas": self.replicas[deployment]}}


async def test_operators_that_were_stopped_before_another_one_could_not_be_run_again():
    kube = FakeKube()
    with pytest.raises(UnavailableError):
        await retire(kube, namespace="system", deployment="anabranch-operator", seconds=1, say=print, stores=("east",))
    assert kube.replicas == {"anabranch-operator": 2, "anabranch-operator-east": 2}
