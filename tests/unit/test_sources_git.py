"""git: locators, against real repositories."""

from __future__ import annotations

import os
import subprocess

import pytest

from anabranch.consolidation.sources import GitRepository, UnreachableSourceError
from anabranch.consolidation.sources import git as git_sources
from anabranch.consolidation.sources.git import GitResolver
from anabranch.model.locators import parse_locator

SETTINGS = {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_SYSTEM": os.devnull,
    **{f"GIT_{who}_{what}": "t@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
}


class Repository:
    def __init__(self, folder):
        self.folder = folder
        folder.mkdir()
        self.run("init", "--quiet", "--initial-branch=main")

    def run(self, *arguments):
        done = subprocess.run(
            ["git", "-C", str(self.folder), *arguments],
            env=os.environ | SETTINGS,
            check=True,
            capture_output=True,
            text=True,
        )
        return done.stdout.strip()

    def commit(self, path, text="text"):
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        self.run("add", "--all")
        self.run("commit", "--quiet", "--message", "change")
        return self.run("rev-parse", "HEAD")


@pytest.fixture
def repository(tmp_path):
    return Repository(tmp_path / "repository")


@pytest.fixture(params=["path", "url"])
def resolver(request, repository, tmp_path):
    """One that reads the repository in place, and one that mirrors it."""
    source = str(repository.folder) if request.param == "path" else repository.folder.as_uri()
    repository.run("config", "uploadpack.allowFilter", "true")
    return GitResolver({"docs": GitRepository(**{request.param: source})}, folder=tmp_path / "mirrors")


async def look(resolver, commit, path, name="docs"):
    return await resolver(None, parse_locator(f"git:{name}@{commit}:{path}"))


async def test_a_file_is_found_at_the_commit_that_has_it(resolver, repository):
    first = repository.commit("guide/setup.md")
    second = repository.commit("guide/new.md")

    assert (await look(resolver, first, "guide/setup.md")).verified
    assert (await look(resolver, second, "guide/new.md")).verified
    absent = await look(resolver, first, "guide/new.md")
    assert not absent.verified
    assert absent == await look(resolver, "0" * 40, "guide/setup.md")


async def test_commits_that_come_later_are_found_too(resolver, repository):
    first = repository.commit("a.md")
    assert (await look(resolver, first, "a.md")).verified

    later = repository.commit("b.md")

    assert (await look(resolver, later, "b.md")).verified


async def test_a_folder_is_no_file_and_a_path_is_no_pattern(resolver, repository):
    commit = repository.commit("guide/setup.md")

    for path in ("guide", "guide/*", ":(glob)**", ":/guide/setup.md", "--help", "Guide/setup.md"):
        assert not (await look(resolver, commit, path)).verified


async def test_names_that_git_would_quote_are_names(resolver, repository):
    commit = repository.commit("guide/größe *[1].md")

    assert (await look(resolver, commit, "guide/größe *[1].md")).verified


async def test_a_commit_that_no_branch_or_tag_contains_is_not_the_repositorys(resolver, repository):
    repository.commit("a.md")
    repository.run("checkout", "--quiet", "--detach")
    stray = repository.commit("forged.md")
    repository.run("update-ref", "refs/pull/1/head", stray)
    repository.run("checkout", "--quiet", "main")

    assert not (await look(resolver, stray, "forged.md")).verified

    repository.run("tag", "kept", stray)
    assert (await look(resolver, stray, "forged.md")).verified


async def test_only_configured_repositories_are_read(resolver, repository):
    commit = repository.commit("a.md")

    found = await look(resolver, commit, "a.md", name="other")

    assert (found.verified, found.detail) == (False, "no repository is configured under the name other")


async def test_a_repository_that_cannot_be_fetched_is_no_refusal(tmp_path):
    resolver = GitResolver({"docs": GitRepository(url=(tmp_path / "nowhere").as_uri())}, folder=tmp_path / "mirrors")

    with pytest.raises(UnreachableSourceError):
        await look(resolver, "0" * 40, "a.md")


async def test_a_git_that_hangs_is_ended(repository, monkeypatch, tmp_path):
    commit = repository.commit("a.md")
    script = tmp_path / "bin" / "git"
    script.parent.mkdir()
    script.write_text("#!/bin/sh\nexec sleep 60\n")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{script.parent}:{os.environ['PATH']}")
    monkeypatch.setattr(git_sources, "_LOOK_SECONDS", 0.2)
    resolver = GitResolver({"docs": GitRepository(path=str(repository.folder))})

    with pytest.raises(UnreachableSourceError, match="longer"):
        await look(resolver, commit, "a.md")
