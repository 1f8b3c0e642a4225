"""A directory as an archive: what is taken, in which scope, from which source, and always the same."""

from __future__ import annotations

import hashlib
import io
import os
import subprocess

import pytest

from anabranch.archive import ArchiveReader, ArchiveTornError
from anabranch.archive.directory import _FileReader, write_archive
from anabranch.archive.git import GitTree
from anabranch.archive.settings import ImportSettings
from anabranch.archive.walk import scan
from anabranch.model.errors import InvalidInputError, TooLargeError


def fill(root, files):
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(text if isinstance(text, bytes) else text.encode())
    return root


def imported(root, *, git=None, **overrides):
    output = io.BytesIO()
    settings = ImportSettings.load(root).override(**overrides)
    result = write_archive(scan(root, settings), output, created_by="test/1", git=git)
    reader = ArchiveReader(io.BytesIO(output.getvalue()), expected_digest=result.summary.digest)
    return {record.key: record for record in reader}, result


FILES = {
    "README.md": "# Team\n\nHello.\n",
    "runbooks/ci.md": "---\nscope: team/build\n---\n# CI\n\n## Cache\n\nWarm.\n",
    "services.yaml": "records:\n  - {key: services/api, content: {port: 8080}, scope: team/platform}\n",
    "pins.json": '{"python": "3.11"}',
    "costs.jsonl": '{"id": "2025-01", "eur": 5}\n',
}


def test_every_format_gives_its_records_in_their_scopes(tmp_path):
    records, result = imported(fill(tmp_path, FILES))
    assert {key: (record.scope, record.content) for key, record in records.items()} == {
        "README": ("shared", {"title": "Team", "text": "Hello."}),
        "costs#2025-01": ("shared", {"id": "2025-01", "eur": 5}),
        "pins": ("shared", {"python": "3.11"}),
        "runbooks/ci": ("team/build", {"title": "CI", "text": ""}),
        "runbooks/ci#cache": ("team/build", {"title": "Cache", "text": "Warm."}),
        "services/api": ("team/platform", {"port": 8080}),
    }
    assert list(records) == sorted(records)
    assert result.scopes == {"shared": 3, "team/build": 2, "team/platform": 1}
    assert (result.summary.records, result.skipped, result.private, result.committed) == (6, (), 0, 0)


def test_a_record_names_the_file_and_its_digest(tmp_path):
    records, _ = imported(fill(tmp_path, FILES))
    for key, path in {"runbooks/ci#cache": "runbooks/ci.md", "costs#2025-01": "costs.jsonl"}.items():
        digest = hashlib.sha256(FILES[path].encode()).hexdigest()
        assert records[key].source_locators == (f"import:{path}@sha256:{digest}",)


def test_the_same_files_are_the_same_archive_wherever_they_lie_and_whenever_they_were_written(tmp_path):
    first, second = fill(tmp_path / "a", FILES), fill(tmp_path / "b/c", dict(reversed(FILES.items())))
    os.utime(second / "pins.json", (1, 1))
    assert imported(first)[1].summary == imported(second)[1].summary


def test_sources_of_a_document_come_after_the_file_itself(tmp_path):
    records, _ = imported(fill(tmp_path, {"a.md": "---\nsources: ['https://example.com/x']\n---\nText\n"}))
    assert [s.partition(":")[0] for s in records["a"].source_locators] == ["import", "https"]


def test_too_many_sources_are_refused(tmp_path):
    sources = [f"https://example.com/{n}" for n in range(32)]
    with pytest.raises(InvalidInputError, match=r"^a\.md: a record has more than 32 sources"):
        imported(fill(tmp_path, {"a.md": f"---\nsources: {sources}\n---\nText\n"}))


def test_two_places_that_state_one_key_are_both_named(tmp_path):
    fill(tmp_path, {"a.md": "# A\n", "b.jsonl": '\n{"key": "a", "content": 1}\n'})
    with pytest.raises(InvalidInputError, match=r"^b\.jsonl:2 and a\.md both state the record 'a'") as caught:
        imported(tmp_path)
    assert "front matter" in caught.value.hint


def test_what_gives_no_record_is_reported_with_the_reason(tmp_path):
    fill(
        tmp_path,
        {
            "a.md": "text",
            "binary.md": b"\x89PNG\0\0",
            "empty.md": "\n\n",
            "logo.png": b"x",
            ".hidden.md": "x",
            ".git/x.md": "x",
        },
    )
    os.mkfifo(tmp_path / "pipe.md")
    _, result = imported(tmp_path)
    assert [(skip.path, skip.reason) for skip in result.skipped] == [
        ("binary.md", "binary"),
        ("empty.md", "states no record"),
        ("logo.png", "unknown kind of file"),
        ("pipe.md", "not a regular file"),
    ]


