"""The demo's story from pods with their own ServiceAccounts, on a real node: findings, a contradiction, a way back."""

from __future__ import annotations

import json
import re
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from tests.e2e import releases
from tests.e2e.releases import NAMESPACE, Release, until
from tests.e2e.teams import BASELINE, FAILURE, SETUP, TEAM, Team

if TYPE_CHECKING:
    from collections.abc import Iterator

FIX = {"text": "Set `pool: large`."}
RIVAL = {"text": "Link with thin optimization."}
GUIDE = {"text": "Install Python 3.11 and Rust 1.84."}

HERE = f"--namespace={TEAM}"
EVIDENCE = "/tmp/evidence"


def test_agents_in_pods_share_findings_and_a_person_decides_what_contradicts(release, team):
    for agent, branch in (("build-agent", "why-exit-137"), ("docs-agent", "refresh-guide")):
        team.run(agent, "anabranch", "branch", "fork", branch, f"--baseline={TEAM}/{BASELINE}", HERE)

    # A private note, and a finding that goes on by itself.
    team.run("build-agent", "anabranch", "branch", "put", "why-exit-137", "notes/hunch", '"memory?"', HERE)
    assert "receipt" in submit(team, "build-agent", "why-exit-137", FAILURE, FIX, "--scope=team/build")
    team.published("build-agent", "why-exit-137", 1)

    # The other agent, which forked before, follows the feed; what is private stays so.
    memory = team.script("docs-agent", "memory")
    assert ["published", FAILURE] in memory["events"]
    assert memory["records"][FAILURE] == FIX
    assert "notes/hunch" not in memory["records"]

    # One update goes on, the contradiction waits.
    submit(team, "docs-agent", "refresh-guide", FAILURE, RIVAL, "--scope=team/build", "--base-revision=1")
    submit(team, "docs-agent", "refresh-guide", SETUP, GUIDE)
    team.published("docs-agent", "refresh-guide", 2)
    job = until("the job that waits", lambda: waiting(team))
    team.wait_for(f"consolidationjob/{job}", "AwaitingReview")

    with reached(release) as reach:
        decide(release, team, job, reach)
        team.wait_for(f"consolidationjob/{job}", "Complete")
        assert team.records() == {FAILURE: RIVAL, SETUP: GUIDE}
        go_back_and_on(release, team, reach)
    kinds = [kind for kind, _ in team.memory()["events"]]
    assert kinds.count("rollback") == kinds.count("resumed") == 1


def decide(release: Release, team: Team, job: str, reach: dict[str, str]) -> None:
    """A person decides, and no agent can."""
    agent, person = team.person("docs-agent"), team.person("rosa")
    review = [str(releases.anabranch()), "job", "review", job]
    shown = release.run(review, **person, **reach)
    candidate = re.search(r"cand\S+", shown)
    assert candidate, shown
    accept = [*review, f"--accept={candidate[0]}", "--reason=Cheaper."]
    with pytest.raises(releases.CommandError, match=r"(?i)forbidden|may not|not found"):
        release.run(accept, **agent, **reach)
    release.run(accept, **person, **reach)


def go_back_and_on(release: Release, team: Team, reach: dict[str, str]) -> None:
    """Back to before the decision by one field, and on again."""
    publisher = team.person("publisher")
    rollback = [str(releases.anabranch()), "baseline", "rollback", BASELINE]
    release.run([*rollback, "--apply"], **publisher, **reach)
    until("the rollback", lambda: team.records()[FAILURE] == FIX)
    release.run([*rollback, "--release"], **publisher, **reach)
    until("the way on", lambda: team.records()[FAILURE] == RIVAL)


def submit(team: Team, agent: str, branch: str, key: str, content: dict[str, str], *options: str) -> str:
    """Submits a finding with something to show for it."""
    team.run(agent, "sh", "-c", f"echo 'peak resident 8.6 GiB' > {EVIDENCE}")
    command = ("anabranch", "branch", "submit", branch, key, json.dumps(content), *options)
    return team.run(agent, *command, f"--evidence={EVIDENCE}", HERE, "--output=json")


def waiting(team: Team) -> str | None:
    """Name of the job that waits for a person."""
    items = team.get("consolidationjobs")["items"]
    return next((each["metadata"]["name"] for each in items if each["status"].get("state") == "awaiting_review"), None)


@contextmanager
def reached(release: Release) -> Iterator[dict[str, str]]:
    """How people reach the API from their machine: the environment of their commands."""
    authority = release.folder / "ca.crt"
    authority.write_text(release.authority())
    target = ("port-forward", "service/anabranch-api", ":443", f"--namespace={NAMESPACE}")  # kubectl chooses a port
    command = [release.cluster.kubectl_path, f"--kubeconfig={release.cluster.kubeconfig}", *target]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            said = process.stdout.readline()
            port = re.search(r"Forwarding from \S+:(\d+) ->", said)
            assert port, said
            yield {"ANABRANCH_URL": f"https://localhost:{port[1]}", "SSL_CERT_FILE": str(authority)}
        finally:
            process.kill()
