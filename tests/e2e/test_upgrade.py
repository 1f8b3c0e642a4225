"""A rolling upgrade from the release before: agents lose nothing, and what was published is as it was.

The one before is the last commit with an older schema, so a real migration runs on a database with data; where the
clone does not reach back to it, it is this release under another version (`previous.py`).
"""

from __future__ import annotations

from tests.e2e import previous
from tests.e2e.teams import BASELINE, TEAM

from anabranch.store import migrate


def test_agents_that_go_on_meanwhile_lose_no_batch(team, upgrade):
    if upgrade.before.rolls:  # else nobody answers between the migration and the first new API, for longer perhaps
        assert upgrade.load.report["failed"] == {}  # than a client tries by itself
    team.check_published_once(upgrade.load)


def test_the_schema_is_the_new_one(release, upgrade):
    (job,) = release.of("migrate", kind="jobs")
    assert job["metadata"]["uid"] not in upgrade.jobs
    assert job["status"]["succeeded"] == 1
    assert release.schema() == f"The database is at schema {migrate.head()}."
    assert (upgrade.schema != release.schema()) is upgrade.before.migrates


def test_what_was_published_is_as_it_was(team, upgrade):
    memory = team.memory()
    assert memory["manifests"].items() >= upgrade.memory["manifests"].items()
    assert memory["events"][: len(upgrade.memory["events"])] == upgrade.memory["events"]
    team.run("build-agent", "anabranch", "baseline", "verify", BASELINE, f"--namespace={TEAM}")


def test_no_program_of_the_release_before_is_left(release):
    pods = [
        pod for part in ("api", "operator") for pod in release.of(part) if "deletionTimestamp" not in pod["metadata"]
    ]
    versions = {container["image"].rpartition(":")[2] for pod in pods for container in pod["spec"]["containers"]}
    assert len(versions) == 1
    assert previous.VERSION not in versions
