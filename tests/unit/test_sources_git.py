"""git: locators, against real repositories."""

from __future__ import annotations

import asyncio
import os
import subprocess
from pathlib import Path

import pytest
from tests.store import spans

from anabranch.consolidation.sources import GitRepository, UnreachableSourceError
from anabranch.consolidation.sources import git as git_sources
from anabranch.consolidation.sources.git import GitResolver
from anabranch.model.locators import parse_locator
from anabranch.telemetry import tracing

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


async def test_a_commit_that_no_branch_or_tag_contains_is_not_the_repositorys(resolver, repository, monkeypatch):
    monkeypatch.setattr(git_sources, "_ABSENT_SECONDS", 0.0)
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


async def test_a_fetch_is_a_span_that_names_the_host_and_neither_repository_nor_file(repository, monkeypatch, tmp_path):
    commit = repository.commit("a.md")

    async def mirror(_url, folder):
        await git_sources._git(tmp_path, "clone", "--quiet", "--bare", str(repository.folder), str(folder))

    monkeypatch.setattr(git_sources, "_mirror", mirror)
    source = GitRepository(url="https://git.example/swordfish.git")
    resolver = GitResolver({"docs": source}, folder=tmp_path / "mirrors")
    with spans.recorded() as seen, tracing.begun("validate"):
        assert (await look(resolver, commit, "a.md")).verified
    fetch = seen.one("fetch repository")
    assert (seen.parent(fetch), fetch.kind.name, dict(fetch.attributes)) == (
        "validate",
        "CLIENT",
        {"server.address": "git.example"},
    )

    async def breaks(*_):
        raise UnreachableSourceError("swordfish does not answer.", hint="")

    monkeypatch.setattr(git_sources, "_mirror", breaks)
    with spans.recorded() as seen, tracing.begun("validate"), pytest.raises(UnreachableSourceError):
        await look(resolver, "0" * 40, "a.md")
    assert seen.one("fetch repository").attributes["error.type"] == UnreachableSourceError.code
    assert not [text for text in seen.texts() if "swordfish" in text]


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


async def test_a_git_that_hangs_is_ended_with_all_that_it_started(repository, monkeypatch, tmp_path):
    commit = repository.commit("a.md")
    script, note = tmp_path / "bin" / "git", tmp_path / "pid"
    script.parent.mkdir()
    script.write_text(f"#!/bin/sh\nsleep 60 &\necho $! > {note}.new && mv {note}.new {note}\nwait\n")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{script.parent}:{os.environ['PATH']}")
    resolver = GitResolver({"docs": GitRepository(path=str(repository.folder))})

    for seconds in (0.5, 5.0, 30.0):  # until the shell has come to start something
        monkeypatch.setattr(git_sources, "_LOOK_SECONDS", seconds)
        with pytest.raises(UnreachableSourceError, match="longer"):
            await look(resolver, commit, "a.md")
        if note.exists():
            break

    async with asyncio.timeout(60):
        while _runs(int(note.read_text())):  # noqa: ASYNC110  (what is waited for has no event)
            await asyncio.sleep(0.01)


def _runs(pid):
    """Whether a process is there and no zombie, which whoever is its parent by now has yet to notice."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.fixture
def mirrored(repository, tmp_path, monkeypatch):
    """A resolver with a mirror, and the fetches that it makes."""
    fetches = []
    fetch = git_sources._mirror

    async def counted(url, mirror):
        fetches.append(url)
        await fetch(url, mirror)

    monkeypatch.setattr(git_sources, "_mirror", counted)
    repository.run("config", "uploadpack.allowFilter", "true")
    return GitResolver({"docs": GitRepository(url=repository.folder.as_uri())}, folder=tmp_path / "mirrors"), fetches


async def test_a_commit_that_a_fetch_did_not_bring_is_not_fetched_again_for_a_while(mirrored, repository, monkeypatch):
    resolver, fetches = mirrored
    known = repository.commit("a.md")
    for _ in range(3):
        assert not (await look(resolver, "0" * 40, "a.md")).verified
    assert len(fetches) == 1

    assert (await look(resolver, known, "a.md")).verified
    later = repository.commit("b.md")
    assert (await look(resolver, later, "b.md")).verified
    assert len(fetches) == 2  # for the later one alone

    monkeypatch.setattr(git_sources, "_ABSENT_SECONDS", 0.0)
    for _ in range(2):
        assert not (await look(resolver, "1" * 40, "a.md")).verified
    assert len(fetches) == 4


async def test_what_is_remembered_as_absent_is_bounded(mirrored, repository, monkeypatch):
    resolver, _ = mirrored
    repository.commit("a.md")
    monkeypatch.setattr(git_sources, "_ABSENT_AT_MOST", 2)
    for digit in "123":
        await look(resolver, digit * 40, "a.md")
    assert [commit[0] for _, commit in resolver._absent] == ["2", "3"]


async def test_a_commit_that_is_pushed_while_a_fetch_runs_is_found(mirrored, repository, monkeypatch):
    resolver, fetches = mirrored
    repository.commit("a.md")
    fetch, pushed = git_sources._mirror, []

    async def push_meanwhile(url, mirror):
        await fetch(url, mirror)
        if not pushed:
            pushed.append(repository.commit("b.md"))
            pushed.append(asyncio.create_task(look(resolver, pushed[0], "b.md")))
            await asyncio.sleep(0.1)

    monkeypatch.setattr(git_sources, "_mirror", push_meanwhile)
    await look(resolver, "0" * 40, "a.md")

    assert (await pushed[1]).verified
    assert len(fetches) == 2


def test_the_mirror_of_a_repository_that_is_configured_no_more_is_removed_and_nothing_else(tmp_path):
    kept = GitRepository(url="https://git.example.org/kept.git")
    names = [git_sources._mirror_name(str(kept.url)), git_sources._mirror_name("https://git.example.org/gone.git")]
    for name in (*names, "notes", "0123"):
        (tmp_path / name / "refs").mkdir(parents=True)

    GitResolver({"kept": kept}, folder=tmp_path)

    assert sorted(found.name for found in tmp_path.iterdir()) == sorted([names[0], "notes", "0123"])
