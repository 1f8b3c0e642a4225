"""Hostile text at every place that takes words: it is kept as it is, or refused in words, and does nothing anywhere.

Everything is sent once. Then each place where people or programs read is looked at: the API, the pages, the terminal,
the logs, the metrics, and what stands in Kubernetes.
"""
# ruff: noqa: ARG005  (each place takes what it needs of the same three)

from __future__ import annotations

import asyncio
import hashlib
import itertools
import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.cluster import reviewing
from tests.cluster.places import Place, eventually
from tests.cluster.test_bad_input import batch
from tests.cluster.test_telemetry import get
from tests.unit.test_web_guard import Elements

from anabranch.cli.main import run as cli
from anabranch.domain.wording import visible
from anabranch.model.requests import DecisionRequest
from anabranch.telemetry import reference

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from anabranch.client import AnabranchClient
    from anabranch.model.objects import BranchManifest

pytestmark = pytest.mark.long

MARK = "pwned"
TEXTS = {
    "quotes of SQL": f"'; DROP TABLE records; SELECT '{MARK}' --",
    "comments of SQL": f'"/*{MARK}*/) OR 1=1; -- $1 %s :x \\',
    "a script": f"<script>window.{MARK}=1</script>",
    "an attribute": f"\"'><img src=x onerror=window.{MARK}=1><a href='javascript:{MARK}()'>",
    "the end of an element": f"</textarea></title></pre>--><svg onload={MARK}=1>",
    "a terminal's orders": f"\x1b[2J\x1b]0;{MARK}\x07\x9b2J\b\b",
    "lines of a head": f"a\r\nSet-Cookie: {MARK}=1\r\n\r\n<b>",
    "a metric": f'x"}} 1\nanabranch_{MARK}{{label="x"}} 1\n',
    "a log line": f'x"}}\n{{"level": "error", "event": "{MARK}"}}\n',
    "a template": f"{{{{ {MARK} }}}}{{% raw %}}${{{MARK}}}#{{{MARK}}}%({MARK})s%n{{0}}",
    "turned text": f"\u202e{MARK}\u2066\u200b\ufeff",
    "a path": f"../../../{MARK}/..%2f%00",
    "a formula": f"=cmd|'/c {MARK}'!A1",
    "nothing": f"a\0{MARK}",
}
BASELINE = "facts"


@dataclass
class World:
    """A run that has a place for everything, and what came of sending it.

    Attributes:
        place: Its namespace, with a Baseline whose findings wait for a review.
        agent: The run's own.
        branch: The run.
        began: Bytes that the logs had.
        evidence: What findings cite.
        answers: By where and which text.
        sequence: Of the last batch that was taken.
        reasons: That a reviewer has given.
    """

    place: Place
    agent: AnabranchClient
    branch: BranchManifest
    began: dict[str, int]
    evidence: str
    answers: dict[tuple[str, str], httpx.Response] = field(default_factory=dict)
    sequence: int = 0
    reasons: set[str] = field(default_factory=set)

    def in_batch(self, **members: Any) -> tuple[str, str, dict[str, Any]]:
        change = {
            "key": f"notes/{self.sequence}",
            "content": f"Nr {self.sequence}",
            "scope": "shared",
            "visibility": "shareable",
        } | members
        sources = [self.evidence, *change.pop("sources", [])]
        body = batch(self.branch, sequence=self.sequence + 1, changes=[change], source_locators=[sources])
        return "PUT", f"{self.at}/batches/{self.sequence + 1}", {"json": body}

    @property
    def at(self) -> str:
        return f"branches/{self.branch.name}"


def enc(text: str) -> str:
    return quote(text, safe="")


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def capsule(text: str) -> dict[str, Any]:
    return {"goal": text, "summary": text, "decisions": [text], "next_action": text}


