"""The person's own way to the cluster: kubectl, with all that their kubeconfig says about how to log in.

A person's rights are those of their kubeconfig, and only kubectl knows every way there is to use one. So what a person
does by the commands is what they may do by kubectl, and shows under their name in the audit log.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import dataclass
from typing import Any, Final

from anabranch.model.errors import AnabranchError, ConflictError, ForbiddenError, NotFoundError, UnavailableError

GROUP: Final = "anabranch.dev"
TIMEOUT: Final = 60.0
"""Seconds for one call; a login plugin may ask the person something meanwhile."""

# What kubectl prints on stderr, to the error that it means.
_MEANINGS: Final[tuple[tuple[str, type[AnabranchError]], ...]] = (
    ("(Forbidden)", ForbiddenError),
    ("(NotFound)", NotFoundError),
    ("(Conflict)", ConflictError),
    ("is forbidden:", ForbiddenError),
)


@dataclass(frozen=True)
class Kubectl:
    """kubectl with the options that the person gave.

    Attributes:
        namespace: From ``-n``; None: what the kubeconfig's context says.
        options: Passed to each call: ``--kubeconfig``, ``--context``.
        path: Of the program; None: what PATH has.
    """

    namespace: str | None = None
    options: tuple[str, ...] = ()
    path: str | None = None

    def run(self, *arguments: str, stdin: str | None = None) -> str:
        """Run kubectl and return what it printed.

        Raises:
            AnabranchError: In kubectl's words; the class tells forbidden, absent and conflict apart.
        """
        program = self.path or shutil.which("kubectl")
        if program is None:
            raise UnavailableError(
                "kubectl is not on PATH.", hint="Install kubectl; `make dev` prints where it has one."
            )
        where = ("--namespace", self.namespace) if self.namespace else ()
        try:
            done = subprocess.run(  # noqa: S603  (kubectl, found on PATH; no shell)
                [program, *self.options, *where, *arguments],
                check=False,
                capture_output=True,
                text=True,
                input=stdin or "",
                timeout=TIMEOUT,
            )
        except subprocess.TimeoutExpired:
            raise UnavailableError(
                f"kubectl did not answer within {TIMEOUT:.0f} s.", hint="Check the cluster."
            ) from None
        if done.returncode:
            words = (done.stderr or done.stdout).strip()
            meaning = next((kind for mark, kind in _MEANINGS if mark in words), UnavailableError)
            raise meaning(words, hint="Ask for the grant, or check name, namespace and context.")
        return done.stdout

    def get(self, kind: str, name: str | None = None, *, everywhere: bool = False) -> Any:
        """An object of Anabranch, or the list of them (its ``items``)."""
        arguments = ["get", f"{kind}.{GROUP}", *([name] if name else []), "--output=json"]
        value = json.loads(self.run(*arguments, *(["--all-namespaces"] if everywhere else [])))
        return value if name else value["items"]

    def patch(self, kind: str, name: str, patch: dict[str, Any]) -> None:
        """Merge a patch into an object's spec."""
        self.run("patch", f"{kind}.{GROUP}", name, "--type=merge", f"--patch={json.dumps(patch)}")

    def apply(self, manifest: dict[str, Any], *, manager: str) -> None:
        """Apply a manifest on the server's side under a field manager of its own; what another one owns stays."""
        document = json.dumps(manifest)
        self.run("apply", "--server-side", f"--field-manager={manager}", "--filename=-", stdin=document)

    def current_namespace(self) -> str:
        """The namespace that calls go to."""
        if self.namespace:
            return self.namespace
        found = self.run("config", "view", "--minify", "--output=jsonpath={.contexts[0].context.namespace}")
        return found.strip() or "default"

    def username(self) -> str:
        """Who the API server says that the person is."""
        review = json.loads(self.run("auth", "whoami", "--output=json"))
        return str(review["status"]["userInfo"]["username"])

    def token(self, service_account: str, *, namespace: str, audience: str) -> str:
        """A short-lived token of a ServiceAccount that the person may mint."""
        arguments = ("create", "token", service_account, f"--namespace={namespace}", f"--audience={audience}")
        return self.run(*arguments).strip()
