"""Markdown as records: cut at headings, and nothing lost."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.domain.documents import split
from anabranch.model.errors import InvalidInputError


def records(text: str, path: str = "runbooks/build.md"):
    return list(split(path, text.encode()))


def contents(text: str) -> dict[str, dict]:
    return {record.key: record.content for record in records(text)}


def test_the_leading_text_and_first_title_are_the_files_own_record():
    assert contents("# Build\n\nLead.\n\n## Cache\n\nWarm.\n") == {
        "runbooks/build": {"title": "Build", "text": "Lead."},
        "runbooks/build#cache": {"title": "Cache", "text": "Warm."},
    }


def test_text_before_the_first_title_stays_with_it():
    assert contents("Draft.\n\n# Build\n\nLead.\n")["runbooks/build"] == {"title": "Build", "text": "Draft.\n\n\nLead."}


def test_a_document_that_begins_below_level_one_has_no_record_of_its_own():
    assert list(contents("## Cache\n\nWarm.\n")) == ["runbooks/build#cache"]


def test_a_subheading_stands_below_its_heading():
    keys = list(contents("# B\n## CI\n### Linker\n## Nightly\n#### Deep\n# Second\n## CI\n"))
    assert keys == [
        "runbooks/build",
        "runbooks/build#ci",
        "runbooks/build#ci/linker",
        "runbooks/build#nightly",
        "runbooks/build#nightly/deep",
        "runbooks/build#second",
        "runbooks/build#second/ci",
    ]


@pytest.mark.parametrize(
    "code", ["```sh\n# comment\n```", "~~~\n# comment\n~~~", "    # comment", "> # quoted", "- item\n\n  # in a list"]
)
def test_a_hash_that_is_no_heading_makes_no_record(code):
    assert contents(f"# B\n\n{code}\n") == {"runbooks/build": {"title": "B", "text": code}}


def test_an_underlined_heading_is_a_heading():
    assert contents("# B\n\nCache\n-----\n\nWarm.\n")["runbooks/build#cache"] == {"title": "Cache", "text": "Warm."}


@pytest.mark.parametrize(
    ("title", "slug"),
    [
        ("Linker killed (exit 137) in the payments build", "linker-killed-exit-137-in-the-payments-build"),
        ("Use `make` & *retry*", "use-make--retry"),
        ("[Registry](https://example.com/x) outage", "registry-outage"),
        ("Größe & Übersicht", "größe--übersicht"),
        ("!!!", "section"),
        ("x" * 100, "x" * 64),
    ],
)
def test_a_slug_is_the_anchor_that_a_forge_makes(title, slug):
    assert list(contents(f"## {title}\n")) == [f"runbooks/build#{slug}"]


def test_equal_headings_are_numbered_and_never_collide():
    keys = list(contents("## A\n## A\n## A-1\n## A\n"))
    assert keys == [f"runbooks/build#{slug}" for slug in ("a", "a-1", "a-1-1", "a-2")]


def test_front_matter_sets_key_scope_and_visibility_for_every_record():
    first, second = records("---\nkey: ci\nscope: team/build\nvisibility: private\n---\n# B\n## C\n")
    assert (first.key, second.key) == ("ci", "ci#c")
    assert {(r.scope, r.visibility) for r in (first, second)} == {("team/build", "private")}


def test_front_matter_that_an_import_has_no_meaning_for_stays_with_the_files_own_record():
    (record,) = records("---\nowner: build\nreviewed: 2025-03-01\n---\n# B\n")
    assert record.content["attributes"] == {"owner": "build", "reviewed": "2025-03-01"}


def test_sources_in_front_matter_are_locators():
    (record,) = records("---\nsources: ['https://example.com/a']\n---\nText\n")
    assert record.sources == ("https://example.com/a",)
    with pytest.raises(InvalidInputError, match=r"build\.md: sources\[0\] is neither an https: nor a git: locator"):
        records("---\nsources: ['record:a@1']\n---\nText\n")


def test_two_thematic_breaks_are_no_front_matter():
    assert contents("---\nJust text.\n---\n\nMore.\n")["runbooks/build#just-text"]["text"] == "More."


def test_front_matter_that_is_no_yaml_is_an_error_not_text():
    with pytest.raises(InvalidInputError, match=r"build\.md:3: not plain YAML"):
        records("---\nowner: [build\n---\n# B\n")


def test_an_error_in_front_matter_names_the_files_line():
    with pytest.raises(InvalidInputError, match=r"runbooks/build\.md:3: .*stands twice"):
        records("---\nscope: a\nscope: b\n---\n")


def test_a_wrong_key_in_front_matter_is_refused_even_without_a_record_of_the_files_own():
    with pytest.raises(InvalidInputError, match="key is not a text"):
        records("---\nkey: 7\n---\n## Only\n")


def test_line_ends_do_not_change_a_record():
    assert contents("# B\r\n\r\nLead.\r\n\r\n## C\r\nx\r\n") == contents("# B\n\nLead.\n\n## C\nx\n")


def test_a_place_is_the_line_that_an_editor_shows():
    assert [r.place for r in records("---\nowner: x\n---\n# B\n\n## C\n")] == [
        "runbooks/build.md",
        "runbooks/build.md:6",
    ]


LINES = st.sampled_from(
    ["# One", "## Two", "### Three", "word", "```", "- item", "> quote", "    code", "", "Under", "===", "---", "#x"]
)


@given(st.lists(LINES, max_size=30))
def test_no_word_is_lost_and_none_is_doubled(lines):
    text = "\n".join([*lines, ""])
    found = " ".join(f"{r.content['title']} {r.content['text']}" for r in records(f"# Title\n\n{text}"))
    for word in ("word", "item", "quote", "code", "#x", "One", "Two", "Three", "Under"):
        assert found.count(word) == text.count(word)


@given(st.lists(LINES, max_size=20))
def test_keys_of_one_document_are_unique(lines):
    # A blank first line, for what stands between two breaks at the very top is front matter.
    keys = [record.key for record in records("\n".join(["", *lines]))]
    assert len(set(keys)) == len(keys)
