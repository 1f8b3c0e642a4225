"""The review page in a real browser: the demo's conflict is decided by mouse, by keys, and without JavaScript.

Pictures of what people see are left in ``artifacts/screenshots``.
"""

from __future__ import annotations

import contextlib
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from axe_playwright_python.async_playwright import Axe
from playwright.async_api import async_playwright, expect
from tests.cluster import reviewing
from tests.cluster.places import Place, eventually

from anabranch.cli.story.findings import FAILURE, FIX, RIVAL_FIX
from anabranch.domain.editing import edited

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
SCREENSHOTS = Path(__file__).parents[2] / "artifacts" / "screenshots"
KEYS = [f"runbooks/{name}" for name in ("mouse", "keys", "plain", "race", "hostile", "look", "stale", "agent", "merge")]
FLOOD = [f"runbooks/flood-{number}" for number in range(3)]
SIZES = {"light": (1180, 860, "light"), "dark": (1180, 860, "dark"), "phone": (390, 844, "light")}
HOSTILE = (
    '<script>window.pwned = 1</script><img src=x onerror="window.pwned = 2">"\'><svg onload="window.pwned = 3">'
    "\n[click](javascript:window.pwned=4) {{ 7 * 7 }} </textarea></title><!--\n\u202etxet desrever\u200b"
)

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium: apt-get install chromium"),
]


@pytest.fixture(scope="module")
async def memory(stack) -> AsyncIterator[Place]:
    """A namespace with the demo's Baseline, its agents and two reviewers."""
    place = Place(stack)
    stack.make_namespace(place.namespace)
    reviewing.baseline(place, [FAILURE, *KEYS, *FLOOD])
    for person in ("rosa", "tom", "reader"):
        place.account(person, "anabranch-reviewer")
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    yield place
    await place.close()


@pytest.fixture(scope="module")
def rosa(memory, tmp_path_factory):
    with reviewing.pages(memory, "rosa", folder=tmp_path_factory.mktemp("rosa")) as link:
        yield link


@pytest.fixture(scope="module")
def tom(memory, tmp_path_factory):
    with reviewing.pages(memory, "tom", folder=tmp_path_factory.mktemp("tom")) as link:
        yield link


@pytest.fixture(scope="module")
async def chromium():
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        await browser.close()


@pytest.fixture
async def opened(chromium):
    """Opens a link as a person would, and fails if the page complains; at a size by its name."""
    async with contextlib.AsyncExitStack() as stack:
        complaints = []

        async def open_(link, size="light", **settings):
            width, height, scheme = SIZES[size]
            context = await chromium.new_context(
                viewport={"width": width, "height": height}, color_scheme=scheme, **settings
            )
            stack.push_async_callback(context.close)
            page = await context.new_page()
            page.set_default_timeout(30_000)
            expect.set_options(timeout=30_000)  # what is awaited is what counts, not how soon it comes
            page.on("console", lambda message: complaints.append(message.text))
            page.on("pageerror", lambda error: complaints.append(str(error)))
            page.on("dialog", lambda dialog: complaints.append(dialog.message))
            await page.goto(link)
            return page

        open_.complaints = complaints
        yield open_
        assert complaints == []


def at(page, conflict: reviewing.Conflict) -> str:
    """The address of a conflict's page, on the server that a page is of."""
    return page.url.split("/", 3)[0] + "//" + page.url.split("/", 3)[2] + path(conflict)


def path(conflict: reviewing.Conflict) -> str:
    return f"/jobs/{conflict.job.namespace}/{conflict.job.name}"


async def record(place: Place, key: str):
    reader = await place.client("reader")
    return await reader.record(place.namespace, reviewing.BASELINE, key)


async def outcome(place: Place, conflict: reviewing.Conflict) -> str:
    """The state of the conflict's candidate, once it waits no more and its job is done."""
    reader = await place.client("reader")
    candidate_id = conflict.candidate.candidate_id

    async def settled():
        found = [each async for each in reader.candidates(place.namespace, conflict.job.name)]
        open_ = {each.state for each in found} & {"waiting", "accepted"}
        return None if open_ else next(each.state for each in found if each.candidate_id == candidate_id)

    return await eventually(settled)


