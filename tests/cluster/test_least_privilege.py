"""What the two accounts are granted against what they ask for over a life's work, as the API server's log has it."""

from __future__ import annotations

import asyncio
import json
import secrets
from typing import TYPE_CHECKING, Any

import pytest
from tests.cluster.places import Place, eventually, finding
from tests.cluster.test_expiry import complete

from anabranch.manifests import API_ACCOUNT, OPERATOR_ACCOUNT, install
from anabranch.model.requests import DecisionRequest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

pytestmark = pytest.mark.long

SOME = "operator-of-some"
ACCOUNTS = (OPERATOR_ACCOUNT, API_ACCOUNT)

Right = tuple[str, str, str, str]
"""Whose, the group, the resource with its subresource, the verb."""

UNASKED: Mapping[Right, str] = {
    (OPERATOR_ACCOUNT, "anabranch.dev", "consolidationjobs/origin", "create"): (
        "a name that the admission policy anabranch-job-origin asks about: "
        "test_only_the_operator_makes_jobs_that_stand_for_its_own_rows"
    ),
    (OPERATOR_ACCOUNT, "anabranch.dev", "branches/finalizers", "update"): (
        "an API server with OwnerReferencesPermissionEnforcement asks about it where a job is owned by its Branch"
    ),
}
"""What is granted and is no request of its own, or none of a life without accidents; and why it is granted."""


def granted(namespace: str) -> Iterator[Right]:
    """What the manifests give the two accounts, by whatever binds it to them."""
    objects = install(namespace=namespace)
    roles = {(each["kind"], each["metadata"]["name"]): each["rules"] for each in objects if "rules" in each}
    for binding in objects:
        for subject in binding.get("subjects", ()):
            for rule in roles[binding["roleRef"]["kind"], binding["roleRef"]["name"]]:
                for group in rule["apiGroups"]:
                    for resource in rule["resources"]:
                        yield from ((subject["name"], group, resource, verb) for verb in rule["verbs"])


class Asked:
    """What the two accounts have asked the API server for."""

    def __init__(self, stack) -> None:
        if stack.cluster.audit_log is None:
            pytest.skip("only a local control plane has an audit log")
        self._path = stack.cluster.audit_log
        self._users = {f"system:serviceaccount:{stack.namespace}:{name}": name for name in ACCOUNTS}
        self.begin = self._path.stat().st_size

    def since(self, place: int) -> list[dict[str, Any]]:
        with self._path.open("rb") as log:
            log.seek(place)
            entries = [json.loads(line) for line in log if line.endswith(b"\n")]
        return [entry for entry in entries if entry["user"]["username"] in self._users]

    def rights(self, place: int = 0) -> set[Right]:
        """What they asked for and were allowed, since the log was so long."""
        return {
            (
                self._users[entry["user"]["username"]],
                ref.get("apiGroup", ""),
                "/".join(filter(None, (ref["resource"], ref.get("subresource")))),
                entry["verb"],
            )
            for entry in self.since(place)
            if (ref := entry.get("objectRef")) and decision(entry) == "allow"
        }


def decision(entry: dict[str, Any]) -> str:
    """What the authorizer said of a request."""
    return entry.get("annotations", {}).get("authorization.k8s.io/decision", "")


async def test_what_is_granted_is_asked_for_and_nothing_else_is(stack):
    asked = Asked(stack)
    place = Place(stack, namespace=f"least-{secrets.token_hex(4)}")
    stack.make_namespace(place.namespace)
    try:
        await live(place)
        # One that serves some namespaces alone follows which of them there are, once it leads.
        await asyncio.to_thread(stack.stop, "operator")
        await asyncio.to_thread(lambda: stack.start_operator(SOME, namespaces=[place.namespace]))
        wanted = set(granted(stack.namespace))
        assert UNASKED.keys() <= wanted, "a reason for what is granted no more"

        async def all_asked() -> bool:
            return wanted - asked.rights() <= UNASKED.keys()

        try:
            await eventually(all_asked)
        except AssertionError:
            raise AssertionError(f"granted and never asked for: {sorted(wanted - asked.rights())}") from None
        assert asked.rights(asked.begin) <= wanted, "allowed by what is not ours"
        # A namespace that is going answers 403 too, to whoever may: what counts is what the authorizer said.
        assert [entry for entry in asked.since(asked.begin) if decision(entry) == "forbid"] == []
    finally:
        await asyncio.to_thread(stack.stop, SOME)
        await asyncio.to_thread(stack.start_operator)
        await place.close()


async def live(place: Place) -> None:
    """A life's work: an import, runs, a publication, a review, a rollback and the way back, ends and deletions."""
    place.baseline(review={"mode": "Automatic"})
    agent = await place.client("agent", "anabranch-agent")
    reviewer = await place.client("reviewer", "anabranch-reviewer")
    run = await place.branch(agent, name="run", ttl_after_finished="1s")
    await place.submit(agent, run, finding("build/new", "It is faster so."), finding("build/cache", "Never."))

    async def waiting():
        return [job async for job in reviewer.jobs(place.namespace, state="awaiting_review")]

    (held,) = await eventually(waiting)
    (candidate,) = [found async for found in reviewer.candidates(place.namespace, held.name)]
    decision = DecisionRequest(
        candidate_id=candidate.candidate_id,
        content_hash=candidate.content_hash,
        base_revision=candidate.canonical.revision,
        action="reject",
    )
    await reviewer.review(place.namespace, held.name, [decision])
    await place.publication(agent, run)
    for pin in ({"generation": 1}, None):
        patch = json.dumps({"spec": {"pin": pin}})
        place.kubectl("patch", "baseline/facts", "--type=merge", f"--patch={patch}")
    place.kubectl("patch", f"cjob/{held.name}", "--type=merge", '--patch={"spec": {"ttlSecondsAfterFinished": 0}}')
    await gone(place, "cjob", held.name)
    await complete(place, agent, run, last=1)
    await gone(place, "branch", "run")
    place.baseline("brief", deletionPolicy="Delete")
    place.kubectl("delete", "baseline/brief", "--timeout=100s")


async def gone(place: Place, kind: str, name: str) -> None:
    async def look() -> bool:
        return not place.kubectl("get", kind, name, "--ignore-not-found", "--output=name")

    await eventually(look)
