"""What agents lose while the pods of a release are replaced and killed: nothing that was acknowledged."""

from __future__ import annotations

from tests.e2e import releases
from tests.e2e.releases import NAMESPACE, Release, until


def test_the_api_rolls_under_load_without_a_failed_batch(release, team):
    old = set(release.pods("api"))
    with team.load("rolled") as load:
        release.kubectl("rollout", "restart", "deployment/anabranch-api")
        release.kubectl("rollout", "status", "deployment/anabranch-api", "--timeout=240s")
        until("the end of the old pods", lambda: not old & set(release.pods("api")))
    assert load.report["failed"] == {}
    # A connection that ends with its pod may end in the moment in which it is used again; no answer is an error.
    assert set(load.report["tried_again"]) <= {"ConnectError", "RemoteProtocolError", "ReadError", "503"}
    team.check_published_once(load)


def test_work_goes_on_when_pods_are_killed_and_nothing_is_published_twice(release, team):
    with team.load("killed", insist=True) as load:
        for part in ("operator", "api"):
            victim = leader(release) if part == "operator" else release.pods("api", ending=False)[0]
            release.kubectl("delete", "pod", victim, "--grace-period=0", "--force", "--wait=false")
            until(f"the end of {victim}", lambda gone=victim, part=part: gone not in release.pods(part))
            release.ready()
        # As in a crash: nobody is waited for, and the log is replayed.
        before = restarts(release)
        release.kubectl("exec", releases.DATABASE, "--", "pg_ctl", "stop", "--mode=immediate", "--no-wait")
        until("the end of the database", lambda: restarts(release) > before)
        release.kubectl("wait", "--for=condition=Ready", f"pod/{releases.DATABASE}", "--timeout=240s")
        # And by a new pod, which finds the volume.
        release.kubectl("delete", "pod", releases.DATABASE)
        release.kubectl("rollout", "status", "statefulset/anabranch-database", "--timeout=240s")
        release.ready()
    team.check_published_once(load)


def leader(release: Release) -> str:
    """The operator's pod that leads."""
    lease = release.cluster.get("lease", "anabranch-operator", f"--namespace={NAMESPACE}")["spec"]["holderIdentity"]
    return next(name for name in release.pods("operator", ending=False) if lease.startswith(name))


def restarts(release: Release) -> int:
    """How often the database's container began anew in its pod."""
    (status,) = release.cluster.get("pod", releases.DATABASE, f"--namespace={NAMESPACE}")["status"]["containerStatuses"]
    return int(status["restartCount"])
