"""A Backup of CloudNativePG, as the API server takes it from the operator's own account."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest

from anabranch.backup import database as database_backups
from anabranch.backup.config import DatabaseTarget
from anabranch.kube.client import KubeClient
from anabranch.kube.errors import ObjectRefusedError

TEXT = {"type": "string"}
NAMED = {"type": "object", "required": ["name"], "properties": {"name": TEXT}}
# Written after what CloudNativePG's API reference says of Backup: what of it an order touches.
DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "backups.postgresql.cnpg.io"},
    "spec": {
        "group": "postgresql.cnpg.io",
        "names": {"kind": "Backup", "listKind": "BackupList", "plural": "backups", "singular": "backup"},
        "scope": "Namespaced",
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "required": ["spec"],
                        "properties": {
                            "spec": {
                                "type": "object",
                                "required": ["cluster"],
                                "x-kubernetes-validations": [{"rule": "oldSelf == self", "message": "immutable"}],
                                "properties": {
                                    "cluster": NAMED,
                                    "method": {**TEXT, "enum": ["barmanObjectStore", "volumeSnapshot", "plugin"]},
                                    "pluginConfiguration": NAMED,
                                },
                            },
                            "status": {"type": "object", "properties": {"phase": TEXT, "error": TEXT}},
                        },
                    }
                },
            }
        ],
    },
}
RULE = {"apiGroups": ["postgresql.cnpg.io"], "resources": ["backups"], "verbs": ["create", "get"]}


@pytest.fixture
def defined(installed):
    installed.apply([DEFINITION])
    installed.kubectl("wait", "--for=condition=Established", "crd/backups.postgresql.cnpg.io", "--timeout=30s")
    yield installed
    installed.kubectl("delete", "crd", "backups.postgresql.cnpg.io")


@pytest.fixture
async def orderer(defined, namespace, person):
    """The API server as an account sees it that has the chart's Role for a target, and no more."""
    account = person("orderer")
    version = "rbac.authorization.k8s.io/v1"
    metadata = {"name": "backups", "namespace": namespace}
    defined.apply(
        [
            {"apiVersion": version, "kind": "Role", "metadata": metadata, "rules": [RULE]},
            {
                "apiVersion": version,
                "kind": "RoleBinding",
                "metadata": metadata,
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "backups"},
                "subjects": [{"kind": "ServiceAccount", "name": "orderer", "namespace": namespace}],
            },
        ]
    )
    kube = await KubeClient.open(str(account.kubeconfig))
    yield kube
    await kube.close()


async def test_an_order_is_taken_once_and_what_became_of_it_is_read(defined, namespace, orderer):
    async def order(method="volumeSnapshot", plugin="", attempt=0):
        return await database_backups.order(
            orderer,
            name="vault",
            target=DatabaseTarget(namespace=namespace, cluster="main", method=method, plugin=plugin),
            max_age=timedelta(hours=12),
            attempt=attempt,
            now=datetime(2026, 3, 1, 12, 0, tzinfo=UTC),
        )

    ordered = await order()
    name = ordered.place.partition("/")[2]
    assert (ordered.state, ordered.place) == ("running", f"{namespace}/{name}")
    assert abs(datetime.now(UTC) - ordered.taken_at) < timedelta(minutes=1)
    kept = json.loads(defined.kubectl("get", "backups.postgresql.cnpg.io", name, f"-n{namespace}", "-ojson"))
    assert kept["spec"] == {"cluster": {"name": "main"}, "method": "volumeSnapshot"}
    assert await order() == ordered
    for phase, state in (("running", "running"), ("completed", "completed"), ("failed", "failed")):
        patch = json.dumps({"status": {"phase": phase, "error": "why"}})
        arguments = ("--subresource=status", "--type=merge", f"--patch={patch}")
        defined.kubectl("patch", "backups.postgresql.cnpg.io", name, f"-n{namespace}", *arguments)
        assert (await order()).state == state
    plugged = await order("plugin", "barman-cloud.cloudnative-pg.io", attempt=1)
    kept = json.loads(
        defined.kubectl(
            "get", "backups.postgresql.cnpg.io", plugged.place.partition("/")[2], f"-n{namespace}", "-ojson"
        )
    )
    assert kept["spec"]["pluginConfiguration"] == {"name": "barman-cloud.cloudnative-pg.io"}
    wrong = DatabaseTarget.model_construct(namespace=namespace, cluster="main", method="tape", plugin="")
    with pytest.raises(ObjectRefusedError, match="tape"):
        await database_backups.order(
            orderer, name="wrong", target=wrong, max_age=timedelta(hours=12), attempt=0, now=datetime.now(UTC)
        )
