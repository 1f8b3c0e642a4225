"""A release on a real node, installed with Helm: it becomes ready, and what it says about itself is so."""

from __future__ import annotations

import pytest
from tests.e2e import database, releases
from tests.e2e.releases import NAME, Release

from anabranch.devcluster import node


@pytest.fixture(scope="module")
def release(node_cluster, loaded_image, run_folder) -> Release:
    """A release, installed under the version before this one and ready."""
    folder = run_folder / "release"
    folder.mkdir()
    archive = folder / "postgres.tar"
    database.save(loaded_image, archive)
    node.load_image(node_cluster, archive)
    archive.unlink()
    repository = loaded_image.name.rpartition(":")[0]
    releases.tag(node_cluster, loaded_image.name, f"{repository}:{releases.PREVIOUS}")
    release = releases.prepare(node_cluster, folder, image=repository, postgres=database.NAME)
    release.install(releases.previous_chart(folder))
    return release


def test_what_it_prints_after_the_installation_can_be_typed(release):
    notes = release.helm("get", "notes", NAME)
    release.cluster.kubectl("create", "namespace", "newcomers")
    lines = [line.strip() for line in notes.splitlines() if line.strip().startswith(("kubectl ", "helm "))]
    said = [release.by_hand(line.replace("TEAM", "newcomers").replace("GROUP", "people")) for line in lines]
    assert "condition met" in said[0]
    assert "Phase:          Succeeded" in said[1]
    assert "accepted by the API" in said[1]
    assert len(said) == 4
