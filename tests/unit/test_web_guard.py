"""The review page takes nothing from other sites, shows nothing to strangers, and runs nothing that it shows."""

from __future__ import annotations

import contextlib
import html
import re
from html.parser import HTMLParser

import httpx
import pytest

from anabranch.client import AnabranchClient
from anabranch.domain.wording import visible
from anabranch.web.app import create
from anabranch.web.guard import FORM_BYTES
from anabranch.web.local import LocalGate

PORT = 8123
OURS = f"http://127.0.0.1:{PORT}"
JOB = "/jobs/memory/j-held"
HOSTILE = "<script>alert(1)</script>\u202e\" onfocus=alert(1) x='"
CANDIDATE = f"cand_{'0' * 26}_{'0' * 26}"
HASH = f"sha256:{'a' * 64}"


class FakeDesk:
    """A desk at an API that has one job, with hostile text in all of it."""

    person = "rosa"

    def __init__(self):
        self.decided = []
        self.evidence = HOSTILE.encode()

    @contextlib.asynccontextmanager
    async def client(self):
        through = httpx.MockTransport(self.answer)
        async with AnabranchClient("http://api", token="t", through=through) as client:
            yield client

    async def namespaces(self):
        return ["memory"]

    async def may_decide(self, _namespace):
        return True

    async def may_declare(self, _namespace):
        return True

    async def agents_namespaces(self):
        return []

    async def decide(self, namespace, job, decision, *, heard):
        self.decided.append((namespace, job, decision.action, decision.reason, set(heard)))

    def answer(self, request):
        path = request.url.path.removeprefix("/v1/namespaces/memory")
        page = {"next_cursor": None}
        known = {
            "/jobs/j-held": self.job,
            "/jobs": {**page, "items": [self.job]},
            "/jobs/j-held/candidates": {**page, "items": [self.candidate]},
            "/baselines/facts": self.baseline,
            "/baselines/facts/manifests": {**page, "items": [self.manifest]},
            "/baselines/facts/manifests/1": self.manifest,
            "/baselines/facts/quality": self.quality,
            "/baselines/facts/peers": {**page, "items": [self.peer]},
        }
        if path == f"/jobs/j-held/evidence/{HASH}":
            return httpx.Response(200, content=self.evidence, headers={"Content-Type": "text/html"})
        return httpx.Response(200, json=known.get(path, {**page, "items": []}))

    @property
    def reference(self):
        return {"baseline_id": "bl", "generation": 1, "manifest_hash": HASH}

    @property
    def baseline(self):
        nothing = dict.fromkeys(("previous", "pinned_generation", "oldest_conflict_at"))
        counts = dict.fromkeys(("feed_watermark", "pending_batches", "open_conflicts"), 0)
        replica = {"max_age_seconds": 1, "on_revoke": "Keep"}
        line = {"namespace": "memory", "name": "facts", "line_id": "ln", "suspended": False, "replica": replica}
        return {**line, **nothing, **counts, "current": self.reference, "head": self.reference}

    @property
    def quality(self):
        ages = dict.fromkeys(("week", "month", "quarter", "year", "older", "undated"), 0)
        counts = {"records": 3, "sourced": 2, "verified": 1}
        point = {**counts, "generation": 1, "published_at": "2026-11-30T10:00:00Z"}
        now = {"manifest": self.reference, "total": {**counts, "ages": ages}, "scopes": [], "history": [point]}
        return {**now, "open_conflicts": 0, "duplicates_removed": 0}

    @property
    def manifest(self):
        made = {"schema_version": 1, "created_at": "2026-11-30T10:00:00Z", "parent_generation": 0, "records": 1}
        return {**self.reference, **made, "origin": {"kind": HOSTILE}, "feed_watermark": 0}

    @property
    def peer(self):
        run = {"agent_id": HOSTILE, "branch_id": HOSTILE, "task": HOSTILE, "state": "active"}
        return {**run, "lease_deadline": None, "last_published_sequence": 0, "observed_feed_cursor": None}

    @property
    def job(self):
        nothing = dict.fromkeys(
            ("run_id", "branch_id", "batch_sequence", "lease_deadline", "held_job", "published_baseline_id")
        )
        return {
            **nothing,
            "job_id": f"job_{'0' * 26}_{'0' * 26}",
            "name": "j-held",
            "namespace": "memory",
            "origin": "Held",
            "state": "awaiting_review",
            "failed": False,
            "reason": "AwaitingReview",
            "attempt": 0,
            "accepted": [],
            "rejected": [],
            "conflicts": [],
            "counts": {},
            "last_error": None,
            "retry_at": None,
            "created_at": "2026-11-30T10:00:00Z",
        }

    @property
    def candidate(self):
        return {
            "candidate_id": CANDIDATE,
            "job_id": self.job["job_id"],
            "branch_id": None,
            "run_id": None,
            "author": HOSTILE,
            "op": "put",
            "key": HOSTILE,
            "content": {HOSTILE: HOSTILE},
            "scope": "shared",
            "visibility": "shareable",
            "content_hash": HASH,
            "base_revision": "1",
            "source_locators": [f"https://x/{HOSTILE}"],
            "sources": [
                {"locator": f"https://x/{HOSTILE}", "status": "unresolved", "detail": HOSTILE},
                {"locator": f"evidence:{HASH}", "status": "verified", "detail": ""},
            ],
            "origin_runs": [HOSTILE],
            "observed_at": "2026-11-30T10:00:00Z",
            "state": "waiting",
            "conflicting": False,
            "reason": "Manual",
            "detail": HOSTILE,
            "canonical": None,
        }


