"""Puts Anabranch's resources on a cluster, and takes away again what it put there, on a cluster that is someone else's.

What is made here carries its owner's mark. Only what carries the same mark is ever changed or deleted, whichever run
made it, so a run that was killed is cleaned up by the next; another installation on the same cluster is never touched.
"""

from __future__ import annotations

import copy
import json
import time
from typing import TYPE_CHECKING, Any

from anabranch.devcluster.errors import DevclusterError

if TYPE_CHECKING:
    from anabranch.devcluster.cluster import Cluster

MARK = "anabranch.dev/local-stack"
"""The label of everything that is made here; its value is the owner."""

DELETION = "120s"
"""How long the deletion of everything may take: namespaces are emptied first."""

SERVING_SECONDS = 60
"""How long an API server may take from a definition to serving it."""

Manifest = dict[str, Any]


def install(cluster: Cluster, *, owner: str, definitions: list[Manifest], others: list[Manifest]) -> None:
    """Applies the custom resource definitions and everything else, and waits until the definitions are served.

    Definitions that are there already, from someone else, stay as they are.

    Raises:
        DevclusterError: Something else is there already, from another owner: another installation.
    """
    found = _existing(cluster, [*others, *definitions])
    theirs = {_name(manifest) for manifest in found if not _is_owned(manifest, owner)}
    if taken := [_name(manifest) for manifest in others if _name(manifest) in theirs]:
        raise DevclusterError(
            f"The cluster already has an Anabranch of another owner: {taken[0]} exists.",
            hint="Use another cluster, or uninstall that one.",
        )
    ours = [manifest for manifest in definitions if _name(manifest) not in theirs]
    cluster.apply([_marked(manifest, owner) for manifest in [*ours, *others]])
    wait_until_served(cluster, [manifest["metadata"]["name"] for manifest in definitions])


def wait_until_served(cluster: Cluster, definitions: list[str]) -> None:
    """Waits until objects of each definition, by its name, can be listed.

    A definition says that it is established a moment before it is served, and one that is deleted within that moment
    may take the API server minutes: it cannot list what is to be deleted with it, and backs off between its tries.

    Raises:
        DevclusterError: That did not come.
    """
    if not definitions:
        return
    deadline = time.monotonic() + SERVING_SECONDS
    established = [f"crd/{name}" for name in definitions]
    cluster.kubectl("wait", "--for=condition=Established", f"--timeout={SERVING_SECONDS}s", *established)
    while True:
        try:
            cluster.kubectl("get", ",".join(definitions), "--all-namespaces", "--output=name")
        except DevclusterError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)
        else:
            return


def uninstall(cluster: Cluster, *, owner: str, definitions: list[Manifest], others: list[Manifest]) -> None:
    """Deletes of these manifests what an owner made; what is not there is no error."""
    made = [manifest for manifest in _existing(cluster, [*definitions, *others]) if _is_owned(manifest, owner)]
    if made:
        document = _list(list(reversed(made)))
        cluster.kubectl("delete", "--ignore-not-found", f"--timeout={DELETION}", "--filename=-", stdin=document)


def make_namespace(cluster: Cluster, name: str, *, owner: str) -> None:
    """Makes a namespace that :func:`delete_namespaces` deletes, unless there is one of that name."""
    manifest = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    if not _existing(cluster, [manifest]):
        cluster.apply([_marked(manifest, owner)])


def delete_namespaces(cluster: Cluster, *, owner: str, but: str) -> None:
    """Deletes every namespace that an owner made except one, with all that is in it, and waits for that.

    Args:
        cluster: Where.
        owner: Whose.
        but: One that stays.
    """
    found = cluster.get("namespaces", f"--selector={MARK}={owner}")["items"]
    if names := [item["metadata"]["name"] for item in found if item["metadata"]["name"] != but]:
        cluster.kubectl("delete", "namespace", "--ignore-not-found", f"--timeout={DELETION}", *names)


def _existing(cluster: Cluster, manifests: list[Manifest]) -> list[Manifest]:
    """Those of the manifests that the cluster has, as it has them."""
    if not manifests:
        return []
    arguments = ("get", "--ignore-not-found", "--output=json", "--filename=-")
    text = cluster.kubectl(*arguments, stdin=_list(manifests))
    if not text.strip():
        return []
    found = json.loads(text)
    items: list[Manifest] = found["items"] if found["kind"] == "List" else [found]
    return items


def _marked(manifest: Manifest, owner: str) -> Manifest:
    marked = copy.deepcopy(manifest)
    marked["metadata"].setdefault("labels", {})[MARK] = owner
    return marked


def _is_owned(manifest: Manifest, owner: str) -> bool:
    return bool(manifest["metadata"].get("labels", {}).get(MARK) == owner)


def _name(manifest: Manifest) -> str:
    metadata = manifest["metadata"]
    return f"{manifest['kind']} {metadata.get('namespace', '')}/{metadata['name']}".replace(" /", " ")


def _list(manifests: list[Manifest]) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": manifests})