async def test_the_demos_conflict_is_accepted_by_mouse(memory, rosa, opened):
    conflict = await reviewing.conflict(memory)
    page = await opened(rosa)
    await expect(page.get_by_role("heading", name="To review")).to_be_visible()
    await page.locator("[data-item]", has_text=FAILURE).click()
    await expect(page.get_by_role("heading", name=FAILURE)).to_be_visible()
    await expect(page.locator(".gone").first).to_contain_text("Cause: since Rust 1.84")
    await expect(page.locator(".come").first).to_contain_text("Link payments with thin")
    await expect(page.get_by_text("verified")).to_be_visible()
    await page.screenshot(path=SCREENSHOTS / "conflict.png")
    await page.get_by_role("button", name="Accept").click()
    await expect(page.get_by_text("It stands under your name")).to_be_visible()
    await expect(page.locator(".badge", has_text="Published")).to_be_visible()  # nobody has loaded the page again
    fact = await record(memory, FAILURE)
    assert fact.content == RIVAL_FIX
    assert fact.supersedes == (conflict.candidate.canonical.revision,)
    (entry,) = reviewing.reviews(memory, conflict.job)
    assert entry["reviewer"] == f"system:serviceaccount:{memory.namespace}:rosa"


async def test_a_flood_of_near_identical_candidates_is_rejected_by_one_decision(memory, rosa, opened):
    job = await reviewing.flood(memory, FLOOD)
    page = await opened(rosa)
    await page.goto(at(page, job))
    group = page.get_by_role("region", name="Near-identical candidates")
    await expect(group).to_contain_text("One of 3 near-identical candidates")
    await expect(group.get_by_role("button", name="Accept all")).to_have_count(0)  # they conflict
    await group.locator("summary").click()
    await expect(group.get_by_role("link", name=FLOOD[2])).to_be_visible()
    await page.screenshot(path=SCREENSHOTS / "group.png", full_page=True)
    await group.get_by_role("textbox").fill("The run was broken.")
    await group.get_by_role("button", name="Reject all 3").click()
    await expect(page.get_by_text("It stands under your name")).to_be_visible()

    assert await outcome(memory, job) == "rejected"
    (entry,) = reviewing.reviews(memory, job.job)
    assert (entry["decisions"], [each["action"] for each in entry["groups"]]) == ([], ["reject"])


async def test_it_is_rejected_by_keys_alone(memory, rosa, opened):
    conflict = await reviewing.conflict(memory, "runbooks/keys")
    page = await opened(rosa)
    items = page.locator("[data-item]")
    place = [await item.inner_text() for item in await items.all()].index(
        next(text for text in await items.all_inner_texts() if "runbooks/keys" in text)
    )
    for _ in range(place + 1):
        await page.keyboard.press("j")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("heading", name="runbooks/keys")).to_be_visible()
    await page.keyboard.press("a")
    await expect(page.get_by_role("button", name="Accept")).to_be_focused()  # which decides nothing
    await page.keyboard.press("r")
    await page.keyboard.type("Slower for all readers, as measured.")
    await page.keyboard.press("Tab")
    await expect(page.get_by_role("button", name="Reject")).to_be_focused()
    assert reviewing.reviews(memory, conflict.job) == []
    await page.keyboard.press("Enter")
    await expect(page.locator(".outcome", has_text="Rejected")).to_be_visible()
    await expect(page.locator(".voices", has_text="Slower for all readers")).to_be_visible()
    assert (await record(memory, "runbooks/keys")).content == FIX
    await page.keyboard.press("u")
    await expect(page.get_by_role("heading", name="To review")).to_be_visible()


async def test_it_is_decided_without_javascript(memory, rosa, opened):
    conflict = await reviewing.conflict(memory, "runbooks/plain")
    page = await opened(rosa, java_script_enabled=False)
    await page.get_by_label("Baseline").select_option(f"{memory.namespace}/{reviewing.BASELINE}")
    await page.get_by_role("button", name="Filter").click()
    await page.locator("[data-item]", has_text="runbooks/plain").click()
    await page.get_by_role("button", name="Reject").click()
    await expect(page.get_by_role("alert")).to_contain_text("needs a reason")
    opened.complaints.clear()  # the browser tells of the 422
    assert reviewing.reviews(memory, conflict.job) == []
    await page.get_by_label("Reason").fill("It was measured.")
    await page.get_by_role("button", name="Accept").click()
    assert await outcome(memory, conflict) == "published"
    await page.reload()
    await expect(page.locator(".badge", has_text="Published")).to_be_visible()
    assert (await record(memory, "runbooks/plain")).content == RIVAL_FIX


async def test_the_second_of_two_reviewers_sees_what_the_first_one_did(memory, rosa, tom, opened):
    conflict = await reviewing.conflict(memory, "runbooks/race")
    first, second = await opened(rosa), await opened(tom, java_script_enabled=False)
    for page in (first, second):
        await page.goto(at(page, conflict))
    await first.get_by_label("Reason").fill("The ledger has shown it.")
    await first.get_by_role("button", name="Accept").click()
    await expect(first.get_by_text("It stands under your name")).to_be_visible()
    await second.get_by_label("Reason").fill("I would rather not.")
    await second.get_by_role("button", name="Reject").click()
    await expect(second.get_by_role("alert")).to_contain_text("rosa accepted it while you were reading")
    await second.screenshot(path=SCREENSHOTS / "race.png")
    assert await outcome(memory, conflict) == "published"
    await second.goto(at(second, conflict))
    await expect(second.get_by_role("region", name="Decisions so far")).to_contain_text("The ledger has shown it.")
    assert [entry["reviewer"].rpartition(":")[2] for entry in reviewing.reviews(memory, conflict.job)] == ["rosa"]
    opened.complaints.clear()  # the browser tells of the 409


