"""Every route for every kind of caller: who may is answered, who may not learns nothing.

The routes are those of the document, and who may is read off the roles that an installation applies: a new route is in
the matrix at once, and fails here until it is said what there is to ask it about.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import Any

import pytest
from tests.cluster.places import BASELINE, Place, finding

from anabranch.api.app import create_app
from anabranch.api.routing import GRANT
from anabranch.identity.permissions import FRESH_SECONDS
from anabranch.manifests import install

pytestmark = pytest.mark.long

OPERATIONS = {
    f"{method.upper()} {path.removeprefix('/v1/namespaces/{namespace}/')}": operation[GRANT]
    for path, item in create_app().openapi()["paths"].items()
    if path.startswith("/v1/")
    for method, operation in item.items()
}
ROLES = {
    manifest["metadata"]["name"].removeprefix("anabranch-"): {
        (resource, verb)
        for rule in manifest["rules"]
        if rule["apiGroups"] == ["anabranch.dev"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    for manifest in install()
    if manifest["kind"] == "ClusterRole"
}
OWN = {("branches/data", "update"), ("agents/memory", "update")}
SEE_CANDIDATES = ("consolidationjobs/review", "get")
LISTS = {"GET baselines", "GET branches", "GET jobs"}
CALLERS = {
    "owner": "agent",
    "other": "agent",
    "viewer": "viewer",
    "reviewer": "reviewer",
    "publisher": "publisher",
    "platform": "platform",
    "exporter": "",
    "stranger": "",
    "elsewhere": "",
    "revoked": "",
}
"""The callers, and the role that they hold in the Baseline's namespace."""

EXPORTER = {("baselines", "get"), ("baselines/export", "get"), ("scopes", "read"), ("scopes", "export")}

CAPSULE = {"goal": "Ship", "summary": "Decided", "next_action": "Measure"}
EVIDENCE = b"measured"
NO_CLAIM = "01234567-89ab-4def-8123-456789abcdef"
EXCHANGE = {
    "exchange_id": "x", "kind": "exchange.direct", "surface": {"pod_id": "room"},
    "participants": [{"agent_id": "owner"}],
}  # fmt: skip
BODIES: dict[str, dict[str, Any]] = {
    "PUT branches/{branch}/records/{key}": {"json": {"content": 1}},
    "PUT branches/{branch}/presence": {"json": {}},
    "PUT branches/{branch}/evidence/{sha256}": {"content": EVIDENCE},
    "PUT branches/{branch}/kv/v1/namespaces/{space}/records/{key}": {"content": b"value"},
    "PUT branches/{branch}/checkpoints/{checkpoint}": {"json": {"session_id": "s", "capsule": CAPSULE}},
    "PUT agents/{agent}/{instance}/memory/{section}": {"json": {"content": 1}},
    "PUT agents/{agent}/{instance}/memory/{section}/{item}": {"json": {"content": 1}},
    "POST agents/{agent}/{instance}/memory/sync": {"json": {"mode": "patch", "sections": []}},
    "POST agents/{agent}/{instance}/events/{event}/ack": {"json": {"claim_id": NO_CLAIM}},
    "POST agents/{agent}/{instance}/events/{event}/fail": {"json": {"claim_id": NO_CLAIM}},
}
"""What is sent where more than an empty object is wanted, so that the right caller is answered with success."""

QUERIES = {
    "GET baselines/{baseline}/diff": {"from": "1"},
    "GET baselines/{baseline}/search": {"q": "cache"},
    "GET branches/{branch}/search": {"q": "cache"},
    "GET branches/{branch}/rebase": {"to": "1"},
}
ABSENT = {
    "GET baselines/{baseline}/manifests/{manifest}/signature",  # this installation signs none
    "GET branches/{branch}/completion",  # the run goes on
    "GET baselines/{baseline}/archives/{sha256}",  # nobody uploaded one
    "HEAD baselines/{baseline}/archives/{sha256}",
    "GET baselines/{baseline}/retractions/{retraction}",  # nobody has asked for one
}
"""Where the right caller is told that there is nothing."""

HIDDEN = "or you may not see it"
"""In what is said of an object that is absent, and of one that the caller may not know of."""


