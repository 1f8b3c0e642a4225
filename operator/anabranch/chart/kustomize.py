"""`python -m anabranch.chart.kustomize`: write the kustomize base, which is the chart as Helm renders it.

It is for those who deploy without Helm. The Secrets are theirs, since nothing may be drawn where nothing can be kept; a
test compares the files with what the chart renders.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any, Final

import click
import yaml

from anabranch import manifests
from anabranch.chart.generate import CHART
from anabranch.devcluster import binaries

BASE: Final = Path("charts/kustomize/base")
VALUES: Final = {
    "generateSecrets": False,
    "database": {"existingSecret": "anabranch-dsns"},
    "api": {
        "cursorKeys": {"existingSecret": "anabranch-cursor-keys"},
        "tls": {"mode": "existingSecret", "existingSecret": "anabranch-api-tls"},
    },
    "uninstall": {"hook": False},
}
_HEADER: Final = "# Rendered from charts/anabranch by `make kustomize`. Change it there.\n"
_HELMS: Final = ("helm.sh/chart", "app.kubernetes.io/managed-by", "helm.sh/resource-policy")
_FILES: Final = {
    "Namespace": "namespace.yaml",
    "CustomResourceDefinition": "definitions.yaml",
    "ValidatingAdmissionPolicy": "policies.yaml",
    "ValidatingAdmissionPolicyBinding": "policies.yaml",
    "ServiceAccount": "access.yaml",
    "ClusterRole": "access.yaml",
    "ClusterRoleBinding": "access.yaml",
    "Role": "access.yaml",
    "RoleBinding": "access.yaml",
    "NetworkPolicy": "network.yaml",
    "Job": "migration.yaml",
}
_OTHERWISE: Final = "workloads.yaml"
_REPLACED: Final = {
    # A Job cannot be changed: both tools make it anew. With kubectl, delete it before you apply.
    "argocd.argoproj.io/hook": "Sync",
    "argocd.argoproj.io/hook-delete-policy": "BeforeHookCreation",
    "kustomize.toolkit.fluxcd.io/force": "enabled",
}


def files(helm: Path) -> dict[str, str]:
    """The files of the base, by name.

    Args:
        helm: The command that renders the chart.
    """
    namespace, *_ = manifests.install()
    parts: dict[str, list[dict[str, Any]]] = {}
    for item in (namespace, *_rendered(helm)):
        parts.setdefault(_FILES.get(item["kind"], _OTHERWISE), []).append(item)
    kustomization = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": sorted(parts),
    }
    return {
        "kustomization.yaml": _HEADER + manifests.dump([kustomization]),
        **{name: _HEADER + manifests.dump(items) for name, items in parts.items()},
    }


def _rendered(helm: Path) -> list[dict[str, Any]]:
    """The objects of a release but its hooks, without the marks of Helm."""
    command = [
        str(helm),
        "template",
        "anabranch",
        str(CHART),
        f"--namespace={manifests.DEFAULT_NAMESPACE}",
        "--values=-",
    ]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, input=yaml.safe_dump(VALUES))  # noqa: S603  (no shell, and nothing of a stranger's)
    loaded = [item for item in yaml.safe_load_all(done.stdout) if item]
    return [_bare(item) for item in loaded if "helm.sh/hook" not in item["metadata"].get("annotations", {})]


def _bare(item: dict[str, Any]) -> dict[str, Any]:
    metadata = item["metadata"]
    for part in ("labels", "annotations"):
        kept = {name: value for name, value in metadata.pop(part, {}).items() if name not in _HELMS}
        if item["kind"] == "Job" and part == "annotations":
            metadata["name"], kept = "anabranch-migrate", _REPLACED
        if kept:
            metadata[part] = kept
    return item


@click.command()
def main() -> None:
    """Write the kustomize base from the chart."""
    wanted = files(binaries.ensure(["helm"], say=click.echo) / "helm")
    BASE.mkdir(parents=True, exist_ok=True)
    for path in BASE.glob("*.yaml"):
        if path.name not in wanted:
            path.unlink()
    for name, text in wanted.items():
        (BASE / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