def test_a_name_that_is_not_utf8_is_reported_and_never_a_key(tmp_path):
    fill(tmp_path, {"a.md": "text"})
    with open(os.fsencode(tmp_path) + b"/\xff.md", "wb") as handle:  # noqa: PTH123  (a name that str cannot hold)
        handle.write(b"x")
    records, result = imported(tmp_path)
    assert list(records) == ["a"]
    assert result.skipped[0].reason == "name is not UTF-8"


def test_a_link_is_followed_to_a_file_below_the_root_only(tmp_path):
    root = fill(tmp_path / "root", {"a.md": "text", "folder/b.md": "b"})
    fill(tmp_path, {"secret.md": "secret"})
    (root / "inside.md").symlink_to("a.md")
    (root / "outside.md").symlink_to("../secret.md")
    (root / "dangling.md").symlink_to("nowhere.md")
    (root / "loop").symlink_to(".")
    records, result = imported(root)
    assert list(records) == ["a", "folder/b", "inside"]
    assert {skip.path: skip.reason for skip in result.skipped} == {
        "outside.md": "symbolic link that leads out of the directory",
        "loop": "symbolic link to a directory",
        "dangling.md": "not a regular file",
    }


def test_a_private_document_stays_out_and_is_counted(tmp_path):
    fill(tmp_path, {"a.md": "text", "b.md": "---\nvisibility: private\n---\n# B\n## C\n"})
    records, result = imported(tmp_path)
    assert (list(records), result.private, result.skipped) == (["a"], 2, ())


def test_settings_give_scopes_by_the_longest_prefix_and_ignore_patterns(tmp_path):
    fill(
        tmp_path,
        {
            ".anabranch.yaml": "scope: team/all\n"
            "scopes: {runbooks: team/ops, runbooks/ci: team/build}\n"
            "ignore: ['*/draft-*']\n",
            "a.md": "x",
            "runbooks/r.md": "x",
            "runbooks/ci/c.md": "x",
            "runbooks/ci/draft-d.md": "x",
            "runbooks-old/o.md": "x",
        },
    )
    records, _ = imported(tmp_path)
    assert {key: record.scope for key, record in records.items()} == {
        "a": "team/all",
        "runbooks/r": "team/ops",
        "runbooks/ci/c": "team/build",
        "runbooks-old/o": "team/all",
    }
    records, _ = imported(tmp_path, scope="other", scopes={"runbooks/ci/": "team/ci"})
    assert [records[key].scope for key in ("a", "runbooks/r", "runbooks/ci/c")] == ["other", "team/ops", "team/ci"]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[]", "is no object"),
        ("scpoe: x", "has no 'scpoe'"),
        ("scope: X", "is no scope"),
        ("scopes: []", "scopes is no object"),
        ("scopes: {a: X}", r"scopes\.a 'X' is no scope"),
        ("ignore: a", "ignore is no list"),
        ("a: [", "not plain YAML"),
        ("scope: a\n---\nscope: b", "more than one document"),
    ],
)
def test_settings_that_are_not_understood_are_refused(tmp_path, text, complaint):
    with pytest.raises(InvalidInputError, match=complaint):
        ImportSettings.load(fill(tmp_path, {".anabranch.yaml": text}))


def test_a_directory_without_records_or_that_is_none_is_refused(tmp_path):
    with pytest.raises(InvalidInputError, match="holds no record"):
        imported(fill(tmp_path / "a", {"x.txt": "x"}))
    with pytest.raises(InvalidInputError, match="is no directory"):
        imported(tmp_path / "absent")


def test_a_failed_import_leaves_nothing_that_reads_as_an_archive(tmp_path):
    fill(tmp_path, {"a.md": "x", "b.json": "{"})
    output = io.BytesIO()
    with pytest.raises(InvalidInputError, match=r"^b\.json: "):
        write_archive(scan(tmp_path, ImportSettings()), output, created_by="test/1")
    with pytest.raises(ArchiveTornError):
        ArchiveReader(io.BytesIO(output.getvalue()))


def test_a_file_that_changes_while_it_is_read_is_refused(tmp_path):
    fill(tmp_path, {"a.jsonl": "1\n" * 20_000})
    directory = scan(tmp_path, ImportSettings())
    records = _FileReader(directory.files[0], None).records()
    next(records)
    with (tmp_path / "a.jsonl").open("a") as handle:
        handle.write("2\n")
    with pytest.raises(InvalidInputError, match=r"a\.jsonl changed while it was read"):
        list(records)


def test_a_file_too_large_to_parse_whole_is_refused_by_name(tmp_path):
    fill(tmp_path, {"big.md": b"x" * ((16 << 20) + 1)})
    with pytest.raises(TooLargeError, match=r"^big\.md is larger than 16,777,216 bytes"):
        imported(tmp_path)


def test_a_section_larger_than_a_record_is_refused_by_line(tmp_path):
    fill(tmp_path, {"big.md": "# Big\n\n## Log\n\n" + "x" * (1 << 20)})
    with pytest.raises(InvalidInputError, match=r"^big\.md:3: The content has 1,0"):
        imported(tmp_path)


