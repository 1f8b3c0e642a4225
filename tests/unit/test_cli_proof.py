"""Proofs and verification without a network: what holds is said to hold, and no forgery passes."""

import json
import socket
from datetime import UTC, datetime

import pytest

from anabranch.cli.main import run
from anabranch.cli.verify import Computation
from anabranch.domain.facts import Fact
from anabranch.domain.proven import ProvenRecord, descriptor_of
from anabranch.domain.trie import build, prove
from anabranch.model.canonical import content_hash, hash_text
from anabranch.model.objects import BaselineManifest, ManifestRef, PublishedFact

NULL = content_hash(None)


def fact(key, content, *, revision=1, scope="shared", tombstone=False):
    known = Fact(
        source_locators=(f"https://example.org/{key}",),
        origin_runs=("run_1",),
        validated_at=datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC),
        supersedes=(1, 2),
    )
    return PublishedFact(
        key=key,
        revision=str(revision),
        scope=scope,
        content=None if tombstone else content,
        content_hash=NULL if tombstone else content_hash(content),
        fact_hash=hash_text(known.hash),
        source_locators=known.source_locators,
        origin_runs=known.origin_runs,
        validated_at=known.validated_at,
        supersedes=("1", "2"),
        tombstone=tombstone,
    )


FACTS = [fact(f"key/{n}", {"n": n}, revision=n) for n in range(1, 50)] + [fact("gone", None, tombstone=True)]
NODES = list(build(sorted(descriptor_of(each).pair for each in FACTS)))
ROOT = hash_text(NODES[-1].hash)
PROVEN = ProvenRecord(
    manifest=ManifestRef(baseline_id="bl_1", generation=3, manifest_hash=ROOT),
    record=FACTS[6],
    proof=prove({node.path: node.body for node in NODES}, descriptor_of(FACTS[6]).key_hash),
)
OTHER_ROOT = content_hash("another root")


@pytest.fixture(autouse=True)
def offline(monkeypatch):
    def refuse(*_arguments, **_settings):
        raise AssertionError("a proof is checked without any network")

    monkeypatch.setattr(socket, "socket", refuse)


@pytest.fixture
def check(tmp_path, capsys):
    """Checks a proof, altered as told, and gives exit code, standard output and standard error."""

    def do(*options, text=None, **record):
        body = PROVEN.model_dump(mode="json")
        body["record"].update(record)
        file = tmp_path / "proof.json"
        file.write_text(json.dumps(body) if text is None else text)
        code = run(["baseline", "check-proof", str(file), "-o", "json", *options])
        out, err = capsys.readouterr()
        return code, out, err

    return do


def test_a_proof_holds_against_a_root_that_is_trusted(check):
    code, out, err = check("--root", ROOT)
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert (found["key"], found["content"], found["root"], found["trusted"]) == ("key/7", {"n": 7}, ROOT, True)


def test_without_a_root_it_says_that_the_file_only_agrees_with_itself(check):
    code, out, _ = check()
    found = json.loads(out)
    assert (code, found["trusted"]) == (0, False)
    assert "--root" in found["note"]


@pytest.mark.parametrize(
    "forgery",
    [
        {"content": {"n": 8}},
        {"content": {"n": 8}, "content_hash": content_hash({"n": 8})},
        {"source_locators": ["https://example.org/elsewhere"]},
        {"origin_runs": []},
        {"validated_at": None},
        {"supersedes": []},
        {"revision": "8"},
        {"scope": "team/build"},
        {"key": "key/8"},
        {"fact_hash": content_hash("x")},
    ],
    ids=str,
)
def test_no_member_of_the_record_can_be_forged(check, forgery):
    code, out, err = check(**forgery)
    assert (code, out) == (1, "")
    assert err.startswith("Error: The ")


def test_a_proof_for_another_root_fails(check):
    code, out, err = check("--root", OTHER_ROOT)
    assert (code, out) == (1, "")
    assert f"The proof is for the root {ROOT}, not for {OTHER_ROOT}" in err


def test_a_root_that_is_no_hash_is_refused(check):
    code, _, err = check("--root", "sha256:xyz")
    assert code == 1
    assert "is no hash" in err


@pytest.mark.parametrize(
    "text", ["", "{}", "[1]", "not json", PROVEN.model_dump_json().replace("proof.v1", "proof.v9")]
)
def test_a_file_that_is_no_proof_is_said_to_be_none(check, text):
    code, _, err = check(text=text)
    assert code == 1
    assert "is no proof" in err


def test_the_proof_comes_from_standard_input_too(monkeypatch, tmp_path, capsys):
    file = tmp_path / "proof.json"
    file.write_text(PROVEN.model_dump_json())
    with file.open() as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        assert run(["baseline", "check-proof", "-", "--root", ROOT]) == 0
    assert "trusted: true" in capsys.readouterr().out


def compare(facts, *, records=49, root=ROOT):
    computation = Computation()
    for each in facts:
        computation.add(each)
    manifest = BaselineManifest(
        baseline_id="bl_1",
        generation=3,
        schema_version=1,
        created_at=datetime(2026, 1, 1, tzinfo=UTC),
        parent_generation=2,
        manifest_hash=root,
        records=records,
        origin={"kind": "import"},
        feed_watermark=0,
    )
    return computation.compare(manifest)


def test_all_records_of_a_manifest_lead_to_its_root():
    found = compare(FACTS)
    assert (found["verified"], found["computed"], found["records"]) == (True, ROOT, 49)
    assert "note" not in found


@pytest.mark.parametrize("change", [{"content": "x"}, {"source_locators": ()}], ids=["content", "provenance"])
def test_an_altered_record_is_named_even_where_its_hashes_lead_to_the_root(change):
    found = compare([FACTS[0].model_copy(update=change), *FACTS[1:]])
    assert (found["verified"], found["computed"], found["altered"]) == (False, ROOT, ["key/1"])


def test_hidden_records_make_it_incomplete_and_not_altered():
    found = compare(FACTS[2:])
    assert not found["verified"]
    assert "altered" not in found
    assert found["note"].startswith("2 of 49 records are in scopes that this token may not read")


def test_a_manifest_that_stands_for_other_records_is_not_verified():
    found = compare(FACTS, root=OTHER_ROOT)
    assert not found["verified"]
    assert "they are not what the manifest's hash stands for" in found["note"]


def test_a_hidden_deletion_is_given_as_the_only_innocent_explanation():
    found = compare(FACTS[:-1])
    assert not found["verified"]
    assert "Only deleted keys" in found["note"]