@dataclass
class Run:
    """A run with one of everything that routes are about.

    Attributes:
        place: Its namespace.
        parameters: What paths name.
        tokens: By caller.
    """

    place: Place
    parameters: dict[str, str]
    tokens: dict[str, str]

    async def ask(self, operation: str, token: str | None):
        method, _, path = operation.partition(" ")
        if "{key}" in path:
            key = self.parameters["fact"] if path.startswith("baselines") or "/view/" in path else "note"
            key = self.parameters["memory"] if "/memories/" in path else key
            key = "spare" if method == "DELETE" else key
            path = path.replace("{key}", key)
        if "/{item}" in path:
            path = path.replace("{section}", "daily")
            path = path.replace("{item}", "2026-12-01" if method == "DELETE" else "{item}")
        elif method == "DELETE":
            path = path.replace("{section}", "dedup_state")
        options = BODIES.get(operation, {} if method in {"GET", "HEAD", "DELETE"} else {"json": {}})
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        return await self.place.raw(
            None, method, path.format(**self.parameters), headers=headers, params=QUERIES.get(operation), **options
        )


@pytest.fixture(scope="module")
async def run(place):
    tokens = {
        name: place.account(name, *([f"anabranch-{role}"] if role else []))
        for name, role in CALLERS.items()
        if name not in {"elsewhere", "revoked"}
    }
    place.account("exporter", "get baselines,baselines/export", "read,export scopes")
    far = Place(place.stack)
    place.stack.make_namespace(far.namespace)
    tokens["elsewhere"] = far.account("owner", *(f"anabranch-{role}" for role in ROLES if "-" not in role))

    owner = await place.client("owner")
    branch = await place.branch(owner)
    ns, name = place.namespace, branch.name
    await owner.put_private(ns, name, "note", {"text": "mine"})
    # Whoever reviews the finding may see the evidence that it cites.
    await place.submit(owner, branch, finding("build/new", "A fact."), content=EVIDENCE)
    await place.publication(owner, branch)
    digest = await owner.put_evidence(ns, name, EVIDENCE)
    parameters = {
        "baseline": BASELINE, "manifest": "1", "fact": "build/cache", "sha256": digest.rpartition(":")[2],
        "branch": name, "sequence": "1", "checkpoint": "cp-1", "space": "space", "agent": "owner", "session": "s",
        "instance": "default", "section": "long_term", "item": "2026-11-30",
        "retraction": f"retr_{'0' * 26}_{'0' * 26}",
    }  # fmt: skip
    run = Run(place, parameters, tokens)
    jobs = (await place.raw(owner, "GET", "jobs")).json()["items"]
    parameters["job"] = next(job["name"] for job in jobs if job["branch_id"] == branch.branch_id)
    kv = f"branches/{name}/kv/v1/namespaces/space"
    for method, path, body in (
        ("PUT", f"branches/{name}/checkpoints/cp-1", {"session_id": "s", "capsule": CAPSULE}),
        ("PUT", f"{kv}/records/note", "value"),
        ("POST", f"{kv}/checkpoints", {"id": "cp-1", "agent_id": "owner", "session_id": "s", "capsule": CAPSULE,
                                       "expected_latest_revision": None, "references": []}),
    ):  # fmt: skip
        answer = await place.raw(owner, method, path, json=body)
        assert answer.status_code in {200, 201}, answer.text
    remembered = await place.raw(
        owner, "POST", f"{kv}/memories", json={"key": "memory-1", "memory": {"content": "Warm it."}}
    )
    assert remembered.status_code in {200, 201}, remembered.text
    parameters["memory"] = "memory-1"

    await owner.put_memory(ns, "owner", "long_term", "mine")
    await owner.put_memory(ns, "owner", "daily", "mine", "2026-11-30")
    posted = await place.raw(await place.client("platform"), "POST", "exchanges", json=EXCHANGE)
    assert posted.status_code == 200, posted.text
    claimed = (await owner.claim_events(ns, "owner")).events
    parameters["event"] = next(event.id for event in claimed if event.type.endswith(EXCHANGE["kind"]))

    # Held a moment ago, and taken back: for longer than an answer is remembered.
    tokens["revoked"] = place.account("revoked", "anabranch-agent", "anabranch-reviewer", "anabranch-publisher")
    assert (await run.ask("GET baselines/{baseline}", tokens["revoked"])).status_code == 200
    bindings = json.loads(place.kubectl("get", "rolebindings", "--output=json"))["items"]
    names = [each["metadata"]["name"] for each in bindings if each["subjects"][0]["name"] == "revoked"]
    place.kubectl("delete", "rolebinding", *names)
    await asyncio.sleep(FRESH_SECONDS + 0.5)
    yield run
    await far.close()