class Elements(HTMLParser):
    """The elements of a page, as a browser would find them."""

    def __init__(self, text):
        super().__init__()
        self.found = []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.found.append((tag, dict(attributes)))


@pytest.fixture
def desk():
    return FakeDesk()


@pytest.fixture
async def stranger(desk):
    """A browser without the link, and the gate as ``stranger.gate``."""
    gate = LocalGate(desk, port=PORT)
    through = httpx.ASGITransport(app=create(gate))
    async with httpx.AsyncClient(transport=through, base_url=OURS) as browser:
        browser.gate = gate
        yield browser


@pytest.fixture
async def browser(stranger):
    """A browser that came by the link."""
    answer = await stranger.get(stranger.gate.link)
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    return stranger


async def token_of(browser) -> str:
    page = await browser.get(JOB)
    return re.search(r'name="token" value="([0-9a-f]{64})"', page.text)[1]


def form(token: str, **changes: str) -> dict[str, str]:
    fields = {"token": token, "candidate": CANDIDATE, "content": HASH, "revision": "0", "heard": "[]"}
    return {**fields, "action": "accept", "reason": "", **changes}


async def test_only_who_has_the_link_comes_in(stranger, desk):
    for path in ("/", JOB, "/enter", "/enter?key=", "/enter?key=wrong"):
        answer = await stranger.get(path)
        assert answer.status_code == 403
        assert "set-cookie" not in answer.headers
        assert "j-held" not in answer.text
    answer = await stranger.post(JOB, data=form("x"), headers={"Origin": OURS})
    assert answer.status_code == 403
    assert desk.decided == []


async def test_the_cookie_is_out_of_reach_of_scripts_and_of_other_sites(stranger):
    answer = await stranger.get(stranger.gate.link)
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert cookie.startswith(f"anabranch-{PORT}=")


@pytest.mark.parametrize(
    "host", ["evil.example", f"evil.example:{PORT}", "127.0.0.1", f"127.0.0.1:{PORT + 1}", f"[::1]:{PORT}", ""]
)
async def test_a_name_that_another_site_has_pointed_here_is_refused(browser, host):
    answer = await browser.get("/", headers={"Host": host})
    assert answer.status_code == 403
    assert "j-held" not in answer.text


async def test_a_form_of_ours_is_taken(browser, desk):
    answer = await browser.post(JOB, data=form(await token_of(browser)), headers={"Origin": OURS})
    assert answer.status_code == 303
    assert desk.decided == [("memory", "j-held", "accept", "", set())]


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Origin": "null"},
        {"Origin": "http://evil.example"},
        {"Origin": f"http://localhost:{PORT}"},
        {"Origin": OURS, "Sec-Fetch-Site": "cross-site"},
    ],
)
async def test_a_form_that_another_site_sends_is_refused(browser, desk, headers):
    answer = await browser.post(JOB, data=form(await token_of(browser)), headers=headers)
    assert answer.status_code == 403
    assert desk.decided == []


@pytest.mark.parametrize("token", ["", "0" * 64, "é"])
async def test_a_form_without_the_visitors_token_is_refused(browser, desk, token):
    answer = await browser.post(JOB, data=form(token), headers={"Origin": OURS})
    assert answer.status_code == 403
    assert desk.decided == []


