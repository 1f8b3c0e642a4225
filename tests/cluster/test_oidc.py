"""People whom an issuer knows: by its tokens, and through the pages that they log in to."""

from __future__ import annotations

import asyncio
import json
import secrets
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from axe_playwright_python.async_playwright import Axe
from playwright.async_api import async_playwright, expect
from tests import issuer as issuers
from tests.cluster import reviewing
from tests.cluster.places import Place, eventually

from anabranch.cli.story.findings import FAILURE, RIVAL_FIX
from anabranch.client import AnabranchClient
from anabranch.devcluster.ports import free
from anabranch.model.errors import ForbiddenError, NotFoundError, UnauthenticatedError
from anabranch.model.requests import BranchRequest, DecisionRequest

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
SCREENSHOTS = Path(__file__).parents[2] / "artifacts" / "screenshots"
API = "with-people"
KEYS = [FAILURE, "runbooks/token", "runbooks/page"]
SESSION_KEY = secrets.token_urlsafe(32)


@pytest.fixture(scope="module")
async def issuer(tmp_path_factory) -> AsyncIterator[issuers.Issuer]:
    async with issuers.running(tmp_path_factory.mktemp("issuer")) as issuer:
        issuer.claims = {"rosa": {"groups": ["reviewers"]}, "tom": {"groups": []}}
        yield issuer


@pytest.fixture(scope="module")
async def memory(stack, issuer, tmp_path_factory) -> AsyncIterator[Place]:
    """A namespace with the demo's Baseline, and an API that knows the issuer's people, by TLS as ``memory.url``."""
    place = Place(stack)
    stack.make_namespace(place.namespace)
    reviewing.baseline(place, KEYS)
    bind(place, "Group", "oidc:reviewers")
    folder = tmp_path_factory.mktemp("api")
    ports = free(["http", "inner"])
    stack._ports(API).write_text(json.dumps(ports))
    place.url = f"https://localhost:{ports['http']}"
    issuer.redirects.add(f"{place.url}/ui/callback")
    (folder / "secret").write_text(issuers.SECRET)
    told = {"usernamePrefix": "oidc:", "groupsClaim": "groups", "groupsPrefix": "oidc:", "publicUrl": place.url}
    (folder / "oidc.yaml").write_text(json.dumps(issuer.settings(clientSecretFile=str(folder / "secret"), **told)))
    ca, chain = issuers.certificate(folder)
    environment = {
        "ANABRANCH_OIDC": str(folder / "oidc.yaml"),
        "ANABRANCH_SESSION_KEYS": SESSION_KEY,
        "ANABRANCH_TLS_CERT": str(chain),
        "ANABRANCH_TLS_KEY": str(chain),
    }
    await asyncio.to_thread(lambda: stack.start_api(API, **environment))
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("SSL_CERT_FILE", str(ca))
        yield place
    await asyncio.to_thread(stack.stop, API)
    await place.close()


def bind(place: Place, kind: str, name: str) -> None:
    """Make somebody a reviewer, as one does it for people of the cluster."""
    group = "rbac.authorization.k8s.io"
    metadata = {"name": f"people-{secrets.token_hex(4)}", "namespace": place.namespace}
    role = {"apiGroup": group, "kind": "ClusterRole", "name": "anabranch-reviewer"}
    subject = {"apiGroup": group, "kind": kind, "name": name}
    place.stack.cluster.apply(
        [
            {
                "apiVersion": f"{group}/v1",
                "kind": "RoleBinding",
                "metadata": metadata,
                "roleRef": role,
                "subjects": [subject],
            }
        ]
    )


async def test_a_person_decides_by_a_token_of_the_issuer_with_the_grants_of_their_groups(memory, issuer):
    conflict = await reviewing.conflict(memory, "runbooks/token")
    decision = DecisionRequest(
        candidate_id=conflict.candidate.candidate_id,
        content_hash=conflict.candidate.content_hash,
        base_revision=conflict.candidate.canonical.revision,
        action="accept",
    )
    url = memory.url
    async with AnabranchClient(url, token=issuer.token("tom")) as tom:
        with pytest.raises(NotFoundError):
            await tom.job(memory.namespace, conflict.job.name)
    async with AnabranchClient(url, token=issuer.token("rosa", exp=1)) as late:
        with pytest.raises(UnauthenticatedError, match="has expired"):
            await late.job(memory.namespace, conflict.job.name)
    async with AnabranchClient(memory.stack.api_url, token=issuer.token("rosa")) as elsewhere:
        with pytest.raises(UnauthenticatedError, match="not meant for the audience"):
            await elsewhere.job(memory.namespace, conflict.job.name)
    async with AnabranchClient(url, token=issuer.token("rosa")) as rosa:
        with pytest.raises(ForbiddenError, match="oidc:rosa lacks the verb"):
            await rosa.create_branch(memory.namespace, BranchRequest(name="mine", baseline=reviewing.BASELINE))
        await rosa.review(memory.namespace, conflict.job.name, [decision])
        (entry,) = await rosa.reviews(memory.namespace, conflict.job.name)
        assert entry.reviewer == "oidc:rosa"

        async def published():
            record = await rosa.record(memory.namespace, reviewing.BASELINE, conflict.key)
            return record if record.content == RIVAL_FIX else None

        await eventually(published)


