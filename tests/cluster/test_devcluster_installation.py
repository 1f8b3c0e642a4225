"""Installing on a cluster and leaving it as it was: on one of its own, since it is about what the whole cluster has."""

from __future__ import annotations

import copy
import json

import pytest

from anabranch import manifests
from anabranch.devcluster import controlplane, ephemeral, installation
from anabranch.devcluster.errors import DevclusterError

DEFINITIONS = manifests.crds()
OTHERS = manifests.install(namespace="anabranch-system", audience="anabranch.anabranch-system")
KINDS = "crd,clusterroles,clusterrolebindings,validatingadmissionpolicies,validatingadmissionpolicybindings,namespaces"


@pytest.fixture(scope="module")
def own_cluster(cluster):
    if cluster.kind != "local":
        pytest.skip("the control plane is not built where there is another cluster")
    with ephemeral.folder() as folder:
        yield controlplane.up(folder / "cluster")


@pytest.fixture
def clean(own_cluster):
    yield own_cluster
    found = own_cluster.get("crd")["items"]
    installation.wait_until_served(own_cluster, [item["metadata"]["name"] for item in found])
    document = json.dumps({"apiVersion": "v1", "kind": "List", "items": [*DEFINITIONS, *reversed(OTHERS)]})
    own_cluster.kubectl("delete", "--ignore-not-found", "--filename=-", stdin=document)


def names(cluster):
    return set(cluster.kubectl("get", KINDS, "--output=name").split())


def test_after_an_installation_and_its_removal_the_cluster_has_what_it_had(clean):
    before = names(clean)
    installation.install(clean, owner="us", definitions=DEFINITIONS, others=OTHERS)
    installation.make_namespace(clean, "team-a", owner="us")
    assert len(names(clean) - before) > len(DEFINITIONS) + 1
    assert clean.kubectl("get", "baselines", "--all-namespaces", "--output=name") == ""

    installation.delete_namespaces(clean, owner="us", but="anabranch-system")
    installation.uninstall(clean, owner="us", definitions=DEFINITIONS, others=OTHERS)
    assert names(clean) == before


def test_installing_twice_changes_nothing(clean):
    def versions():
        return [item["metadata"]["resourceVersion"] for item in clean.get("crd,clusterroles")["items"]]

    installation.install(clean, owner="us", definitions=DEFINITIONS, others=OTHERS)
    first = versions()
    installation.install(clean, owner="us", definitions=DEFINITIONS, others=OTHERS)
    assert versions() == first


def test_definitions_that_someone_else_installed_are_left_as_they_are_and_stay(clean):
    theirs = copy.deepcopy(DEFINITIONS)
    for definition in theirs:
        definition["metadata"].setdefault("annotations", {})["owner"] = "someone else"
    clean.apply(theirs)
    definition = f"crd/{DEFINITIONS[0]['metadata']['name']}"
    before = clean.get(definition)["metadata"]["generation"], clean.get(definition)["metadata"].get("labels")

    installation.install(clean, owner="us", definitions=DEFINITIONS, others=OTHERS)
    installation.uninstall(clean, owner="us", definitions=DEFINITIONS, others=OTHERS)

    metadata = clean.get(definition)["metadata"]
    assert (metadata["generation"], metadata.get("labels")) == before
    assert metadata["annotations"]["owner"] == "someone else"


@pytest.mark.parametrize("how", ["helm", "another stack"])
def test_another_installation_is_neither_changed_nor_removed(clean, how):
    if how == "helm":
        clean.apply(DEFINITIONS)
        clean.apply(OTHERS)
    else:
        installation.install(clean, owner="them", definitions=DEFINITIONS, others=OTHERS)
    before = names(clean)
    with pytest.raises(DevclusterError, match="already has an Anabranch of another owner"):
        installation.install(clean, owner="us", definitions=DEFINITIONS, others=OTHERS)
    installation.uninstall(clean, owner="us", definitions=DEFINITIONS, others=OTHERS)
    assert names(clean) == before


def test_a_namespace_that_was_there_before_is_not_deleted(clean):
    clean.kubectl("create", "namespace", "theirs")
    installation.make_namespace(clean, "theirs", owner="us")
    installation.make_namespace(clean, "ours", owner="us")
    installation.delete_namespaces(clean, owner="us", but="anabranch-system")
    left = names(clean)
    assert "namespace/theirs" in left
    assert "namespace/ours" not in left