SENT: dict[str, Callable[[World, str, int], tuple[str, str, dict[str, Any]]]] = {
    "a note's key": lambda w, t, n: ("PUT", f"{w.at}/records/{enc(t)}", {"json": {"content": n}}),
    "a note's content": lambda w, t, n: ("PUT", f"{w.at}/records/n{n}", {"json": {"content": {"a": t, t: [t]}}}),
    "a note's scope": lambda w, t, n: ("PUT", f"{w.at}/records/s{n}", {"json": {"content": n, "scope": t}}),
    "a finding's key": lambda w, t, _: w.in_batch(key=t),
    "a finding's content": lambda w, t, _: w.in_batch(content={"text": t, t: t}),
    "a finding's text": lambda w, t, _: w.in_batch(content=t),
    "a finding's scope": lambda w, t, _: w.in_batch(scope=t),
    "a finding's source": lambda w, t, _: w.in_batch(sources=[f"https://example.com/{t}"]),
    "a run's task": lambda w, t, n: ("POST", "branches", {"json": {"name": f"t{n}", "baseline": BASELINE, "task": t}}),
    "a run's agent": lambda w, t, n: (
        "POST", "branches", {"json": {"name": f"a{n}", "baseline": BASELINE, "agent_id": t}}
    ),
    "a run's instance": lambda w, t, n: (
        "POST", "branches", {"json": {"name": f"i{n}", "baseline": BASELINE, "agent_instance": t}}
    ),
    "a sign of life": lambda w, t, n: ("PUT", f"{w.at}/presence", {"json": {"task": t}}),
    "a checkpoint": lambda w, t, n: ("PUT", f"{w.at}/checkpoints/c{n}", {"json": {"capsule": capsule(t)}}),
    "a session": lambda w, t, n: (
        "PUT", f"{w.at}/checkpoints/s{n}", {"json": {"session_id": t, "capsule": capsule("x")}}
    ),
    "evidence": lambda w, t, n: ("PUT", f"{w.at}/evidence/{digest(t)}", {"content": t.encode()}),
    "an agent's id": lambda w, t, n: (
        "PUT", f"agents/{enc(t)}/default/memory/long_term", {"json": {"content": n}}
    ),
    "an instance's id": lambda w, t, n: (
        "PUT", f"agents/scout/{enc(t)}/memory/long_term", {"json": {"content": n}}
    ),
    "a memory": lambda w, t, n: (
        "PUT", f"agents/scout/default/memory/daily/2026-11-{n + 1:02}", {"json": {"content": {"a": t}, "source": t}}
    ),
    "a section": lambda w, t, n: (
        "PUT", f"agents/scout/default/memory/{enc(t)}", {"json": {"content": n}}
    ),
    "a turn": lambda w, t, n: ("POST", "exchanges", {"json": {
        "exchange_id": f"x{n}", "kind": "exchange.direct", "surface": {"pod_id": "room", "label": t[:60]},
        "participants": [{"agent_id": "scout"}], "turns": [{"sender": t, "content": t}],
    }}),
    "an exchange's id": lambda w, t, n: ("POST", "exchanges", {"json": {
        "exchange_id": t, "kind": "exchange.direct", "surface": {"pod_id": t}, "participants": [{"agent_id": t}],
    }}),
    "a kv key": lambda w, t, n: ("PUT", f"{w.at}/kv/v1/namespaces/space/records/{enc(t)}", {"content": b"value"}),
    "a kv value": lambda w, t, n: ("PUT", f"{w.at}/kv/v1/namespaces/space/records/v{n}", {"content": t.encode()}),
    "a kv memory": lambda w, t, n: ("POST", f"{w.at}/kv/v1/namespaces/space/memories", {
        "json": {"key": f"m{n}", "memory": {"content": t}}
    }),
    "a search": lambda w, t, n: ("GET", f"baselines/{BASELINE}/search", {"params": {"q": t}}),
    "a search of a run": lambda w, t, n: ("GET", f"{w.at}/search", {"params": {"q": t}}),
    "a parameter": lambda w, t, n: ("GET", "baselines", {"params": {t: t}}),
    "a cursor": lambda w, t, n: ("GET", "baselines", {"params": {"cursor": t}}),
    "a namespace": lambda w, t, n: ("GET", f"/v1/namespaces/{enc(t)}/baselines", {}),
    "a Baseline": lambda w, t, n: ("GET", f"baselines/{enc(t)}", {}),
    "a path": lambda w, t, n: ("GET", f"/{enc(t)}", {}),
    "a head's line": lambda w, t, n: ("GET", "baselines", {
        "headers": {"X-Request-Id": t.encode(), "User-Agent": t.encode(), "traceparent": t.encode()}
    }),
}  # fmt: skip
"""A request that carries a text, by the place in it."""

