"""Every link between the pages of this repository leads somewhere, and so does each test that one names."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from urllib.parse import unquote

import pytest
from markdown_it import MarkdownIt

ROOT = Path(__file__).parents[2]
OURS = ("*.md", "docs/**/*.md", "examples/*/README.md", "benchmarks/*.md", "deploy/**/*.md", "charts/**/*.md",
        "operator/**/*.md")  # fmt: skip
PAGES = sorted({path for pattern in OURS for path in ROOT.glob(pattern)})


def tokens(page):
    for token in MarkdownIt().enable("table").parse(page.read_text(encoding="utf-8")):
        yield token
        yield from token.children or ()


def links(page):
    """Targets of links and images that stay in the repository."""
    for token in tokens(page):
        target = token.attrGet("href") or token.attrGet("src")
        if target and not re.match(r"[a-z]+:", str(target)):
            yield unquote(str(target))


@cache
def sections(page):
    """The anchors of a page, as GitHub makes them of its headings."""
    found, heading = [], False
    for token in tokens(page):
        heading = token.type == "heading_open" or (heading and token.type != "heading_close")
        if heading and token.type == "inline":
            text = "".join(part.content for part in token.children)
            anchor = re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")
            found.append(f"{anchor}-{found.count(anchor)}" if anchor in found else anchor)
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_of_a_page_leads_somewhere(page):
    for link in links(page):
        path, _, section = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.is_relative_to(ROOT), link
        assert target.exists(), link
        if section and target.suffix == ".md":
            assert section in sections(target), link


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_test_that_a_page_names_is_there(page):
    for name, path in re.findall(r"\[`(test_\w+)…?`\]\(([^)]+)\)", page.read_text(encoding="utf-8")):
        assert f"def {name}" in (page.parent / path).read_text(encoding="utf-8"), name


def test_every_page_of_the_docs_is_reached_from_their_index():
    reached, todo = set(), [ROOT / "docs/README.md"]
    while todo:
        page = todo.pop()
        if page in PAGES and page not in reached:
            reached.add(page)
            todo += [(page.parent / link.partition("#")[0]).resolve() for link in links(page)]
    assert {page for page in PAGES if page.is_relative_to(ROOT / "docs")} <= reached


def test_each_failure_mode_names_a_test_of_it():
    rows = [line for line in (ROOT / "docs/failure_modes.md").read_text().splitlines() if line.startswith("| ")]
    modes = [row for row in rows if not row.startswith(("| ---", "| what fails"))]
    assert len(modes) > 30
    assert [row for row in modes if not re.search(r"\[`test_\w+`\]\([^)]+\) \|$", row)] == []


def test_the_quickstart_shows_commands_of_the_readme_and_of_the_installation():
    def commands(page):
        blocks = re.findall(r"^```sh\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
        return {line for block in blocks for line in block.splitlines()}

    shown = commands(ROOT / "docs/quickstart.md")
    assert len(shown) > 4
    assert shown <= commands(ROOT / "README.md") | commands(ROOT / "docs/install.md")


def test_the_readme_leads_to_the_index():
    assert "docs/README.md" in set(links(ROOT / "README.md"))
