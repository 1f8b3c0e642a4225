"""Puts Anabranch's resources on a cluster, and takes away again what it put there, on a cluster that is someone else's.

What is made here carries a mark. Only marked things are ever deleted, whoever made them before, and another
installation on the same cluster is never touched.
"""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING, Any

from anabranch.devcluster.errors import DevclusterError

if TYPE_CHECKING:
    from anabranch.devcluster.cluster import Cluster

MARK = "anabranch.dev/made-by"
MAKER = "devcluster"

DELETION = "120s"
"""How long the deletion of everything may take: namespaces are emptied first."""

Manifest = dict[str, Any]


def install(cluster: Cluster, *, definitions: list[Manifest], others: list[Manifest]) -> None:
    """Applies the custom resource definitions and everything else, and waits until the definitions are served.

    Definitions that are there already, from someone else, stay as they are.

    Raises:
        DevclusterError: Something else is there already and was not made here: another installation.
    """
    theirs = [manifest for manifest in _existing(cluster, others) if not _is_marked(manifest)]
    if theirs:
        raise DevclusterError(
            f"The cluster already has an Anabranch that was not made here: {_name(theirs[0])} exists.",
            hint="Use another cluster, or uninstall that one.",
        )
    kept = {_name(manifest) for manifest in _existing(cluster, definitions) if not _is_marked(manifest)}
    cluster.apply([_marked(manifest) for manifest in definitions if _name(manifest) not in kept])
    served = [f"crd/{manifest['metadata']['name']}" for manifest in definitions]
    cluster.kubectl("wait", "--for=condition=Established", "--timeout=60s", *served)
    cluster.apply([_marked(manifest) for manifest in others])


def uninstall(cluster: Cluster, *, definitions: list[Manifest], others: list[Manifest]) -> None:
    """Deletes of these manifests what was made here; what is not there is no error."""
    made = [manifest for manifest in _existing(cluster, [*definitions, *others]) if _is_marked(manifest)]
    if made:
        document = _list(list(reversed(made)))
        cluster.kubectl("delete", "--ignore-not-found", f"--timeout={DELETION}", "--filename=-", stdin=document)


def make_namespace(cluster: Cluster, name: str) -> None:
    """Makes a namespace that :func:`delete_namespaces` deletes, unless there is one of that name."""
    manifest = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    if not _existing(cluster, [manifest]):
        cluster.apply([_marked(manifest)])


def delete_namespaces(cluster: Cluster, *, but: str) -> None:
    """Deletes every namespace that was made here except one, with all that is in it, and waits for that.

    Args:
        cluster: Where.
        but: The system namespace: the operator must still run while the others go, or its finalizers hold them.
    """
    found = cluster.get("namespaces", f"--selector={MARK}={MAKER}")["items"]
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


def _marked(manifest: Manifest) -> Manifest:
    marked = copy.deepcopy(manifest)
    marked["metadata"].setdefault("labels", {})[MARK] = MAKER
    return marked


def _is_marked(manifest: Manifest) -> bool:
    return bool(manifest["metadata"].get("labels", {}).get(MARK) == MAKER)


def _name(manifest: Manifest) -> str:
    metadata = manifest["metadata"]
    return f"{manifest['kind']} {metadata.get('namespace', '')}/{metadata['name']}".replace(" /", " ")


def _list(manifests: list[Manifest]) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": manifests})
