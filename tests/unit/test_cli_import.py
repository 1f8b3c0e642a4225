"""`anabranch import` of a directory: what it writes, what it leaves behind, what it says."""

import hashlib
import json

import pytest

from anabranch.cli.branch import read_content
from anabranch.cli.main import run
from anabranch.model.errors import InvalidInputError


@pytest.fixture
def docs(tmp_path):
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "guide.md").write_text("# Guide\n\nRead it.\n\n## Build\n\nRun make.\n")
    (folder / "notes.jsonl").write_text('{"key": "a", "content": 1, "visibility": "private"}\n')
    (folder / "secret.env").write_text("A=1")
    return folder


@pytest.fixture
def imported(capsys):
    def do(*arguments):
        assert run(["import", *map(str, arguments), "-o", "json"]) == 0
        out, err = capsys.readouterr()
        assert not err, "no bar where standard error is no terminal"
        return json.loads(out)

    return do


def test_the_archive_is_written_whole_under_its_digest(docs, imported, tmp_path):
    file = tmp_path / "docs.anabranch"
    found = imported(docs, "--file", file)
    assert found["digest"] == f"sha256:{hashlib.sha256(file.read_bytes()).hexdigest()}"
    assert (found["records"], found["bytes"], found["file"]) == (2, file.stat().st_size, str(file))
    assert (found["scopes"], found["leftOutAsPrivate"]) == ({"shared": 2}, 1)
    assert [entry for entry in found["skipped"] if entry.startswith("secret.env")]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["docs", "docs.anabranch"]


def test_without_a_file_it_only_says_what_would_be_imported(docs, imported, tmp_path, monkeypatch):
    monkeypatch.chdir(docs)
    found = imported(".")
    assert found["records"] == 2
    assert "file" not in found
    assert sorted(path.name for path in tmp_path.iterdir()) == ["docs"]
    assert sorted(path.name for path in docs.iterdir()) == ["guide.md", "notes.jsonl", "secret.env"]


def test_scopes_can_be_given_for_parts_of_it(docs, imported):
    assert imported(docs, "--scope", "team/a", "--scope-of", "guide.md=team/b")["scopes"] == {"team/b": 2}


def test_a_document_that_cannot_be_read_leaves_no_archive(docs, tmp_path, capsys):
    (docs / "broken.yaml").write_text("a: [")
    assert run(["import", str(docs), "--file", str(tmp_path / "out")]) == 1
    assert "broken.yaml:2" in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["docs"]


def test_a_scope_of_must_be_a_pair(docs, capsys):
    assert run(["import", str(docs), "--scope-of", "guide.md"]) == 2
    assert "PATH=SCOPE" in capsys.readouterr().err


def test_many_skipped_files_are_cut_for_people_and_whole_for_programs(docs, imported, capsys):
    for number in range(20):
        (docs / f"{number}.bin").write_bytes(b"\0")
    assert len(imported(docs)["skipped"]) == 21
    assert run(["import", str(docs)]) == 0
    assert "… and 11 more" in capsys.readouterr().out


def test_content_is_json_and_plain_text_gets_advice(monkeypatch, tmp_path):
    assert read_content('{"a": 1}') == {"a": 1}
    with pytest.raises(InvalidInputError, match=r"CONTENT is not JSON: .* in quotation marks"):
        read_content("Drain the cache first.")
    file = tmp_path / "content"
    file.write_text('"typed"')
    with file.open() as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        assert read_content(None) == "typed"
