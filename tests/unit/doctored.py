"""A cluster as `anabranch doctor` sees it, in which tests break one thing at a time."""

from __future__ import annotations

import copy
import json
from datetime import UTC, datetime, timedelta

from anabranch import manifests
from anabranch.cli.connection import Connection
from anabranch.cli.examination import examine
from anabranch.model.errors import ForbiddenError, NotFoundError

SYSTEM = manifests.DEFAULT_NAMESPACE
SHIPPED = manifests.install()


def of_kind(kind):
    return [copy.deepcopy(item) for item in SHIPPED if item["kind"] == kind]


class Cluster:
    """A cluster with everything as it must be, to break one thing at a time; it answers as kubectl does."""

    def __init__(self):
        self.version = {"major": "1", "minor": "35", "gitVersion": "v1.35.4"}
        self.crds = {crd["metadata"]["name"]: crd for crd in map(copy.deepcopy, manifests.crds())}
        self.policies = of_kind("ValidatingAdmissionPolicy")
        self.bindings = of_kind("ValidatingAdmissionPolicyBinding")
        self.accounts = {account["metadata"]["name"]: account for account in of_kind("ServiceAccount")}
        self.lease = {
            "holderIdentity": "operator-1",
            "leaseDurationSeconds": 9,
            "renewTime": datetime.now(UTC).isoformat().replace("+00:00", "Z"),
        }
        self.resources = {"baselines": [], "branches": [], "consolidationjobs": []}
        self.release = []
        self.refused = set()

    def run(self, *arguments):
        if arguments[0] == "version":
            if isinstance(self.version, Exception):
                raise self.version
            return json.dumps({"serverVersion": self.version})
        kind, name = arguments[1], arguments[2]
        if kind in self.refused:
            raise ForbiddenError(f"you cannot get {kind}")
        found = {
            "pods,jobs.batch": lambda: {"items": self.release},
            "crd": lambda: self.crds.get(name),
            "serviceaccount": lambda: self.accounts.get(name),
            "lease": lambda: self.lease and {"spec": self.lease},
            "validatingadmissionpolicies": lambda: {"items": self.policies},
            "validatingadmissionpolicybindings": lambda: {"items": self.bindings},
        }[kind]()
        if found is None:
            raise NotFoundError(f"{kind} {name} not found", hint="Check the name.")
        return json.dumps(found)

    def get(self, kind, *, everywhere, managed=False):
        assert everywhere
        assert managed == (kind == "baselines")
        if kind in self.refused:
            raise ForbiddenError(f"you cannot list {kind}")
        return self.resources[kind]


def look(cluster, **settings):
    return list(examine(Connection(kubectl=cluster, **settings), SYSTEM))


def problems(cluster, **settings):
    return [finding for finding in look(cluster, **settings) if finding.state == "problem"]


def pod(*, phase="Running", state=None, container="api", **conditions):
    """A pod of the release, with one container in a state: an init container, if it is the one named schema."""
    statuses = "initContainerStatuses" if container == "schema" else "containerStatuses"
    listed = [{"type": kind, "status": status, "message": f"{kind} it is not."} for kind, status in conditions.items()]
    status = {"phase": phase, "conditions": listed, statuses: [{"name": container, "state": state or {"running": {}}}]}
    return {"kind": "Pod", "metadata": {"name": "anabranch-api-1"}, "status": status}


def resource(name, *, generation=2, observed=2, state=None, minutes=0, **conditions):
    """One of ours whose conditions have held for some minutes."""
    since = (datetime.now(UTC) - timedelta(minutes=minutes)).isoformat()
    listed = [
        {"type": kind, "status": "True", "reason": reason, "message": f"Mend {reason}.", "lastTransitionTime": since}
        for kind, reason in conditions.items()
    ]
    status = {"observedGeneration": observed, "conditions": listed, **({"state": state} if state else {})}
    return {"metadata": {"namespace": "memory", "name": name, "generation": generation}, "status": status}
