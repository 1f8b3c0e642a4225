"""The API as it runs in an installation, before a database of the stage: its own process, its own ServiceAccount.

The cluster is a real kube-apiserver with this release's roles; agents have ServiceAccounts and tokens of their own, so
each request's token goes through TokenReview and each grant through SubjectAccessReview, with the caches that are there
in production. Branches are forked straight in the store: no operator runs beside what is measured.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from anabranch.devcluster import accounts, children, choose, installation
from anabranch.devcluster.ports import answers, start_on
from anabranch.devcluster.processes import Processes, Program
from anabranch.kube.client import KubeClient
from anabranch.manifests import crds, default_audience, install
from anabranch.manifests.install import API_ACCOUNT, DEFAULT_NAMESPACE
from anabranch.model.ids import LineId, new_branch_id, new_run_id
from anabranch.store import branches, lines
from benchmarks.bare import DSN
from benchmarks.stage import OWNER

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from anabranch.devcluster.cluster import Cluster
    from anabranch.store.branches import BranchRow
    from anabranch.store.database import Database
    from benchmarks.stage import Line, Stage

NAMESPACE = "bench"
"""Of the stage's lines: so Baselines and branches are in it, too."""


@dataclass(frozen=True, slots=True)
class Agent:
    """An agent that calls.

    Attributes:
        name: Of its ServiceAccount.
        token: For the API.
    """

    name: str
    token: str = field(repr=False)

    def request(self, method: str, path: str, body: bytes = b"") -> bytes:
        """A request of its, as bytes."""
        head = [
            f"{method} {path} HTTP/1.1",
            "Host: 127.0.0.1",
            "Accept: */*",
            "User-Agent: anabranch-benchmark",
            f"Authorization: Bearer {self.token}",
        ]
        if body:
            head += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
        return "\r\n".join([*head, "", ""]).encode() + body


@dataclass(frozen=True, slots=True)
class Servers:
    """The servers of a row, each a process; made by `opened`.

    Attributes:
        cluster: Whose API server knows the agents.
        folder: Where they keep everything.
        agents: Who may call.
        started: By name.
    """

    cluster: Cluster
    folder: Path
    agents: Sequence[Agent]
    started: set[str] = field(default_factory=set)

    async def api(self, dsn: str, name: str = "api", **more: str) -> int:
        """Start the API before a database, with more in its environment; its port."""
        account = accounts.Account(namespace=DEFAULT_NAMESPACE, name=API_ACCOUNT, folder=self.folder)
        environment = {
            "ANABRANCH_API_DSN": dsn,
            "ANABRANCH_CURSOR_KEYS": "a key for the cursors of benchmarks",
            "KUBECONFIG": str(account.kubeconfig),
            **more,
        }
        return await self._serve(name, ["anabranch.cli.main", "api", "--port={port}"], environment)

    async def bare(self, dsn: str) -> int:
        """Start the floor of the stack on a database; its port."""
        return await self._serve("bare", ["benchmarks.bare", "{port}"], {DSN: dsn})

    async def collector(self) -> int:
        """Start what takes spans and keeps none; its port."""
        return await self._serve("collector", ["benchmarks.collector", "{port}"], {})

    async def _serve(self, name: str, command: Sequence[str], environment: Mapping[str, str]) -> int:
        processes, file = Processes(self.folder), self.folder / f"{name}-ports.json"

        def start(ports: dict[str, int]) -> None:
            module, *arguments = (word.format(port=ports[name]) for word in command)
            env = children.environment(**environment)
            env["PYTHONPATH"] = os.pathsep.join([env["PYTHONPATH"], str(Path(__file__).parents[1])])
            program = Program(children.command(module, *arguments), env=env)
            processes.start(name, program)
            processes.wait(name, lambda: answers(f"http://127.0.0.1:{ports[name]}/readyz"), name)

        processes.stop(name)
        self.started.add(name)
        await asyncio.to_thread(start_on, file, (name,), start, undo=lambda: processes.stop(name))
        return int(json.loads(file.read_text())[name])


@contextlib.asynccontextmanager
async def opened(stage: Stage, *, agents: int) -> AsyncIterator[Servers]:
    """Servers, and agents that hold the role of an agent in the namespace; all is over at the end."""
    folder = stage.folder / "serving"
    folder.mkdir(exist_ok=True)
    cluster = await asyncio.to_thread(choose.cluster, folder / "cluster")
    started: set[str] = set()
    try:
        names = [f"agent-{number}" for number in range(agents)]
        await asyncio.to_thread(_set_up, cluster, folder, names)
        yield Servers(cluster, folder, await _minted(cluster, names), started)
    finally:
        for name in started:
            Processes(folder).stop(name)
        if cluster.kind == "given":
            installation.delete_namespaces(cluster, owner=OWNER, but=DEFAULT_NAMESPACE)
            installation.uninstall(cluster, owner=OWNER, definitions=crds(), others=install())
        choose.remove_cluster(folder / "cluster", cluster)


async def forked(db: Database, line: str, agents: Sequence[Agent]) -> list[BranchRow]:
    """A new branch of the line for each agent."""
    made = []
    async with db.connection() as conn:
        for agent in agents:
            branch_id = new_branch_id(LineId(line))
            made.append(
                await branches.fork(
                    conn,
                    line=line,
                    branch_id=branch_id,
                    run_id=new_run_id(LineId(line)),
                    namespace=NAMESPACE,
                    name=f"run-{branch_id[-20:]}".replace("_", "-"),
                    uid=branch_id,
                    observed_generation=1,
                    agent_id=agent.name,
                    agent_instance="default",
                    service_account=agent.name,
                    task="",
                    sharing_policy={"default": "shareable", "scopes": [], "export_private": False},
                    generation=None,
                )
            )
    return made


async def name_of(line: Line) -> str:
    """The name of a line's Baseline."""
    async with line.db.connection() as conn:
        return (await lines.get(conn, line.line)).line.name


def _set_up(cluster: Cluster, folder: Path, names: Sequence[str]) -> None:
    installation.install(cluster, owner=OWNER, definitions=crds(), others=install())
    accounts.set_up(cluster, namespace=DEFAULT_NAMESPACE, name=API_ACCOUNT, folder=folder)
    installation.make_namespace(cluster, NAMESPACE, owner=OWNER)
    subjects = [{"kind": "ServiceAccount", "name": name, "namespace": NAMESPACE} for name in names]
    cluster.apply(
        [
            *(
                {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": NAMESPACE}}
                for name in names
            ),
            {
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "RoleBinding",
                "metadata": {"name": "agents", "namespace": NAMESPACE},
                "roleRef": {
                    "apiGroup": "rbac.authorization.k8s.io",
                    "kind": "ClusterRole",
                    "name": "anabranch-agent",
                },
                "subjects": subjects,
            },
        ]
    )


async def _minted(cluster: Cluster, names: Sequence[str]) -> list[Agent]:
    """The agents, with a token each: by one connection, for a command each would take longer than what is measured."""
    spec = {"audiences": [default_audience(DEFAULT_NAMESPACE)], "expirationSeconds": 3_600}
    client = await KubeClient.open(str(cluster.kubeconfig))
    try:
        path = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/%s/token"
        answers = [await client.call("POST", path % name, body={"spec": spec}) for name in names]
    finally:
        await client.close()
    return [Agent(name, answer["status"]["token"]) for name, answer in zip(names, answers, strict=True)]
