"""What is left of a release when it has gone: what the document says, and all memory; then nothing."""

from __future__ import annotations

import re

from tests.e2e.releases import DOCUMENTS, NAMESPACE, Release, until
from tests.e2e.teams import BASELINE, TEAM

KEPT = {
    *(("CustomResourceDefinition", f"{each}.anabranch.dev") for each in ("baselines", "branches", "consolidationjobs")),
    *(("Secret", f"anabranch-database-{role}") for role in ("admin", "operator", "api", "migrate")),
    ("PersistentVolumeClaim", "data-anabranch-database-0"),
}
"""What docs/uninstall.md says stays of this release."""

GROUP = ("APIService", "v1alpha1.anabranch.dev")
"""What the API server makes of the definitions, and takes away with them."""

OTHERS = {"Node", "CSINode", "Event"}
"""Kinds of the cluster's own objects that are called as the node is, and what the past has left."""


def test_an_uninstallation_leaves_what_the_document_says_and_all_memory(release, team):
    before = team.memory()
    assert team.get("baseline", BASELINE)["metadata"]["finalizers"]
    release.uninstall()
    assert "finalizers" not in team.get("baseline", BASELINE)["metadata"]
    check_left(release, KEPT)

    # The same name, namespace and database, by the other Helm, and for this team alone: all goes on where it was.
    release.install(f"--set=operator.namespaces={{{TEAM}}}", program="helm3")
    until("the Baseline", lambda: team.get("baseline", BASELINE)["metadata"].get("finalizers"))
    team.start_agents()
    again = team.memory()
    assert (again["manifests"], again["records"]) == (before["manifests"], before["records"])
    with team.load("again") as load:
        pass
    team.check_published_once(load)


def test_the_lines_of_the_document_delete_the_rest(release):
    release.uninstall(program="helm3")
    check_left(release, KEPT)
    for line in re.findall(r"`(kubectl delete [^`]+)`", (DOCUMENTS / "uninstall.md").read_text()):
        if "cnpg" not in line and "certificate" not in line and "namespace" not in line:
            release.by_hand(line + ("" if "delete crd" in line else f" --namespace={NAMESPACE}"))
    check_left(release, set())


def check_left(release: Release, wanted: set[tuple[str, str]]) -> None:
    """Checks what there is of the cluster's and in the namespace, by the release's label and by our name."""
    # Helm and kubectl do not wait for what ends with what they have deleted, such as pods.
    going = {"Pod"} if wanted else {"Pod", "APIService"}
    until("the end of the pods", lambda: not any(kind in going for kind, _ in ours(release)))
    assert everything(release, "--selector=app.kubernetes.io/instance=anabranch") == wanted
    assert ours(release) == (wanted | {GROUP} if wanted else set())


def ours(release: Release) -> set[tuple[str, str]]:
    """Kind and name of all that is called as our objects are."""
    found = {(kind, name) for kind, name in everything(release) if "anabranch" in name and kind not in OTHERS}
    return found - {("Namespace", NAMESPACE)}


def everything(release: Release, *options: str) -> set[tuple[str, str]]:
    """Kind and name of all that the cluster has outside of other namespaces."""
    listable = release.cluster.kubectl("api-resources", "--verbs=list", "--output=name").split()
    kinds = ",".join(each for each in listable if not each.endswith(("metrics.k8s.io", ".anabranch.dev")))
    items = release.cluster.get(kinds, "--all-namespaces", *options)["items"]
    return {
        (item["kind"], item["metadata"]["name"])
        for item in items
        if item["metadata"].get("namespace") in (None, NAMESPACE)
    }
