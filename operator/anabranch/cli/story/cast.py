"""Who plays: namespaces, agents and a reviewer, with exactly the roles that an installation ships."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, Final

MEMORY: Final = "platform-memory"
"""Where the Baseline lives, and who decides about it."""

AGENTS: Final = "agents"
"""Where agents run. What they may do in the Baseline's namespace is granted there."""

BUILD_AGENT: Final = "build-agent"
DOCS_AGENT: Final = "docs-agent"
REVIEWER: Final = "rosa"
PUBLISHER: Final = "platform-ci"

BASELINE: Final = "platform-team"
PROJECT_DOCS: Final = "anabranch-docs"


@dataclass(frozen=True)
class Cast:
    """The names of one performance; on a cluster that is someone else's, namespaces of their own.

    Attributes:
        memory: Namespace of the Baselines.
        agents: Namespace of the agents and their branches.
    """

    memory: str = MEMORY
    agents: str = AGENTS

    @classmethod
    def for_cluster(cls, kind: str) -> Cast:
        """Plain names on a cluster of our own, unmistakable ones on a given cluster."""
        if kind != "given":
            return cls()
        suffix = f"anabranch-demo-{os.getpid()}"
        return cls(memory=f"{MEMORY}-{suffix}", agents=f"{AGENTS}-{suffix}")

    def manifests(self) -> list[dict[str, Any]]:
        """ServiceAccounts and RoleBindings."""
        return [
            *(_account(self.agents, name) for name in (BUILD_AGENT, DOCS_AGENT)),
            *(_account(self.memory, name) for name in (REVIEWER, PUBLISHER)),
            *(
                _binding(namespace, "anabranch-agent", self.agents, name)
                for namespace in (self.memory, self.agents)
                for name in (BUILD_AGENT, DOCS_AGENT)
            ),
            # May change jobs, and so stands before the admission policy: that alone keeps it from reviewing.
            _binding(self.memory, "anabranch-aggregate-to-edit", self.agents, DOCS_AGENT),
            _binding(self.memory, "anabranch-reviewer", self.memory, REVIEWER),
            _binding(self.memory, "anabranch-publisher", self.memory, PUBLISHER),
        ]

    def baseline(self, digest: str) -> dict[str, Any]:
        """The Baseline: imports an archive by digest, publishes by itself what is verified and contradicts nothing."""
        return {
            "apiVersion": "anabranch.dev/v1alpha1",
            "kind": "Baseline",
            "metadata": {"name": BASELINE, "namespace": self.memory},
            "spec": {
                "import": {"archive": {"digest": digest}},
                "review": {"mode": "Automatic", "requireSources": True},
            },
        }

    def project_docs(self, files: dict[str, str]) -> list[dict[str, Any]]:
        """A small Baseline from a ConfigMap: this project's own pages."""
        metadata = {"name": PROJECT_DOCS, "namespace": self.memory}
        return [
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": files},
            {
                "apiVersion": "anabranch.dev/v1alpha1",
                "kind": "Baseline",
                "metadata": metadata,
                "spec": {"import": {"configMap": {"name": PROJECT_DOCS}}},
            },
        ]

    def branch(self, name: str, *, agent: str, task: str) -> dict[str, Any]:
        """A Branch of an agent."""
        return {
            "apiVersion": "anabranch.dev/v1alpha1",
            "kind": "Branch",
            "metadata": {"name": name, "namespace": self.agents},
            "spec": {
                "baselineRef": {"namespace": self.memory, "name": BASELINE},
                "agent": {"serviceAccountName": agent},
                "task": task,
            },
        }


def _account(namespace: str, name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": namespace}}


def _binding(namespace: str, role: str, account_namespace: str, account: str) -> dict[str, Any]:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": f"{role}-{account}", "namespace": namespace},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": account_namespace}],
    }
