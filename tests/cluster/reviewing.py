"""People at the review page: `anabranch ui` as each of them, and the demo's conflict for them to decide."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.cluster.places import eventually, finding

from anabranch.cli.story.findings import EVIDENCE, FAILURE, FIX, RIVAL_EVIDENCE, RIVAL_FIX
from anabranch.devcluster import accounts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cluster.places import Place

    from anabranch.model.objects import ConsolidationJob, KnowledgeCandidate

BASELINE = "platform-team"
UNKNOWN = {"title": FIX["title"], "text": "The cause is unknown. Restarting the job helps about every second time."}
MINT = ("create", "serviceaccounts/token")


@dataclass(frozen=True)
class Conflict:
    """What a reviewer is asked.

    Attributes:
        job: The job that waits.
        candidate: Its candidate that waits.
        key: Of both sides.
    """

    job: ConsolidationJob
    candidate: KnowledgeCandidate
    key: str


def baseline(place: Place, keys: list[str], **review: Any) -> None:
    """The demo's Baseline, with its record under some keys."""
    records = dict.fromkeys(keys, ("team/build", UNKNOWN))
    place.baseline(BASELINE, records, review={"mode": "Automatic", **review})


async def conflict(place: Place, key: str = FAILURE, *, fix: Any = FIX, rival: Any = RIVAL_FIX) -> Conflict:
    """One agent publishes its fix, another one contradicts it, having seen neither."""
    early, late = [await place.client(name, "anabranch-agent") for name in ("build-agent", "docs-agent")]
    reader = await place.client("reader", "anabranch-reviewer")
    request = {"baseline": BASELINE}
    ours, theirs = await place.branch(early, **request), await place.branch(late, **request)
    now = await reader.record(place.namespace, BASELINE, key)
    for client, branch, content, proof in ((early, ours, fix, EVIDENCE), (late, theirs, rival, RIVAL_EVIDENCE)):
        evidence = await client.put_evidence(place.namespace, branch.branch_id, proof, media_type="text/plain")
        await client.submit_batch(
            place.namespace,
            branch.branch_id,
            sequence=1,
            changes=[finding(key, content, scope="team/build")],
            sources=[[evidence]],
            base_revisions=[now.revision],
        )
        if branch is ours:
            await place.publication(client, branch)

    async def held() -> ConsolidationJob | None:
        waiting = [job async for job in reader.jobs(place.namespace, state="awaiting_review")]
        return next((job for job in waiting if job.branch_id == theirs.branch_id), None)

    job = await eventually(held)
    (candidate,) = [found async for found in reader.candidates(place.namespace, job.name)]
    return Conflict(job, candidate, key)


async def flood(place: Place, keys: list[str]) -> Conflict:
    """An agent that knows none of these records hands in almost the same for each of them."""
    agent = await place.client("build-agent", "anabranch-agent")
    reader = await place.client("reader", "anabranch-reviewer")
    branch = await place.branch(agent, baseline=BASELINE)
    evidence = await agent.put_evidence(place.namespace, branch.branch_id, EVIDENCE, media_type="text/plain")
    text = "Cause: since Rust 1.84 the linker peaks at 8.6 GiB. Seen in build {} of the night."
    await agent.submit_batch(
        place.namespace,
        branch.branch_id,
        sequence=1,
        changes=[
            finding(key, {"text": text.format(4711 + place)}, scope="team/build") for place, key in enumerate(keys)
        ],
        sources=[[evidence]] * len(keys),
        base_revisions=["0"] * len(keys),
    )

    async def held() -> ConsolidationJob | None:
        waiting = [job async for job in reader.jobs(place.namespace, state="awaiting_review")]
        return next((job for job in waiting if job.branch_id == branch.branch_id), None)

    job = await eventually(held)
    candidate, *_ = [found async for found in reader.candidates(place.namespace, job.name)]
    return Conflict(job, candidate, candidate.key)


@contextlib.contextmanager
def pages(place: Place, person: str, *, folder: Path, mints: str = "reader") -> Iterator[str]:
    """`anabranch ui` of a person, who may mint tokens of an account; gives its link."""
    kubeconfig = accounts.set_up(place.stack.cluster, namespace=place.namespace, name=person, folder=folder).kubeconfig
    allow_minting(place, person, mints)
    command = [Path(sys.executable).with_name("anabranch"), "ui", "--no-browser", f"--url={place.stack.api_url}"]
    command += [f"--service-account={mints}", f"--audience={place.stack.audience}", f"--namespace={place.namespace}"]
    path = f"{place.stack.cluster.kubectl_path.parent}:{os.environ['PATH']}"
    environment = {**os.environ, "KUBECONFIG": str(kubeconfig), "PATH": path}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process.stdout.readline().strip()
        finally:
            process.terminate()


def allow_minting(place: Place, person: str, account: str) -> None:
    verb, resource = MINT
    name = f"mint-{person}"
    place.kubectl("create", "role", name, f"--verb={verb}", f"--resource={resource}", f"--resource-name={account}")
    subject = f"--serviceaccount={place.namespace}:{person}"
    place.kubectl("create", "rolebinding", name, f"--role={name}", subject)


def reviews(place: Place, job: ConsolidationJob) -> list[dict[str, Any]]:
    """Whose decisions stand in a job's resource."""
    resource = json.loads(place.kubectl("get", "consolidationjob", job.name, "--output=json"))
    return resource["spec"].get("reviews", [])