KEPT: dict[str, Callable[[World, str, int], tuple[str, Callable[[httpx.Response], Any], Any]]] = {
    "a note's key": lambda w, t, _: (f"{w.at}/records/{enc(t)}", lambda a: a.json()["key"], t),
    "a note's content": lambda w, t, n: (f"{w.at}/records/n{n}", lambda a: a.json()["content"], {"a": t, t: [t]}),
    "a run's task": lambda _, t, n: (f"branches/t{n}", lambda a: a.json()["task"], t),
    "a checkpoint": lambda w, t, n: (f"{w.at}/checkpoints/c{n}", lambda a: a.json()["capsule"]["goal"], t),
    "evidence": lambda w, t, _: (f"{w.at}/evidence/{digest(t)}", lambda a: a.content, t.encode()),
    "a memory": lambda _, t, n: (
        f"agents/scout/default/memory/daily/2026-11-{n + 1:02}", lambda a: a.json()["content"], {"a": t}
    ),
    "a kv value": lambda w, t, n: (
        f"{w.at}/kv/v1/namespaces/space/records/v{n}", lambda a: a.content, t.encode()
    ),
    "a kv memory": lambda w, t, n: (
        f"{w.at}/kv/v1/namespaces/space/memories/m{n}", lambda a: a.json()["memory"]["content"], t
    ),
}  # fmt: skip
"""Where what was taken is read, what of the answer it is, and what it must be."""

REFUSED = {
    "a note's scope", "a finding's scope", "a run's agent", "a run's instance", "a session", "an agent's id",
    "an instance's id", "a section", "an exchange's id", "a parameter", "a cursor", "a namespace", "a Baseline",
    "a path",
}  # fmt: skip
"""Places that take names alone, and no text of these."""


@pytest.fixture(scope="module")
async def world(stack) -> AsyncIterator[World]:
    place = Place(stack)
    stack.make_namespace(place.namespace)
    place.baseline(BASELINE)
    began = {name: stack.log(name).stat().st_size for name in ("api", "operator")}
    agent = await place.client("scout", "anabranch-agent", "anabranch-platform")
    branch = await place.branch(agent)
    evidence = await agent.put_evidence(place.namespace, branch.branch_id, b"measured")
    world = World(place, agent, branch, began, evidence)
    for where, made in SENT.items():
        for number, (which, text) in enumerate(TEXTS.items()):
            method, path, options = made(world, text, number)
            try:
                answer = await place.raw(agent, method, path, **options)
            except httpx.LocalProtocolError:
                continue  # no head can have it
            world.answers[where, which] = answer
            if "/batches/" in path and answer.status_code < 300:
                world.sequence += 1
    annotate(place)
    await decide(world)
    yield world
    await place.close()