async def test_no_token_opens_a_page_however_good_it_is_elsewhere(memory, issuer):
    """The pages know sessions alone: to whom has taken a token from an agent, or from a person, they are shut."""
    agent = memory.account("reader", "anabranch-reviewer")
    conflict = await reviewing.conflict(memory, "runbooks/page")
    at = f"/ui/jobs/{memory.namespace}/{conflict.job.name}"
    requests = [("GET", "/ui/"), ("GET", at), ("POST", at), ("GET", f"/ui/baselines/{memory.namespace}/x")]
    tokens = {"agent": agent, "person": issuer.token("rosa"), "late": issuer.token("rosa", exp=1), "forged": "forged"}
    async with AnabranchClient(memory.url) as client:
        for method, path in requests:
            stranger = await client._http.request(method, path)
            assert stranger.status_code == 403, path
            for who, token in tokens.items():
                for headers in ({"Authorization": f"Bearer {token}"}, {"Cookie": f"__Host-anabranch={token}"}):
                    answer = await client._http.request(method, path, headers=headers)
                    assert (answer.status_code, answer.text) == (403, stranger.text), (method, path, who)
                    assert FAILURE not in answer.text
                    assert conflict.key not in answer.text


async def test_agents_are_served_while_the_issuer_is_away(memory, issuer):
    reader = memory.account("reader", "anabranch-reviewer")
    await issuer.stop()
    try:
        async with AnabranchClient(memory.url, token=reader) as agent:
            assert (await agent.baseline(memory.namespace, reviewing.BASELINE)).name == reviewing.BASELINE
    finally:
        await issuer.start()


@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium: apt-get install chromium")
async def test_people_log_in_decide_as_themselves_and_log_out_in_a_browser(memory, issuer):
    conflict = await reviewing.conflict(memory)
    async with async_playwright() as playwright:
        chromium = await playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        complaints = []
        context = await chromium.new_context(ignore_https_errors=True, viewport={"width": 1180, "height": 860})
        page = await context.new_page()
        page.set_default_timeout(30_000)
        expect.set_options(timeout=30_000)  # what is awaited is what counts, not how soon it comes
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        await page.goto(f"{memory.url}/ui/jobs/{memory.namespace}/{conflict.job.name}")
        await page.get_by_role("button", name="rosa").click()
        await expect(page.get_by_role("heading", name=FAILURE)).to_be_visible()
        await expect(page.locator(".person")).to_contain_text("oidc:rosa")
        report = await Axe().run(page)
        assert report.response["violations"] == []
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        await page.screenshot(path=SCREENSHOTS / "logged-in.png")
        await page.get_by_role("button", name="Accept").click()
        await expect(page.get_by_text("It stands under your name")).to_be_visible()
        await expect(page.locator(".badge", has_text="Published")).to_be_visible()
        reader = await memory.client("reader")
        (entry,) = await reader.reviews(memory.namespace, conflict.job.name)
        assert entry.reviewer == "oidc:rosa"
        assert await page.evaluate("document.cookie") == ""
        await page.goto(f"{memory.url}/")
        await expect(page.get_by_role("heading", name="To review")).to_be_visible()
        await page.get_by_role("link", name="Baselines").click()
        await page.get_by_role("link", name=reviewing.BASELINE).click()
        await expect(page.get_by_role("heading", name=reviewing.BASELINE)).to_be_visible()
        await page.get_by_role("button", name="Log out").click()
        await page.get_by_role("link", name="log out there too").click()
        await expect(page.get_by_role("heading", name="Logged out of all")).to_be_visible()
        await page.goto(f"{memory.url}/ui/")
        await page.get_by_role("button", name="tom").click()  # who has no grants
        await expect(page.get_by_role("heading", name="To review")).to_be_visible()
        assert memory.namespace not in await page.locator("main").inner_text()
        await page.goto(f"{memory.url}/ui/jobs/{memory.namespace}/{conflict.job.name}")
        await expect(page.get_by_text("There is no job")).to_be_visible()
        await chromium.close()
    # The browser tells of the page that leads a stranger to the issuer, and of the one that tom may not see.
    assert {text.partition(" (")[0] for text in complaints} <= {
        "Failed to load resource: the server responded with a status of 403",
        "Failed to load resource: the server responded with a status of 404",
    }
