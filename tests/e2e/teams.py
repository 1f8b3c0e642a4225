"""A team that uses the release: its Baseline, and agents in pods that call the API by the name of its Service.

Each agent is a ServiceAccount of its own, with a token for the API's audience that the kubelet renews.
"""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.e2e.releases import AUDIENCE, URL, until

from anabranch.devcluster import accounts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.e2e.releases import Release

TEAM = "team"
BASELINE = "facts"
FAILURE = "build/exit-137"
SETUP = "setup/python"
RECORDS = {FAILURE: ("team/build", {"text": "The cause is unknown."}), SETUP: ("shared", {"text": "Install 3.11."})}

LOADER = "load-agent"
LOADED = "load/"
"""What the keys of a load begin with."""

TIMEOUT = 300
"""Seconds that a command in a pod may take: the load goes on while things are broken."""

INSIDE = Path(__file__).parent / "inside"
"""Scripts that run in the agents' pods."""

GRANTS = {
    "build-agent": "anabranch-agent",
    "docs-agent": "anabranch-agent",
    LOADER: "anabranch-agent",
    "rosa": "anabranch-reviewer",
    "publisher": "anabranch-publisher",
}


@dataclass
class Load:
    """Findings that are submitted in the background.

    Attributes:
        report: What `inside/load.py` printed, once it has ended.
    """

    report: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Team:
    """A namespace with a Baseline and those who may do something in it.

    Attributes:
        release: That serves it.
        image: Of the agents' pods: the one under test, which has the client and the commands.
    """

    release: Release
    image: str

    def settle(self) -> None:
        """Makes everything of it, as its namespace's administrator would, and waits until agents run."""
        lines = [
            json.dumps({"key": key, "scope": scope, "content": content}) + "\n"
            for key, (scope, content) in RECORDS.items()
        ]
        self.release.cluster.apply([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": TEAM}}])
        spec = {
            "import": {"configMap": {"name": BASELINE}},
            "review": {"mode": "Automatic", "requireSources": True},
            "deletionPolicy": "Delete",
        }
        self.release.cluster.apply(
            [
                _object("v1", "ConfigMap", BASELINE, data={"facts.jsonl": "".join(lines)}),
                _object("anabranch.dev/v1alpha1", "Baseline", BASELINE, spec=spec),
                *(_object("v1", "ServiceAccount", name) for name in GRANTS),
                *(_binding(name, role) for name, role in GRANTS.items()),
            ]
        )
        self.kubectl("wait", "--for=condition=Ready", f"baseline/{BASELINE}", "--timeout=110s")
        self.start_agents()

    def start_agents(self) -> None:
        """Starts the agents' pods anew, which trust the authority that the release has now."""
        self.kubectl("delete", "pods", "--all")
        authority = _object("v1", "ConfigMap", "anabranch-authority", data={"ca.crt": self.release.authority()})
        agents = [self._pod(name) for name, role in GRANTS.items() if role == "anabranch-agent"]
        self.release.cluster.apply([authority, *agents])
        self.kubectl("wait", "--for=condition=Ready", "pods", "--all", "--timeout=110s")

    def kubectl(self, *arguments: str) -> str:
        """Runs kubectl in the team's namespace."""
        return self.release.cluster.kubectl(*arguments, f"--namespace={TEAM}")

    def get(self, *arguments: str) -> Any:
        """Gets objects of the team's namespace."""
        return self.release.cluster.get(*arguments, f"--namespace={TEAM}")

    def run(self, agent: str, *command: str) -> str:
        """Runs a command in an agent's pod, and returns what it printed."""
        return self.release.cluster.kubectl("exec", agent, f"--namespace={TEAM}", "--", *command, timeout=TIMEOUT)

    def script(self, agent: str, name: str, *arguments: str) -> Any:
        """Runs one of the scripts in an agent's pod, and returns what it printed, as a value."""
        return json.loads(
            self.run(agent, "python", "-c", (INSIDE / f"{name}.py").read_text(), TEAM, BASELINE, *arguments)
        )

    def memory(self) -> Any:
        """What a reader has: see `inside/memory.py`."""
        return self.script("build-agent", "memory")

    def records(self) -> dict[str, Any]:
        """The records, without those of a load."""
        return {key: value for key, value in self.memory()["records"].items() if not key.startswith(LOADED)}

    def person(self, name: str) -> dict[str, str]:
        """What a person's commands need of the environment: a kubeconfig, and a token for the API."""
        folder = self.release.folder / "people"
        account = accounts.set_up(self.release.cluster, namespace=TEAM, name=name, folder=folder)
        token = accounts.mint(self.release.cluster, namespace=TEAM, name=name, audience=AUDIENCE).value
        return {"KUBECONFIG": str(account.kubeconfig), "ANABRANCH_TOKEN": token}

    def wait_for(self, resource: str, condition: str) -> None:
        """Waits for a condition of an object, as a script would."""
        self.kubectl("wait", f"--for=condition={condition}", resource, "--timeout=110s")

    def published(self, agent: str, branch: str, sequence: int) -> None:
        """Waits until a batch is."""
        until(
            f"the publication of batch {sequence} of {branch}",
            lambda: self.script(agent, "batch", branch, str(sequence))["ack"] == "publication",
        )

    @contextmanager
    def load(self, prefix: str, *, insist: bool = False) -> Iterator[Load]:
        """Submits findings while the block runs; behind it, the load has its report.

        Args:
            prefix: Of the branches' names.
            insist: Whether a batch that the client gave up is submitted once more.
        """
        load, how = Load(), "insist" if insist else "once"
        with ThreadPoolExecutor(1) as thread:
            work = thread.submit(self.script, LOADER, "load", prefix, how)
            try:
                until("the first batch", lambda: work.done() or self._acknowledged() > 0)
                yield load
                soon = self._acknowledged() + 5
                until("more batches", lambda: work.done() or self._acknowledged() >= soon)
            finally:
                self.run(LOADER, "sh", "-c", "echo > /tmp/stop")
            load.report = work.result()

    def check_published_once(self, load: Load) -> None:
        """Checks that each batch that was acknowledged is published, once."""
        assert sum(load.report["acknowledged"].values()) > 0
        assert not any(load.report["unpublished"].values()), load.report
        keys = [key for _, key in self.memory()["events"] if key]
        for branch, last in load.report["acknowledged"].items():
            published = sorted(int(key.rpartition("/")[2]) for key in keys if key.startswith(f"{LOADED}{branch}/"))
            # What was received and never acknowledged may be there too: one batch at most.
            assert published in (list(range(1, last + 1)), list(range(1, last + 2))), branch

    def _acknowledged(self) -> int:
        """How many batches of one branch of the load were."""
        told = self.run(LOADER, "sh", "-c", "read count < /tmp/acknowledged && echo $count || echo 0")
        return int(told or 0)

    def _pod(self, agent: str) -> dict[str, Any]:
        container = {
            "name": "agent",
            "image": self.image,
            "imagePullPolicy": "Never",
            "command": ["python", "-c", "import signal; signal.sigwait([signal.SIGTERM])"],
            "env": [
                {"name": "ANABRANCH_URL", "value": URL},
                {"name": "ANABRANCH_TOKEN_FILE", "value": "/etc/anabranch/token/token"},
                {"name": "SSL_CERT_FILE", "value": "/etc/anabranch/authority/ca.crt"},
            ],
            "volumeMounts": [
                {"name": "token", "mountPath": "/etc/anabranch/token"},
                {"name": "authority", "mountPath": "/etc/anabranch/authority"},
                {"name": "tmp", "mountPath": "/tmp"},
            ],
        }
        token = {"path": "token", "audience": AUDIENCE, "expirationSeconds": 3600}
        spec = {
            "serviceAccountName": agent,
            "automountServiceAccountToken": False,
            "terminationGracePeriodSeconds": 1,
            "containers": [container],
            "volumes": [
                {"name": "token", "projected": {"sources": [{"serviceAccountToken": token}]}},
                {"name": "authority", "configMap": {"name": "anabranch-authority"}},
                {"name": "tmp", "emptyDir": {}},
            ],
        }
        return _object("v1", "Pod", agent, spec=spec)


def _object(version: str, kind: str, name: str, **rest: Any) -> dict[str, Any]:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, "namespace": TEAM}, **rest}


def _binding(name: str, role: str) -> dict[str, Any]:
    return _object(
        "rbac.authorization.k8s.io/v1",
        "RoleBinding",
        name,
        roleRef={"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        subjects=[{"kind": "ServiceAccount", "name": name, "namespace": TEAM}],
    )