def annotate(place: Place) -> None:
    """Branches whose makers write what they like, by the door of Kubernetes."""
    items = [
        {
            "apiVersion": "anabranch.dev/v1alpha1",
            "kind": "Branch",
            "metadata": {"name": f"k{number}", "annotations": {"example.org/note": text}},
            "spec": {"baselineRef": {"name": BASELINE}, "agent": {"serviceAccountName": "scout"}, "task": text},
        }
        for number, text in enumerate(text for text in TEXTS.values() if "\0" not in text)
    ]
    place.kubectl("create", "--filename=-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    place.kubectl("wait", "--for=condition=Ready", "branches", "--all", "--timeout=120s")


async def decide(world: World) -> None:
    """Once all findings wait, accept those with a hostile key and reject the others, for a hostile reason each."""
    reviewer = await world.place.client("rosa", "anabranch-reviewer")
    namespace = world.place.namespace
    found: dict[str, list[Any]] = {}

    async def all_wait() -> bool:
        for job in [job async for job in reviewer.jobs(namespace, branch=world.branch.branch_id)]:
            found[job.name] = [each async for each in reviewer.candidates(namespace, job.name)]
        waiting = [each for some in found.values() for each in some if each.state == "waiting"]
        return len(waiting) == world.sequence

    await eventually(all_wait)
    reasons = itertools.cycle(text for text in TEXTS.values() if "\0" not in text)
    for job, candidates in found.items():
        decisions = [
            DecisionRequest(
                candidate_id=each.candidate_id,
                content_hash=each.content_hash,
                base_revision="0",
                action="accept" if MARK in each.key else "reject",
                reason=next(reasons),
            )
            for each in candidates
        ]
        await reviewer.review(namespace, job, decisions)
        world.reasons |= {each.reason for each in decisions}

    async def published() -> bool:
        now = [each for job in found async for each in reviewer.candidates(namespace, job)]
        return {each.state for each in now if MARK in each.key} == {"published"}

    await eventually(published)
    method, path, options = world.in_batch(content={text: text for text in TEXTS.values() if "\0" not in text})
    assert (await world.place.raw(world.agent, method, path, **options)).status_code == 200
    world.sequence += 1

    async def waits() -> bool:  # for the pages to show
        return bool([job async for job in reviewer.jobs(namespace, state="awaiting_review")])

    await eventually(waits)


# ------------------------------------------------------------------------------------------------------------- the API


@pytest.mark.parametrize("where", SENT)
async def test_it_is_kept_as_it_is_or_refused_in_words(world, where):
    taken = 0
    for number, (which, text) in enumerate(TEXTS.items()):
        answer = world.answers.get((where, which))
        if answer is None:
            assert where == "a head's line"
            continue
        what = (which, answer.status_code, answer.text[:300])
        assert answer.status_code < 500, what
        assert not [name for name in answer.headers if MARK in name or name == "set-cookie"], what
        assert MARK not in answer.headers.get("x-request-id", ""), what
        if answer.status_code >= 300:
            assert answer.json(), what
            assert answer.headers["content-type"].split(";")[0].endswith("json"), what
            continue
        taken += 1
        if kept := KEPT.get(where):
            path, take, wanted = kept(world, text, number)
            again = await world.place.raw(world.agent, "GET", path)
            assert again.status_code == 200, (which, again.text)
            assert take(again) == wanted, which
            assert "html" not in again.headers.get("content-type", ""), which
    assert (taken == 0) == (where in REFUSED), taken


async def test_what_was_published_and_why_it_was_not_is_told_as_it_was_written(world):
    reader = await world.place.client("rosa")
    published = [text for text in TEXTS.values() if world.answers["a finding's key", name_of(text)].status_code < 300]
    assert len(published) >= 8
    for text in published:
        record = await reader.record(world.place.namespace, BASELINE, text)
        assert record.key == text
    jobs = [job.name async for job in reader.jobs(world.place.namespace, branch=world.branch.branch_id)]
    entries = [entry for job in jobs for entry in await reader.reviews(world.place.namespace, job)]
    assert {entry.reason for entry in entries} == world.reasons == {text for text in TEXTS.values() if "\0" not in text}


def name_of(text: str) -> str:
    return next(which for which, each in TEXTS.items() if each == text)


# ---------------------------------------------------------------------------------------- what people and programs read


def hides(text: str) -> set[str]:
    """What of a text moves a cursor, turns text, or is not seen; our own colours set apart."""
    return {each for each in re.sub(r"\x1b\[[0-9;]*m", "", text) if visible(each) != each}


async def test_no_terminal_is_repainted_by_it_in_any_form_of_output(world, capsys, monkeypatch):
    place, branch = world.place, world.branch.name
    monkeypatch.setattr("click.utils.should_strip_ansi", lambda *_, **__: False)  # as on a terminal
    monkeypatch.setenv("ANABRANCH_URL", place.stack.api_url)
    monkeypatch.setenv("KUBECONFIG", str(place.stack.cluster.kubeconfig))
    monkeypatch.setenv("PATH", str(place.stack.cluster.kubectl_path.parent), prepend=":")
    place.account("rosa", "anabranch-reviewer", "anabranch-viewer")
    jobs = (
        [job["metadata"]["name"] for job in json.loads(place.kubectl("get", "jobs.anabranch.dev", "-ojson"))["items"]]
        if False
        else [job.name async for job in (await place.client("rosa")).jobs(place.namespace)]
    )
    script = TEXTS["turned text"]
    of_agent = [
        ("branch", "list"), ("branch", "show", branch), ("branch", "peers", branch), ("branch", "restore", branch),
        ("branch", "get", branch, script), *(("branch", "get", branch, f"n{n}") for n in range(len(TEXTS) - 1)),
        ("search", MARK, "--branch", branch), ("memory", "show", "scout"), ("memory", "exchanges", "scout"),
        ("memory", "events", "scout"), ("memory", "show", "scout", "daily"),
    ]  # fmt: skip
    of_reviewer = [
        ("baseline", "list"), ("baseline", "show", BASELINE), ("baseline", "history", BASELINE),
        ("baseline", "diff", BASELINE), ("baseline", "trace", BASELINE, script),
        ("search", MARK, "--baseline", BASELINE), ("feed", "follow", BASELINE, "--all", "--count=5"), ("job", "list"),
        *(("job", "show", job) for job in jobs),
    ]  # fmt: skip
    shown, wrong = "", []
    for account, commands in (("scout", of_agent), ("rosa", of_reviewer)):
        for command in commands:
            for output in ("table", "json", "yaml"):
                where = [f"--namespace={place.namespace}", f"--output={output}"]
                if command[1] != "list" and command[:2] != ("baseline", "show"):  # which ask Kubernetes
                    where.append(f"--token={place._tokens[account]}")
                code = await asyncio.to_thread(cli, [*command, *where])
                out, err = capsys.readouterr()
                if code or hides(out + err):
                    wrong.append((command, output, code, hides(out + err), err))
                shown += out
    assert wrong == []
    for job in jobs:
        code = await asyncio.to_thread(
            cli, ["job", "review", job, "--list", f"--namespace={place.namespace}", f"--token={place._tokens['rosa']}"]
        )
        out, err = capsys.readouterr()
        assert (code, hides(out + err)) == (0, set()), (job, err)
        shown += out
    assert visible(TEXTS["turned text"]) in shown
    assert "\\u001b[2J" in shown


async def test_no_page_has_an_element_of_it(world, tmp_path):
    place = world.place
    namespace = place.namespace
    jobs = [job.name async for job in (await place.client("rosa")).jobs(namespace)]
    with reviewing.pages(place, "rosa", folder=tmp_path, mints="rosa") as link:
        async with httpx.AsyncClient(follow_redirects=True, trust_env=False, timeout=60) as browser:
            first = await browser.get(link)
            base = str(first.url).rstrip("/")
            paths = [
                "/", "/baselines", f"/baselines/{namespace}/{BASELINE}", f"/baselines/{namespace}/{BASELINE}/diff",
                f"/baselines/{namespace}/{BASELINE}/rollback?to=1",
                *(f"/jobs/{namespace}/{job}" for job in jobs), *(f"/jobs/{namespace}/{job}/merge" for job in jobs),
                *(f"/baselines/{namespace}/{BASELINE}/lineage?key={enc(text)}" for text in TEXTS.values()),
                *(f"/?baseline={enc(text)}&page={enc(text)}" for text in TEXTS.values()),
                *(f"/{enc(text)}" for text in TEXTS.values()),
            ]  # fmt: skip
            seen = ""
            for path in paths:
                answer = await browser.get(base + path)
                assert answer.status_code < 500, (path, answer.text[:300])
                assert not [name for name in answer.headers if MARK in name], path
                if answer.headers["content-type"].startswith("text/html"):
                    check_page(path, answer.text)
                    seen += answer.text
    assert "&lt;script&gt;window.pwned=1" in seen
    assert "\\u001b[2J" in seen


def check_page(path: str, text: str) -> None:
    """Nothing but the page's own elements, whatever stands in it."""
    assert not [each for each in text if visible(each) != each], path
    found = Elements(text).found
    assert all(attributes.keys() == {"src", "defer"} for tag, attributes in found if tag == "script"), path
    assert not {"style", "iframe", "object", "embed", "base"} & {tag for tag, _ in found}, path
    assert not [source for _, attributes in found if not (source := attributes.get("src") or "/").startswith("/")], path
    names = {name for _, attributes in found for name in attributes}
    assert not {name for name in names if name.startswith("on") or name in {"style", "srcdoc"} or MARK in name}, path
    links = [attributes.get("href") or "/" for _, attributes in found]
    assert not [link for link in links if link[0] not in "/?#"], path


async def test_each_log_line_is_one_of_ours_and_has_none_of_it(world):
    for name, begin in world.began.items():
        *lines, _ = world.place.stack.log(name).read_bytes()[begin:].decode().split("\n")
        assert lines
        for line in lines:
            said = json.loads(line)
            assert {"event", "level", "timestamp"} <= said.keys(), line
            assert MARK not in line, line


async def test_the_metrics_are_ours_and_name_none_of_it(world):
    documented = {series for each in reference.declared() for series in each.series}
    for name in ("api", "operator"):
        text = (await get(world.place.stack, name, "/metrics")).text
        assert MARK not in text
        samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
        assert samples
        assert {sample.name for sample in samples} <= documented


async def test_nothing_of_it_stands_in_statuses_and_events(world):
    for kind in ("baselines.anabranch.dev", "branches.anabranch.dev", "consolidationjobs.anabranch.dev"):
        items = json.loads(world.place.kubectl("get", kind, "--output=json"))["items"]
        assert items, kind
        for item in items:
            status = json.dumps(item["status"], ensure_ascii=False)
            assert MARK not in status, status
            assert not hides(status), status
    events = json.loads(world.place.kubectl("get", "events.events.k8s.io", "--output=json"))["items"]
    assert events
    for event in events:
        assert MARK not in event["note"], event["note"]
        assert not hides(event["note"]), event["note"]
