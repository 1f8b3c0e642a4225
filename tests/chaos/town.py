"""A namespace with two Baselines, everybody who is in it, and what they know of each other."""

from __future__ import annotations

import asyncio
import json
import random
import re
import secrets
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import httpx
from tests.cluster.conftest import grant

from anabranch.client import AnabranchClient

if TYPE_CHECKING:
    from tests.chaos.history import History
    from tests.chaos.stage import Stage

    from anabranch.model.objects import BranchManifest

CALM: Final = "calm"
STRICT: Final = "strict"
BASELINES: Final = {CALM: {"mode": "Automatic"}, STRICT: {"mode": "Manual"}}
"""Their review policies: by one, most findings go through by themselves; by the other, none does."""

SHARED: Final = "shared"
HIDDEN: Final = "team/hidden"

CONTENDED: Final = tuple(f"common/{number}" for number in range(8))
"""Keys that everybody writes to."""

SECRET: Final = re.compile(rb"secret of ([a-z0-9-]+)")
TOKEN_SECONDS: Final = 864_000
"""More than a clock may go wrong by."""
TIMEOUT: Final = 4.0
"""Seconds that a client waits for an answer: enough for a busy machine, and few where none ever comes."""

ATTEMPTS: Final = 2
"""How often a client tries by itself: who insists makes each attempt an entry."""


@dataclass
class Town:
    """A namespace of a stage.

    Attributes:
        stage: Where it is.
        history: What is said in it.
        seed: Each of its people draws from it and from the own name.
        namespace: A fresh one.
        branches: Whose they are, by name of the agent.
        generations: Seen so far, of each Baseline.
        ending: Set when nobody is to begin anything new.
    """

    stage: Stage
    history: History
    seed: str
    namespace: str = field(default_factory=lambda: f"chaos-{secrets.token_hex(4)}")
    branches: list[tuple[str, BranchManifest]] = field(default_factory=list)
    generations: dict[str, set[int]] = field(default_factory=lambda: {name: {1} for name in BASELINES})
    ending: asyncio.Event = field(default_factory=asyncio.Event)
    _tokens: dict[str, str] = field(default_factory=dict)
    _open: list[AnabranchClient] = field(default_factory=list)

    def chance(self, who: str) -> random.Random:
        return random.Random(f"{self.seed}/{who}")

    def found(self) -> None:
        """Make the namespace, its Baselines and their first records; it blocks."""
        stack = self.stage.stack
        stack.make_namespace(self.namespace)
        records = [(key, SHARED) for key in CONTENDED] + [(f"known/{number:02}", SHARED) for number in range(70)]
        lines = [json.dumps({"key": key, "scope": scope, "content": f"first of {key}"}) for key, scope in records]
        lines.append(json.dumps({"key": "hidden/first", "scope": HIDDEN, "content": "for the team"}))
        metadata = {"namespace": self.namespace}
        data = {"facts.jsonl": "".join(f"{line}\n" for line in lines)}
        stack.cluster.apply(
            [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "facts", **metadata}, "data": data}]
            + [
                {
                    "apiVersion": "anabranch.dev/v1alpha1",
                    "kind": "Baseline",
                    "metadata": {"name": name, **metadata},
                    "spec": {
                        "import": {"configMap": {"name": "facts"}},
                        "review": review,
                        "retention": {"generations": 1000, "age": "1d"},
                    },
                }
                for name, review in BASELINES.items()
            ]
        )
        self.kubectl("wait", "--for=condition=Ready", "baselines", "--all", "--timeout=60s")

    def kubectl(self, *arguments: str) -> str:
        return self.stage.stack.cluster.kubectl(*arguments, f"--namespace={self.namespace}", timeout=20)

    async def admit(self, people: dict[str, tuple[str, ...]]) -> None:
        """Make ServiceAccounts with their grants, and a token of each, all at once."""
        applied = []
        for name, grants in people.items():
            metadata = {"name": name, "namespace": self.namespace}
            subject = {"kind": "ServiceAccount", **metadata}
            applied += [{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}]
            applied += grant(self.namespace, subject, *(each for each in grants if "=" not in each))
            for each in grants:
                if "=" in each:
                    applied += self._only(subject, each)
        await asyncio.to_thread(self.stage.stack.cluster.apply, applied)
        wanted = {"spec": {"audiences": [self.stage.stack.audience], "expirationSeconds": TOKEN_SECONDS}}
        async with self.stage.kube() as kube:
            for name in people:
                place = f"/api/v1/namespaces/{self.namespace}/serviceaccounts/{name}/token"
                answer = (await kube.post(place, json=wanted)).raise_for_status()
                self._tokens[name] = answer.json()["status"]["token"]

    def _only(self, subject: dict[str, str], grant_: str) -> list[dict[str, Any]]:
        """A grant on one object: ``verb resource=name``."""
        verb, _, what = grant_.partition(" ")
        resource, _, name = what.partition("=")
        metadata = {"name": f"only-{secrets.token_hex(4)}", "namespace": self.namespace}
        rule = {"apiGroups": ["anabranch.dev"], "resources": [resource], "verbs": [verb], "resourceNames": [name]}
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": metadata["name"]}
        version = "rbac.authorization.k8s.io/v1"
        return [
            {"apiVersion": version, "kind": "Role", "metadata": metadata, "rules": [rule]},
            {
                "apiVersion": version,
                "kind": "RoleBinding",
                "metadata": metadata,
                "roleRef": role,
                "subjects": [subject],
            },
        ]

    def client(self, name: str) -> AnabranchClient:
        """A client as somebody who was admitted; each answer is searched for the secrets of others."""
        client = AnabranchClient(self.stage.service.url, token=self._tokens[name], timeout=TIMEOUT)
        client._attempts = ATTEMPTS

        async def search(response: httpx.Response) -> None:
            if not response.headers.get("content-type", "").startswith("text/event-stream"):
                for owner in {found.decode() for found in SECRET.findall(await response.aread())} - {name}:
                    where = f"{response.request.method} {response.request.url.path}"
                    self.history.see(name, "secret", owner=owner, where=where)

        client._http.event_hooks["response"].append(search)
        self._open.append(client)
        return client

    async def patch(self, kind: str, name: str, spec: dict[str, Any], *, person: str = "") -> bool:
        """Change the spec of a resource, as a person or as the admin; whether that is known to have happened."""
        place = f"/apis/anabranch.dev/v1alpha1/namespaces/{self.namespace}/{kind}/{name}"
        headers = {"Content-Type": "application/merge-patch+json"}
        if person:
            headers["Impersonate-User"] = self.user(person)
        try:
            async with self.stage.kube() as kube:
                answer = await kube.patch(place, headers=headers, content=json.dumps({"spec": spec}))
        except httpx.TransportError:
            return False
        return answer.is_success

    def user(self, name: str) -> str:
        return f"system:serviceaccount:{self.namespace}:{name}"

    async def close(self) -> None:
        for client in self._open:
            await client.close()
        async with self.stage.kube() as kube:
            await kube.delete(f"/api/v1/namespaces/{self.namespace}")
