"""The person's own way to the cluster: kubectl, with all that their kubeconfig says about how to log in.

A person's rights are those of their kubeconfig, and only kubectl knows every way there is to use one. So what a person
does by the commands is what they may do by kubectl, and shows under their name in the audit log.
"""

from __future__ import annotations

import functools
import json
import re
import shutil
import subprocess
from dataclasses import dataclass
from typing import Any, Final

from anabranch.model.errors import (
    AnabranchError,
    ConflictError,
    ForbiddenError,
    InvalidInputError,
    NotFoundError,
    UnauthenticatedError,
    UnavailableError,
)

GROUP: Final = "anabranch.dev"
TIMEOUT: Final = 60.0
"""Seconds for one call; a login plugin may ask the person something meanwhile."""

# What kubectl prints on stderr, to the error that it means and what to do about it. The first that is found counts.
_MEANINGS: Final[tuple[tuple[str, type[AnabranchError], str], ...]] = (
    ("doesn't have a resource type", NotFoundError, "Install Anabranch, or check the context: `anabranch doctor`."),
    ("ValidatingAdmissionPolicy", ForbiddenError, "Ask for the grant, or for somebody who has it."),
    ("(Forbidden)", ForbiddenError, "Ask for the right, or use the context of somebody who has it."),
    ("is forbidden:", ForbiddenError, "Ask for the right, or use the context of somebody who has it."),
    ("(Unauthorized)", UnauthenticatedError, "Log in to the cluster again, or check the kubeconfig."),
    ("(NotFound)", NotFoundError, "Check the name, and the namespace (-n)."),
    (" not found", NotFoundError, "Check the name, and the namespace (-n)."),
    ("(Conflict)", ConflictError, "Somebody changed it at the same time: run the command again."),
    ("Apply failed with", ConflictError, "Whoever owns the field must change it, or give it up."),
    (" is invalid:", InvalidInputError, "Mend the named field."),
)
_ELSE: Final = "Check the kubeconfig, and that its cluster answers: `kubectl version`."
_PREFIX: Final = re.compile(r"^(Error from server \(\w+\): |error: |Error )")
_LOG_LINE: Final = re.compile(r"^[EWIF]\d{4} ")
_DENIED: Final = re.compile(r"ValidatingAdmissionPolicy '[^']*' with binding '[^']*' denied request: (.*)")


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

    @property
    def program(self) -> str:
        """Where it is.

        Raises:
            UnavailableError: If it is nowhere.
        """
        program = self.path or shutil.which("kubectl")
        if program is None:
            raise UnavailableError(
                "kubectl is not on PATH.", hint="Install kubectl; `make dev` prints where it has one."
            )
        return program

    def run(self, *arguments: str, stdin: str | None = None) -> str:
        """Run kubectl and return what it printed.

        Raises:
            AnabranchError: In kubectl's words; the class tells forbidden, absent and conflict apart.
        """
        program = self.program
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
            raise error_of(done.stderr or done.stdout)
        return done.stdout

    def get(self, kind: str, name: str | None = None, *, everywhere: bool = False, managed: bool = False) -> Any:
        """An object of Anabranch, managed fields included, or the list of them (its ``items``), if wanted with them."""
        arguments = ["get", f"{kind}.{GROUP}", "--output=json"]
        arguments += ["--show-managed-fields"] if managed or name is not None else []
        if name is not None:
            return json.loads(self.run(*arguments, "--", name))
        return json.loads(self.run(*arguments, *(["--all-namespaces"] if everywhere else [])))["items"]

    def names(self, kind: str) -> list[str]:
        """The names of Anabranch's objects of a kind, for completion: given up where it takes more than two seconds."""
        found = self.run("get", f"{kind}.{GROUP}", "--output=name", "--request-timeout=2s")
        return [line.partition("/")[2] for line in found.splitlines()]

    def patch(self, kind: str, name: str, patch: dict[str, Any]) -> None:
        """Merge a patch into an object's spec."""
        self.run("patch", f"{kind}.{GROUP}", "--type=merge", f"--patch={json.dumps(patch)}", "--", name)

    def apply(self, manifest: dict[str, Any], *, manager: str) -> None:
        """Apply a manifest on the server's side under a field manager of its own; what another one owns stays."""
        document = json.dumps(manifest)
        self.run("apply", "--server-side", f"--field-manager={manager}", "--filename=-", stdin=document)

    @functools.cached_property
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

    def allowed(self, verb: str, resource: str, subresource: str = "", *, namespace: str) -> bool:
        """Whether the person holds a verb on a resource of Anabranch, all objects of a namespace."""
        attributes = {"group": GROUP, "verb": verb, "resource": resource, "namespace": namespace}
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": {**attributes, **({"subresource": subresource} if subresource else {})}},
        }
        answer = json.loads(
            self.run("create", "--validate=false", "--filename=-", "--output=json", stdin=json.dumps(review))
        )
        return bool(answer["status"]["allowed"])

    def token(self, service_account: str, *, namespace: str, audience: str) -> str:
        """A short-lived token of a ServiceAccount that the person may mint."""
        arguments = ("create", "token", service_account, f"--namespace={namespace}", f"--audience={audience}")
        return self.run(*arguments).strip()


def error_of(words: str) -> AnabranchError:
    """The error that kubectl's words stand for: forbidden, absent and conflicting are told apart.

    Args:
        words: What it printed on stderr.
    """
    lines = [line for line in words.strip().splitlines() if not _LOG_LINE.match(line)]
    detail = _PREFIX.sub("", "\n".join(lines)).strip() or "kubectl failed, and said nothing."
    for mark, kind, hint in _MEANINGS:
        if mark in words:
            if denied := _DENIED.search(detail):
                detail = denied[1]
            # kubectl explains a conflict of managers at length, with flags that our commands do not have.
            return kind(detail.partition("\nPlease review the fields above")[0], hint=hint)
    return UnavailableError(detail, hint=_ELSE)
