"""A new installation, where none has been: it becomes ready, and what it prints can be typed."""

from __future__ import annotations

from tests.e2e.releases import NAME


def test_what_it_prints_after_the_installation_can_be_typed(release):
    # No volume: that of the release before holds its data.
    release.install("--set=database.trial.storageSize=")
    (pod,) = release.of("migrate")
    assert [status["restartCount"] for status in pod["status"]["containerStatuses"]] == [0], "it waits for the database"

    notes = release.helm("get", "notes", NAME)
    release.cluster.kubectl("create", "namespace", "newcomers")
    lines = [line.strip() for line in notes.splitlines() if line.strip().startswith(("kubectl ", "helm "))]
    said = [release.by_hand(line.replace("TEAM", "newcomers").replace("GROUP", "people")) for line in lines]
    assert "condition met" in said[0]
    assert "Phase:          Succeeded" in said[1]
    assert "accepted by the API" in said[1]
    assert len(said) == 4