async def test_a_rejection_needs_a_reason_and_keeps_what_was_seen(browser, desk):
    token = await token_of(browser)
    answer = await browser.post(JOB, data=form(token, action="reject", reason=" \n"), headers={"Origin": OURS})
    assert answer.status_code == 422
    assert "needs a reason" in answer.text
    assert desk.decided == []
    why = form(token, action="reject", reason="Not\nso.", heard='[["tom", "accept"]]')
    answer = await browser.post(JOB, data=why, headers={"Origin": OURS})
    assert answer.status_code == 303
    ((*_, action, reason, heard),) = desk.decided
    assert (action, reason) == ("reject", "Not so.")
    assert [(voice.reviewer, voice.action) for voice in heard] == [("tom", "accept")]


@pytest.mark.parametrize(
    "changes",
    [
        {"heard": "{"},
        {"heard": "[1]"},
        {"action": "merge"},
        {"candidate": "../x"},
        {"content": "x"},
        {"revision": "-1"},
    ],
)
async def test_a_form_that_no_page_has_made_decides_nothing(browser, desk, changes):
    token = await token_of(browser)
    answer = await browser.post(JOB, data=form(token, **changes), headers={"Origin": OURS})
    assert answer.status_code == 422
    assert desk.decided == []


async def test_a_form_is_bounded(browser, desk):
    token = await token_of(browser)
    answer = await browser.post(JOB, data=form(token, reason="x" * FORM_BYTES), headers={"Origin": OURS})
    assert answer.status_code == 413
    many = {**form(token), **{f"f{number}": "1" for number in range(100)}}
    assert (await browser.post(JOB, data=many, headers={"Origin": OURS})).status_code == 422
    assert desk.decided == []


HISTORY = "/baselines/memory/facts"


@pytest.mark.parametrize(
    "path",
    [
        *("/", JOB, HISTORY, "/baselines", f"{HISTORY}/rollback?to=1"),
        *(f"{JOB}?c=<script>&done=<script>", "/?baseline=<script>&kind=<script>&page=x"),
    ],
)
async def test_what_agents_and_links_say_is_text_and_nothing_else(browser, path):
    answer = await browser.get(path)
    assert answer.status_code == 200
    assert "\u202e" not in answer.text
    seen = Elements(answer.text)
    assert [attributes.keys() for tag, attributes in seen.found if tag == "script"] == [{"src", "defer"}]
    assert not {"style", "iframe", "object", "embed", "base"} & {tag for tag, _ in seen.found}
    names = {name for _, attributes in seen.found for name in attributes}
    assert not {name for name in names if name.startswith("on") or name in {"style", "srcdoc"}}
    assert not [link for _, attributes in seen.found if (link := attributes.get("href", "/")) and link[0] not in "/?#"]
    assert "script-src 'self'; style-src 'self'" in answer.headers["content-security-policy"]
    assert "unsafe" not in answer.headers["content-security-policy"]


async def test_evidence_is_shown_as_the_text_that_it_is(browser, desk):
    page = await browser.get(JOB)
    shown = re.search(r'<pre class="proof"[^>]*>(.*?)</pre>', page.text, re.DOTALL)[1]
    assert shown == html.escape(visible(HOSTILE)).replace("&quot;", "&#34;").replace("&#x27;", "&#39;")
    desk.evidence = b"\x00\x01 no text"
    assert '<pre class="proof"' not in (await browser.get(JOB)).text
    desk.evidence = "é".encode() * 5_000
    assert "é…</pre>" in (await browser.get(JOB)).text


async def test_a_history_tells_what_can_be_counted(browser):
    page = await browser.get(HISTORY)
    assert re.findall(r"<dt>(.*?)</dt><dd><b>(\d+)</b>", page.text) == [
        ("records", "3"),
        ("with a source", "2"),
        ("verified", "1"),
    ]


async def test_every_answer_is_inert_and_kept_by_nobody(browser):
    for path in ("/", JOB, "/absent", "/jobs/..%2f/x"):
        answer = await browser.get(path)
        headers = answer.headers
        assert headers["content-security-policy"].startswith("default-src 'none'")
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert headers["cache-control"] == "no-store"
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "same-origin"


async def test_files_are_kept_for_as_long_as_they_are_the_same(browser):
    page = await browser.get("/")
    names = re.findall(r'(?:href|src)="(/static/[^"]+)"', page.text)
    assert {name.rpartition("/")[2] for name in names} == {"pages.css", "pages.js", "mark.svg"}
    for name in names:
        answer = await browser.get(name)
        assert answer.status_code == 200
        assert "immutable" in answer.headers["cache-control"]
        assert (await browser.get(name.replace("/static/", "/static/0"))).status_code == 404