async def test_a_decision_on_a_record_that_has_moved_is_not_taken(memory, rosa, opened):
    conflict = await reviewing.conflict(memory, "runbooks/stale")
    page = await opened(rosa)
    await page.goto(at(page, conflict))
    await page.locator("input[name=revision]").evaluate("field => { field.value = '1' }")
    await page.get_by_label("Reason").fill("I have seen another one.")
    await page.get_by_role("button", name="Accept").click()
    await expect(page.get_by_role("alert")).to_contain_text("another than you saw")
    await expect(page.get_by_label("Reason")).to_have_value("I have seen another one.")
    assert reviewing.reviews(memory, conflict.job) == []
    opened.complaints.clear()  # the browser tells of the 409


async def test_a_merge_is_written_by_keys_and_accepted_by_another_reviewer(memory, rosa, tom, opened):
    rival = {**RIVAL_FIX, "seen": "\u202eby\u200b nobody"}
    conflict = await reviewing.conflict(memory, "runbooks/merge", rival=rival)
    page = await opened(rosa)
    await page.goto(at(page, conflict))
    await page.keyboard.press("m")
    assert edited(await page.get_by_label("Merged content").input_value(), plain=False) == rival
    await expect(page.get_by_label("The record")).to_be_checked()
    await expect(page.get_by_label("Finding 1")).to_be_checked()
    await page.keyboard.press("e")
    await expect(page.get_by_label("Merged content")).to_be_focused()
    await page.keyboard.press("ControlOrMeta+a")
    await page.keyboard.type('title: "Both')
    await page.keyboard.press("Escape")
    await page.keyboard.press("v")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("alert")).to_contain_text("not plain YAML")
    opened.complaints.clear()  # the browser tells of the 422
    await page.get_by_label("Merged content").fill("title: Both\ntext: Link payments with thin, and pin Rust 1.84.")
    await page.get_by_role("button", name="Preview").click()
    await expect(page.get_by_role("region", name="Beside The record").locator(".come").first).to_be_visible()
    await expect(page.get_by_role("region", name="Beside Finding 1")).to_contain_text("pin Rust 1.84")
    assert reviewing.reviews(memory, conflict.job) == []
    await look(page, "merge")
    await page.keyboard.press("m")
    await page.keyboard.press("Enter")
    await expect(page.get_by_text("Proposed under your name")).to_be_visible()
    (entry,) = reviewing.reviews(memory, conflict.job)
    assert entry["reviewer"] == f"system:serviceaccount:{memory.namespace}:rosa"
    assert entry["merges"][0]["inputs"] == [conflict.candidate.candidate_id]
    await expect(page.get_by_role("link", name="Next")).to_be_visible()  # nobody has loaded the page again
    await page.get_by_role("link", name="Next").click()
    await expect(page.locator(".badge", has_text="Merge")).to_be_visible()
    other = await opened(tom, java_script_enabled=False)
    await other.goto(page.url.replace(page.url.split("/")[2], other.url.split("/")[2]))
    await expect(other.locator(".badge", has_text="Merge")).to_be_visible()
    await other.get_by_role("button", name="Accept").click()
    assert await outcome(memory, conflict) == "rejected"  # it went into the merge
    fact = await record(memory, "runbooks/merge")
    assert fact.content == {"title": "Both", "text": "Link payments with thin, and pin Rust 1.84."}
    assert set(conflict.candidate.source_locators) < set(fact.source_locators)


async def test_what_an_agent_writes_is_shown_and_does_nothing(memory, rosa, opened):
    rival = {"title": HOSTILE, HOSTILE.splitlines()[0]: [HOSTILE]}
    conflict = await reviewing.conflict(memory, "runbooks/hostile", rival=rival)
    page = await opened(rosa)
    await page.goto(at(page, conflict))
    await expect(page.get_by_role("button", name="Accept")).to_be_visible()
    shown = await page.locator("main").inner_text()
    for text in ("<script>window.pwned = 1</script>", "onerror=", "{{ 7 * 7 }}", "javascript:window.pwned=4"):
        assert text in shown
    assert "\\u202etxet desrever\\u200b" in shown
    assert await page.evaluate("window.pwned") is None
    assert await page.locator("main script, main img, main iframe, main a[href^=javascript]").count() == 0
    await page.screenshot(path=SCREENSHOTS / "hostile.png")