def test_more_scopes_than_a_line_may_have_are_refused(tmp_path):
    fill(tmp_path, {f"{n}.md": f"---\nscope: s{n}\n---\nx\n" for n in range(33)})
    with pytest.raises(TooLargeError, match="in 33 scopes, the limit is 32"):
        imported(tmp_path)


def test_progress_is_told_after_each_file(tmp_path):
    seen = []
    directory = scan(fill(tmp_path, FILES), ImportSettings())
    write_archive(directory, io.BytesIO(), created_by="t/1", progress=seen.append)
    assert seen == list(directory.files)
    assert [file.path for file in seen] == ["README.md", "costs.jsonl", "pins.json", "runbooks/ci.md", "services.yaml"]


def git(folder, *arguments):
    command = ["git", "-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "commit.gpgsign=false", *arguments]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def repository(tmp_path):
    root = fill(tmp_path / "repository", {"docs/a.md": "a\n", "docs/sub/b.jsonl": "1\n", "other.md": "o\n"})
    git(root, "init", "-q", "-b", "main")
    git(root, "add", ".")
    git(root, "commit", "-q", "-m", "first")
    return root


def sources(root, key):
    records, result = imported(root, git=GitTree.open(root, repository="handbook"))
    return records[key].source_locators, result.committed


def test_a_committed_file_names_the_commit_that_brought_it(repository):
    first = git(repository, "rev-parse", "HEAD")
    fill(repository, {"docs/sub/b.jsonl": "2\n"})
    git(repository, "commit", "-qam", "second")
    second = git(repository, "rev-parse", "HEAD")
    docs = repository / "docs"
    assert sources(docs, "a")[0][1:] == (f"git:handbook@{first}:docs/a.md",)
    assert sources(docs, "sub/b#1") == (
        ("import:sub/b.jsonl@sha256:" + hashlib.sha256(b"2\n").hexdigest(), f"git:handbook@{second}:docs/sub/b.jsonl"),
        2,
    )
    assert git(repository, "show", f"{second}:docs/sub/b.jsonl") == "2"


def test_a_file_brought_by_a_merge_names_a_commit_that_holds_it(repository):
    git(repository, "checkout", "-q", "-b", "side")
    fill(repository, {"docs/c.md": "c\n"})
    git(repository, "add", ".")
    git(repository, "commit", "-qm", "side")
    git(repository, "checkout", "-q", "main")
    fill(repository, {"other.md": "p\n"})
    git(repository, "commit", "-qam", "main")
    git(repository, "merge", "-q", "--no-edit", "side")
    (_, locator), _ = sources(repository / "docs", "c")
    commit = locator.removeprefix("git:handbook@").partition(":")[0]
    assert commit == git(repository, "rev-parse", "HEAD")
    assert git(repository, "show", f"{commit}:docs/c.md") == "c"


def test_a_changed_an_untracked_and_a_linked_file_have_no_git_locator(repository):
    fill(repository, {"docs/a.md": "changed\n", "docs/new.md": "new\n"})
    (repository / "docs/link.md").symlink_to("sub/b.jsonl")
    git(repository, "add", "docs/link.md")
    git(repository, "commit", "-qm", "link")
    for key in ("a", "new", "link"):
        assert len(sources(repository / "docs", key)[0]) == 1
    git(repository, "add", "docs/a.md")
    assert len(sources(repository / "docs", "a")[0]) == 1


def test_an_unrelated_commit_does_not_change_the_archive(repository):
    docs = repository / "docs"
    before = imported(docs, git=GitTree.open(docs, repository="handbook"))[1].summary
    fill(repository, {"other.md": "p\n"})
    git(repository, "commit", "-qam", "unrelated")
    assert imported(docs, git=GitTree.open(docs, repository="handbook"))[1].summary == before


def test_no_work_tree_or_no_commit_gives_no_git_tree(tmp_path):
    assert GitTree.open(fill(tmp_path / "plain", {"a.md": "x"}), repository="handbook") is None
    git(tmp_path / "plain", "init", "-q")
    assert GitTree.open(tmp_path / "plain", repository="handbook") is None


def test_a_repository_name_that_no_locator_can_hold_is_refused(repository):
    with pytest.raises(InvalidInputError, match="is no source locator"):
        imported(repository, git=GitTree.open(repository, repository="Hand Book"))


def test_a_repository_of_sha256_objects_is_understood(tmp_path):
    root = fill(tmp_path, {"a.md": "a\n"})
    git(root, "init", "-q", "--object-format=sha256")
    git(root, "add", ".")
    git(root, "commit", "-qm", "first")
    assert sources(root, "a")[0][1] == f"git:handbook@{git(root, 'rev-parse', 'HEAD')}:a.md"
