"""A job's resource is made from its row: once, under the name that the row fixes, and never somebody else's."""

import asyncio

import pytest
from tests.unit.rows import JOB, LINE, branch, job

from anabranch.controllers import births as module
from anabranch.controllers.births import Births, resource_of
from anabranch.kube.errors import AlreadyExistsError
from anabranch.model.errors import UnavailableError


class Cluster:
    """The API server's objects by name, and the rows of jobs without a resource."""

    def __init__(self):
        self.objects = {}
        self.unborn = []
        self.tied = []
        self.told = []
        self.error = None
        self.creations = 0

    async def create(self, _kind, body, *, namespace):
        self.creations += 1
        if self.error is not None:
            raise self.error
        name = body["metadata"]["name"]
        if name in self.objects:
            raise AlreadyExistsError(f"{namespace}/{name} exists")
        metadata = {**body["metadata"], "namespace": namespace, "uid": f"uid-{name}", "generation": 1}
        self.objects[name] = {**body, "metadata": metadata}
        return self.objects[name]

    async def get(self, _kind, *, namespace, name):
        assert namespace == "team"
        return self.objects[name]

    def tell(self, about, occurrence):
        self.told.append((about.name, occurrence.reason))

    def connection(self):
        return self

    async def __aenter__(self):
        return None

    async def __aexit__(self, *error):
        return None


@pytest.fixture
def cluster(monkeypatch):
    fake = Cluster()

    async def unborn(_conn, *, limit):
        return fake.unborn[:limit]

    async def set_uid(_conn, *, line, job_id, uid, observed_generation):
        assert (line, observed_generation) == (LINE, 1)
        fake.tied.append((job_id, uid))
        fake.unborn = [row for row in fake.unborn if row.job_id != job_id]

    async def the_branch(_conn, _branch_id):
        return branch().branch

    async def the_line(_conn, _line):
        from tests.unit.rows import baseline

        return baseline(head=1)

    monkeypatch.setattr(module.jobs, "unborn", unborn)
    monkeypatch.setattr(module.jobs, "set_uid", set_uid)
    monkeypatch.setattr(module.branches, "get", the_branch)
    monkeypatch.setattr(module.lines, "get", the_line)
    monkeypatch.setattr(module.backoff, "delay", lambda *_, **__: 60.0)
    return fake


@pytest.fixture
def births(cluster):
    return Births(cluster, cluster, announcer=cluster, changed=lambda: None)


def unborn(**changes):
    return job(uid=None, **changes).job


async def test_a_job_gets_the_resource_that_its_row_tells(cluster, births):
    cluster.unborn = [unborn()]
    await births.look()
    assert cluster.tied == [(JOB, "uid-scout-1")]
    spec = {
        "origin": "Branch",
        "branchRef": {"namespace": "team", "name": "scout"},
        "batches": {"from": 1, "through": 1},
    }
    assert cluster.objects["scout-1"]["spec"] == spec


async def test_a_resource_that_was_made_before_a_crash_is_taken_up(cluster, births):
    cluster.unborn = [unborn()]
    await births._bear(cluster.unborn[0])
    cluster.tied, cluster.unborn = [], [unborn()]
    await births.look()
    assert cluster.tied == [(JOB, "uid-scout-1")]


async def test_somebody_elses_resource_of_that_name_is_left_alone_and_told_of(cluster, births):
    await cluster.create(None, {"metadata": {"name": "scout-1"}, "spec": {"origin": "Import"}}, namespace="team")
    cluster.unborn = [unborn()]
    assert not await births.look()
    assert cluster.tied == []
    assert cluster.told == [("kb", "NameTaken")]


async def test_a_failure_is_not_tried_again_at_once(cluster, births):
    cluster.unborn, cluster.error = [unborn()], UnavailableError("away")
    await births.look()
    await births.look()
    assert cluster.creations == 1


async def test_one_failure_holds_up_no_other_job(cluster, births):
    await cluster.create(None, {"metadata": {"name": "scout-1"}, "spec": {"origin": "Import"}}, namespace="team")
    cluster.unborn = [unborn(), unborn(job_id="job_2", name="scout-2", from_sequence=2, through_sequence=3)]
    await asyncio.wait_for(births.look(), 30)
    assert cluster.tied == [("job_2", "uid-scout-2")]


def test_a_branch_owns_its_jobs_only_within_its_namespace():
    here, elsewhere = (resource_of(unborn(namespace=namespace), branch().branch) for namespace in ("team", "other"))
    assert [owner["name"] for owner in here["metadata"]["ownerReferences"]] == ["scout"]
    assert "ownerReferences" not in elsewhere["metadata"]


def test_a_job_without_a_branch_names_none():
    imported = unborn(origin="Import", branch_id=None, from_sequence=None, through_sequence=None)
    assert resource_of(imported, None)["spec"] == {"origin": "Import"}