def may(caller: str, operation: str) -> bool:
    """Whether a caller's roles hold the row that decides over a route."""
    row = (OPERATIONS[operation][0]["resource"], OPERATIONS[operation][0]["verb"])
    if row in OWN:  # whatever grants others hold
        return caller == "owner"
    if row == SEE_CANDIDATES and caller == "owner" and operation != "GET jobs":
        return True  # its own findings'
    held = EXPORTER if caller == "exporter" else ROLES.get(CALLERS[caller], set())
    return row in held


@pytest.mark.parametrize("operation", sorted(OPERATIONS), ids=lambda operation: operation.replace("/", "|"))
async def test_who_may_is_answered_and_who_may_not_learns_nothing(run, operation):
    for caller in (*sorted(CALLERS.keys() - {"owner"}), "owner"):
        answer = await run.ask(operation, run.tokens[caller])
        what = f"{caller}: {answer.status_code} {answer.text[:300]}"
        if may(caller, operation):
            absent = operation in ABSENT or operation.startswith("DELETE")
            refused = {401, 403} if absent else {401, 403, 404}
            assert answer.status_code < 500, what
            assert answer.status_code not in refused, what
            assert HIDDEN not in answer.text, what
            if operation.startswith("GET") and not absent:
                assert answer.status_code == 200, what
        elif operation in LISTS:
            items = answer.json()["items"]
            own = [item for item in items if caller == "owner" and item.get("branch_id")]
            assert (answer.status_code, [item for item in items if item not in own]) == (200, []), what
        else:
            assert answer.status_code in {403, 404}, what
            if answer.status_code == 404 and not operation.startswith("HEAD"):
                assert HIDDEN in answer.text, what


# ------------------------------------------------------------------------------------------------------------ the tools

CALLS: dict[str, dict[str, Any]] = {
    "recall": {"query": "cache"},
    "read_record": {"key": "build/cache"},
    "write_private": {"key": "k", "content": 1},
    "submit_findings": {"findings": [{"key": "k", "content": 1}]},
    "follow_updates": {},
    "view_conflicts": {},
    "complete_run": {},
    "checkpoint": {"checkpoint_id": "c", "capsule": CAPSULE},
    "restore": {},
    "peers": {},
    "read_my_memory": {"section": "long_term"},
    "save_my_memory": {"section": "long_term", "content": 1},
    "my_events": {},
    "ack_event": {"event_id": "e", "claim_id": NO_CLAIM},
}
"""Arguments of each tool, beside its branch or agent; only that nobody but that agent gets through is tried here."""

OF_MEMORY = {"read_my_memory", "save_my_memory", "my_events", "ack_event"}


async def mcp(run: Run, token: str | None, method: str, *, door: str = "/mcp", **params: Any):
    """One request to the tools behind a door."""
    headers = {"Accept": "application/json, text/event-stream"}
    if token is not None:
        headers["Authorization"] = f"Bearer {token}"
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    return await run.place.raw(None, "POST", door, json=body, headers=headers)


async def test_every_tool_is_refused_to_whom_its_branch_is_not(run):
    listed = (await mcp(run, run.tokens["owner"], "tools/list")).json()["result"]["tools"]
    assert {tool["name"] for tool in listed} == CALLS.keys()
    for name, arguments in CALLS.items():
        at = {"namespace": run.place.namespace}
        at |= {"agent": "owner"} if name in OF_MEMORY else {"branch": run.parameters["branch"]}
        for caller in sorted(CALLERS.keys() - {"owner"}):
            if name in {"peers", "view_conflicts"} and caller in {"other", "viewer", "reviewer", "publisher"}:
                continue  # whoever may follow the Baseline, or see its candidates or the branch
            answer = await mcp(run, run.tokens[caller], "tools/call", name=name, arguments={**at, **arguments})
            result = answer.json()["result"]
            assert result["isError"], (name, caller, answer.text)
            assert json.loads(result["content"][0]["text"])["code"] in {"NotFound", "Forbidden"}, (name, caller)