async def test_scripts_that_are_no_files_of_ours_do_not_run(memory, rosa, opened):
    page = await opened(rosa)
    await page.evaluate(
        """() => {
            document.body.insertAdjacentHTML("beforeend", '<img src="http://127.0.0.1:1/x.png" onerror="pwned = 1">');
            const script = document.createElement("script");
            script.textContent = "window.pwned = 2";
            document.body.append(script);
        }"""
    )
    await page.wait_for_timeout(200)
    assert await page.evaluate("window.pwned") is None
    assert len([text for text in opened.complaints if "Content Security Policy" in text]) >= 2
    opened.complaints.clear()


async def test_a_baselines_history_shows_its_runs_and_the_way_back(memory, rosa, tom, opened):
    await reviewing.conflict(memory, "runbooks/agent")
    await memory.branch(await memory.client("docs-agent", "anabranch-agent"), baseline=reviewing.BASELINE)
    memory.account("tom", "anabranch-publisher")
    page = await opened(tom)
    await page.get_by_role("link", name="Baselines").click()
    await page.locator("[data-item]", has_text=reviewing.BASELINE).click()
    newest = page.locator(".bend").first
    await expect(newest).to_contain_text("brought back by")
    await expect(newest).to_contain_text("build-agent")
    await expect(page.locator(".bend").last).to_contain_text("Imported")
    await look(page, "history")
    await newest.get_by_role("link", name="What changed").click()
    await expect(page.get_by_role("heading", name="runbooks/agent")).to_be_visible()
    await expect(page.locator(".come").first).to_contain_text("Cause: since Rust 1.84")
    await look(page, "diff")
    await page.get_by_role("link", name="Lineage of runbooks/agent").click()
    await expect(page.get_by_role("heading", name="runbooks/agent")).to_be_visible()
    await expect(page.locator(".lineage .fact text")).to_have_text("runbooks/agent")
    await expect(page.locator(".lineage .source.verified")).to_have_count(1)
    await expect(page.locator(".told", has_text="Who proposed and decided")).to_contain_text("build-agent")
    await expect(page.locator(".told", has_text="Who has it")).to_contain_text("forked with it")
    await look(page, "lineage")
    await page.go_back()
    await page.keyboard.press("u")
    await page.locator(".bend").last.get_by_role("link", name="Go back to this").click()
    await expect(page.get_by_label("YAML of a pin")).to_contain_text("pin:\n    generation: 1")
    await expect(page.get_by_label("YAML of a restore")).to_contain_text("restore:\n    generation: 1\n    id: g1-")
    await expect(page.get_by_text("Branches that keep what is withdrawn")).to_be_visible()
    branches = [each async for each in (await memory.client("reader")).branches(memory.namespace)]
    later = [each for each in branches if each.parent.generation > 1]
    await expect(page.locator(".ways", has_text="Branches").locator("li").first).to_contain_text(later[-1].namespace)
    await expect(page.locator(".affected a").first).to_have_attribute("href", re.compile("/jobs/"))
    await look(page, "rollback")
    pin = await page.get_by_label("YAML of a pin").inner_text()
    memory.kubectl("apply", "--server-side", "--dry-run=server", "--filename=-", stdin=pin)
    other = await opened(rosa)  # who may not declare Baselines
    await other.goto(f"{other.url}baselines/{memory.namespace}/{reviewing.BASELINE}")
    await expect(other.locator(".bend").first).to_be_visible()
    assert await other.get_by_role("link", name="Go back to this").count() == 0


async def look(page, name: str) -> None:
    """Take a picture of a page, and check that everybody can use it."""
    await page.screenshot(path=SCREENSHOTS / f"{name}.png")
    found = await Axe().run(page)
    assert found.violations_count == 0, found.generate_report()


async def test_nobody_comes_in_without_the_link(rosa, opened):
    page = await opened(re.sub(r"/enter.*", "/", rosa))
    await expect(page.get_by_role("heading", name="Come in by your link")).to_be_visible()
    assert await page.locator("[data-item]").count() == 0
    opened.complaints.clear()  # the browser tells of the 403


@pytest.mark.parametrize("size", SIZES)
async def test_pages_are_for_everybody_at_every_size(memory, rosa, opened, size):
    reader = await memory.client("reader")
    waiting = [job async for job in reader.jobs(memory.namespace, state="awaiting_review")]
    if not waiting:
        await reviewing.conflict(memory, "runbooks/look")
        waiting = [job async for job in reader.jobs(memory.namespace, state="awaiting_review")]
    page = await opened(rosa, size)
    for name in ("queue", "job"):
        if name == "job":
            await page.locator("[data-item]").first.click()
            await expect(page.get_by_role("button", name="Accept")).to_be_visible()
        await look(page, f"{name}-{size}")
        width = await page.evaluate("document.documentElement.scrollWidth")
        assert width <= SIZES[size][0], f"{name} is {width} wide"
