"""A namespace of the running stack with a Baseline in it, and ServiceAccounts that call the API by their own tokens."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import secrets
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.cluster.conftest import grant
from tests.pace import allowed

from anabranch.client import AnabranchClient
from anabranch.model.errors import NotFoundError
from anabranch.model.objects import Change, Publication
from anabranch.model.requests import BranchRequest

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    import httpx

    from anabranch.devcluster.stack import Stack
    from anabranch.model.objects import BranchManifest

BASELINE = "facts"
RECORDS = {
    "build/cache": ("shared", "Warm the cache first."),
    "build/exit-137": ("team/build", "The cause is unknown."),
    "setup/python": ("shared", "Install 3.11."),
}


@dataclass
class Place:
    """A namespace and who is in it.

    Attributes:
        stack: The running stack.
        namespace: A fresh one.
    """

    stack: Stack
    namespace: str = field(default_factory=lambda: f"api-{secrets.token_hex(4)}")
    _tokens: dict[str, str] = field(default_factory=dict)
    _open: AsyncExitStack = field(default_factory=AsyncExitStack)

    async def close(self) -> None:
        await self._open.aclose()
        self.kubectl("delete", "namespace", self.namespace, "--wait=false", scoped=False)

    def kubectl(self, *arguments: str, stdin: str | None = None, scoped: bool = True) -> str:
        where = (f"--namespace={self.namespace}",) if scoped else ()
        return self.stack.cluster.kubectl(*arguments, *where, stdin=stdin)

    def apply(self, kind: str, name: str, spec: Mapping[str, Any]) -> None:
        metadata = {"name": name, "namespace": self.namespace}
        self.stack.cluster.apply(
            [{"apiVersion": "anabranch.dev/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec}]
        )

    def baseline(self, name: str = BASELINE, records: Mapping[str, tuple[str, Any]] | None = None, **spec: Any) -> None:
        """Apply a Baseline of some records by key, each with its scope, and wait until it is ready."""
        lines = [
            json.dumps({"key": key, "scope": scope, "content": content})
            for key, (scope, content) in (RECORDS if records is None else records).items()
        ]
        data = {"facts.jsonl": "".join(f"{line}\n" for line in lines)}
        metadata = {"name": name, "namespace": self.namespace}
        self.stack.cluster.apply([{"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}])
        self.apply("Baseline", name, {"import": {"configMap": {"name": name}}, **spec})
        self.kubectl("wait", "--for=condition=Ready", f"baseline/{name}", "--timeout=110s")

    async def archive_missing(self, baseline: str) -> None:
        """Wait until a Baseline that was applied waits for its archive: from then on that may be uploaded."""
        reason = r'jsonpath={.status.conditions[?(@.type=="Reconciling")].reason}=ArchiveMissing'
        await asyncio.to_thread(self.kubectl, "wait", f"--for={reason}", f"baseline/{baseline}", "--timeout=60s")

    def account(self, name: str, *grants: str) -> str:
        """A ServiceAccount with ClusterRoles, or rules as ``verbs resources``; gives its token."""
        subject = {"kind": "ServiceAccount", "name": name, "namespace": self.namespace}
        metadata = {"name": name, "namespace": self.namespace}
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}
        self.stack.cluster.apply([account, *grant(self.namespace, subject, *grants)])
        if name not in self._tokens:
            self._tokens[name] = self.stack.token(self.namespace, name)
        return self._tokens[name]

    def allow(self, name: str, resource: str, verb: str, *names: str) -> None:
        """Give an account one verb on some objects of one resource."""
        metadata = {"name": f"only-{secrets.token_hex(4)}", "namespace": self.namespace}
        rule = {"apiGroups": ["anabranch.dev"], "resources": [resource], "verbs": [verb], "resourceNames": names}
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": metadata["name"]}
        subject = {"kind": "ServiceAccount", "name": name, "namespace": self.namespace}
        version = "rbac.authorization.k8s.io/v1"
        self.stack.cluster.apply(
            [
                {"apiVersion": version, "kind": "Role", "metadata": metadata, "rules": [rule]},
                {
                    "apiVersion": version,
                    "kind": "RoleBinding",
                    "metadata": metadata,
                    "roleRef": role,
                    "subjects": [subject],
                },
            ]
        )

    async def client(self, name: str, *grants: str) -> AnabranchClient:
        """A client as an account; it is made with these grants if it is not there."""
        token = self.account(name, *grants) if name not in self._tokens or grants else self._tokens[name]
        return await self._open.enter_async_context(AnabranchClient(self.stack.api_url, token=token))

    async def raw(self, client: AnabranchClient | None, method: str, path: str, **options: Any) -> httpx.Response:
        """One request as it is, its answer as it is; the path goes below the place's namespace."""
        if client is None:
            client = await self._open.enter_async_context(AnabranchClient(self.stack.api_url))
        url = path if path.startswith("/") else f"/v1/namespaces/{self.namespace}/{path}"
        return await client._http.request(method, url, **options)

    async def branch(self, client: AnabranchClient, **request: Any) -> BranchManifest:
        """A fresh branch of a client's own."""
        request = {"name": f"run-{secrets.token_hex(4)}", "baseline": BASELINE, **request}
        made = await client.create_branch(self.namespace, BranchRequest(**request))

        async def seen() -> bool:
            nonlocal made
            if made.phase == "Pending":  # the operator has begun a moment ago, say, and does not lead yet
                with contextlib.suppress(NotFoundError):
                    made = await client.branch(self.namespace, request["name"])
            return made.phase != "Pending"

        await eventually(seen)
        assert made.phase == "Active", made
        return made

    async def submit(  # what a finding is made of
        self,
        client: AnabranchClient,
        branch: BranchManifest,
        *changes: Change,
        base: str = "0",
        sequence: int = 1,
        content: bytes = b"",
    ) -> Any:
        """Submit changes with evidence for them: this, or some that nobody else has."""
        evidence = await client.put_evidence(self.namespace, branch.branch_id, content or secrets.token_bytes(8))
        return await client.submit_batch(
            self.namespace,
            branch.branch_id,
            sequence=sequence,
            changes=changes,
            sources=[[evidence]] * len(changes),
            base_revisions=[base] * len(changes),
        )

    async def publication(self, client: AnabranchClient, branch: BranchManifest, sequence: int = 1) -> Publication:
        """How a batch ended."""

        async def ended() -> Publication | None:
            answer = await client.batch(self.namespace, branch.branch_id, sequence)
            return answer if isinstance(answer, Publication) else None

        return await eventually(ended)


def finding(key: str, content: Any, *, scope: str = "shared", visibility: str = "shareable") -> Change:
    return Change(key=key, content=content, scope=scope, visibility=visibility)


def told(answer: httpx.Response, ref: str) -> str:
    """What an answer says, whatever it was asked about and whichever request it was."""
    return re.sub(r'"request_id":"[^"]*"', "", answer.text).replace(ref, "REF")


async def eventually(look: Callable[[], Awaitable[Any]], *, within: float | None = None) -> Any:
    """What a look gives once it gives anything: in a minute, but for a machine that has too much to do."""
    began = time.monotonic()
    while not (found := await look()):
        waited = time.monotonic() - began
        name = getattr(look, "__qualname__", look)
        assert waited < (allowed(60) if within is None else within), f"{name} gave {found!r} for {waited:.0f} s"
        await asyncio.sleep(0.1)
    return found
