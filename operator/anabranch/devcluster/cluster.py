"""A cluster to work on, wherever it comes from: its admin's kubeconfig, and a kubectl that speaks to it."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from anabranch.devcluster.errors import DevclusterError

Kind = Literal["given", "kind", "local"]


@dataclass(frozen=True)
class Cluster:
    """A running cluster.

    Attributes:
        kind: ``given`` belongs to someone else, ``kind`` runs in docker, ``local`` is this package's control plane.
        kubeconfig: The kubeconfig of an admin.
        kubectl_path: The kubectl command.
        audit_log: Where its API server writes a JSON line for each request; None where it does not.
    """

    kind: Kind
    kubeconfig: Path
    kubectl_path: Path
    audit_log: Path | None = None

    @classmethod
    def restore(cls, saved: dict[str, Any]) -> Cluster:
        """The cluster that ``dataclasses.asdict`` has written down as JSON, with its paths as text."""
        log = saved["audit_log"]
        return cls(
            kind=saved["kind"],
            kubeconfig=Path(saved["kubeconfig"]),
            kubectl_path=Path(saved["kubectl_path"]),
            audit_log=Path(log) if log else None,
        )

    def kubectl(self, *arguments: str, stdin: str | None = None, timeout: float = 120.0) -> str:
        """Runs kubectl as the admin, and returns what it printed.

        Args:
            arguments: Its arguments.
            stdin: What it reads, where a ``-`` among the arguments says so.
            timeout: Seconds.

        Raises:
            DevclusterError: It failed; with its own words.
        """
        command = [str(self.kubectl_path), f"--kubeconfig={self.kubeconfig}", *arguments]
        shown = " ".join(["kubectl", *arguments])
        try:
            done = subprocess.run(
                command, check=False, capture_output=True, text=True, input=stdin or "", timeout=timeout
            )
        except subprocess.TimeoutExpired:
            raise DevclusterError(f"`{shown}` did not end within {timeout:.0f} s.") from None
        if done.returncode:
            raise DevclusterError(f"`{shown}` failed: {(done.stderr or done.stdout).strip()}")
        return done.stdout

    def get(self, *arguments: str) -> Any:
        """What ``kubectl get … --output=json`` prints, as a value."""
        return json.loads(self.kubectl("get", *arguments, "--output=json"))

    def apply(self, manifests: list[dict[str, Any]]) -> None:
        """Applies manifests on the server's side, as a field manager of its own; again it changes nothing.

        A conflict is taken over: this process is the only one that installs here.
        """
        if not manifests:
            return
        document = json.dumps({"apiVersion": "v1", "kind": "List", "items": manifests})
        arguments = ("apply", "--server-side", "--force-conflicts", "--field-manager=anabranch-install")
        self.kubectl(*arguments, "--filename=-", stdin=document)
