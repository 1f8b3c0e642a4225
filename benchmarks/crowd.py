"""Thousands of Branches on a local control plane within seconds, for what measures the operator among many objects.

A Branch made through the API server, with all the defaults, checks and field management that this brings, is the model.
Its copies are put beside it where the API server keeps it, in etcd, and, where they are to be found as after a restart,
beside its row in Postgres. To the API server they are what it stored itself; making 10,000 of them through it takes
minutes, and would measure the API server.
"""

from __future__ import annotations

import base64
import copy
import json
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import asyncpg
import httpx

from anabranch.model.ids import LineId, new_branch_id, new_run_id

if TYPE_CHECKING:
    from collections.abc import Mapping

    from anabranch.devcluster.stack import Stack

BASELINE = "handbook"
HOME = "crowd-home"
"""The namespace of the Baseline, which every ServiceAccount may fork."""

AUTOMATIC = {"review": {"mode": "Automatic"}}

_PUTS = 100
"""Of one etcd transaction, which takes 128."""


@dataclass(frozen=True)
class Crowd:
    """Copies of Branches on a stack.

    Attributes:
        stack: Running, on a local control plane.
    """

    stack: Stack

    def home(self) -> None:
        """Make the namespace with the Baseline; its operator must run, and serve it."""
        self.stack.make_namespace(HOME)
        metadata = {"name": BASELINE, "namespace": HOME}
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "anabranch-agent"}
        everybody = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:serviceaccounts"}
        self.stack.cluster.apply(
            [
                {
                    "apiVersion": "v1",
                    "kind": "ConfigMap",
                    "metadata": metadata,
                    "data": {"a.md": "# Build\n\nWarm up.\n"},
                },
                {
                    "apiVersion": "rbac.authorization.k8s.io/v1",
                    "kind": "RoleBinding",
                    "metadata": metadata,
                    "roleRef": role,
                    "subjects": [everybody],
                },
                _resource("Baseline", HOME, BASELINE, {"import": {"configMap": {"name": BASELINE}}, **AUTOMATIC}),
            ]
        )
        self._wait(f"baseline/{BASELINE}", HOME)

    def model(self, namespace: str, *, ready: bool) -> None:
        """Make the Branch that is copied, in a namespace of its own, and wait until it is forked if it is to be."""
        self.stack.make_namespace(namespace)
        spec = {
            "baselineRef": {"namespace": HOME, "name": BASELINE},
            "agent": {"serviceAccountName": "scout"},
            "task": "Find out why the nightly build of the conveyor is slow, and what would make it faster.",
        }
        self.stack.cluster.apply([_resource("Branch", namespace, "model", spec)])
        if ready:
            self._wait("branch/model", namespace)

    async def copy(
        self, model: str, namespace: str, count: int, *, rows: bool, annotations: Mapping[str, str] | None = None
    ) -> None:
        """Put copies of the model of one namespace into another one, as ``run-0`` and so on.

        Args:
            model: The model's namespace.
            namespace: Of the copies; made if it is not there.
            count: How many.
            rows: Whether Postgres shall know them, as it knows the model.
            annotations: Of each copy.
        """
        self.stack.make_namespace(namespace)
        ports = json.loads((self.stack.folder / "cluster/ports.json").read_text())
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{ports['etcd']}", trust_env=False, timeout=60) as etcd:
            found = await _call(etcd, "range", {"key": _key(model, "model")})
            value = json.loads(base64.b64decode(found["kvs"][0]["value"]))
            copies = [_copied(value, namespace, f"run-{number}", annotations or {}) for number in range(count)]
            if rows:
                await self._insert(value["status"]["branchId"], copies)
            for begin in range(0, count, _PUTS):
                puts = [
                    {"requestPut": {"key": _key(namespace, one["metadata"]["name"]), "value": _text(json.dumps(one))}}
                    for one in copies[begin : begin + _PUTS]
                ]
                await _call(etcd, "txn", {"success": puts})

    async def remove(self, namespace: str) -> None:
        """Delete the Branches of a namespace, and the rows of those that Postgres knows."""
        ports = json.loads((self.stack.folder / "cluster/ports.json").read_text())
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{ports['etcd']}", trust_env=False, timeout=60) as etcd:
            await _call(etcd, "deleterange", {"key": _key(namespace, ""), "range_end": _key(namespace, "", end=True)})
        conn = await asyncpg.connect(self.stack.admin_dsn)
        try:
            await conn.execute("DELETE FROM branches WHERE namespace = $1", namespace)
        finally:
            await conn.close()

    async def _insert(self, model: str, copies: list[dict[str, Any]]) -> None:
        """Give each copy a row like the model's."""
        own = {
            "branch_id": [one["status"]["branchId"] for one in copies],
            "run_id": [one["status"]["runId"] for one in copies],
            "namespace": [one["metadata"]["namespace"] for one in copies],
            "name": [one["metadata"]["name"] for one in copies],
            "uid": [one["metadata"]["uid"] for one in copies],
        }
        conn = await asyncpg.connect(self.stack.admin_dsn)
        try:
            shared = await conn.fetch(
                "SELECT quote_ident(attname) AS name FROM pg_attribute WHERE attrelid = 'branches'::regclass"
                " AND attnum > 0 AND NOT attisdropped AND attgenerated = '' AND attname <> ALL($1::text[])",
                list(own),
            )
            same = ", ".join(row["name"] for row in shared)
            await conn.execute(
                f"INSERT INTO branches ({', '.join(own)}, {same})"
                f" SELECT copy.*, {same} FROM branches AS model, unnest($2::text[], $3::text[], $4::text[], $5::text[],"
                f" $6::text[]) AS copy ({', '.join(f'c_{name}' for name in own)}) WHERE branch_id = $1",
                model,
                *own.values(),
            )
            await conn.execute("ANALYZE branches")
        finally:
            await conn.close()

    def _wait(self, name: str, namespace: str) -> None:
        self.stack.cluster.kubectl("wait", "--for=condition=Ready", name, f"--namespace={namespace}", "--timeout=90s")


def _copied(model: dict[str, Any], namespace: str, name: str, annotations: Mapping[str, str]) -> dict[str, Any]:
    """A copy of what etcd has, as another object."""
    one = copy.deepcopy(model)
    one["metadata"] |= {"namespace": namespace, "name": name, "uid": str(uuid.uuid4())}
    if annotations:
        one["metadata"]["annotations"] = dict(annotations)
    if branch := one.get("status", {}).get("branchId"):
        line = LineId(f"ln_{branch.split('_')[1]}")
        one["status"] |= {"branchId": new_branch_id(line), "runId": new_run_id(line)}
        one["status"]["endpoint"] = f"/v1/namespaces/{namespace}/branches/{one['status']['branchId']}"
    return one


def _resource(kind: str, namespace: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "anabranch.dev/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec}


async def _call(etcd: httpx.AsyncClient, verb: str, body: dict[str, Any]) -> Any:
    answer = await etcd.post(f"/v3/kv/{verb}", json=body)
    return answer.raise_for_status().json()


def _key(namespace: str, name: str, *, end: bool = False) -> str:
    """Where etcd has a Branch; with ``end``, the key after all those that begin like this."""
    key = f"/registry/anabranch.dev/branches/{namespace}/{name}"
    return _text(key[:-1] + chr(ord(key[-1]) + 1) if end else key)


def _text(value: str) -> str:
    return base64.b64encode(value.encode()).decode()
