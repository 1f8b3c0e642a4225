"""An export is believed only where its records lead to the root: every alteration shows."""

from __future__ import annotations

import io

import pytest

from anabranch.archive import (
    ArchiveHeader,
    ArchiveManifest,
    ArchiveReader,
    ArchiveRecord,
    ArchiveWriter,
    WithheldRecord,
)
from anabranch.archive.errors import ArchiveDigestError
from anabranch.archive.verifying import verify
from anabranch.domain.facts import Fact
from anabranch.domain.trie import Descriptor, root_of
from anabranch.model.canonical import hash_bytes, hash_text

FACT = Fact(
    source_locators=("git:repo@0000000000000000000000000000000000000000:a",), origin_runs=("run_1",), supersedes=(1,)
)


def record(key, **changes):
    made = ArchiveRecord.of(key=key, scope="shared", content={"key": key}, source_locators=FACT.source_locators)
    return made._replace(
        revision=5, fact_hash=hash_text(FACT.hash), origin_runs=FACT.origin_runs, supersedes=(1,), **changes
    )


def pair(one):
    return Descriptor(
        key=one.key,
        revision=one.revision,
        scope=one.scope,
        content_hash=hash_bytes(one.content_hash),
        fact_hash=hash_bytes(one.fact_hash),
        tombstone=one.tombstone,
    ).pair


RECORDS = [record(f"key-{number:03}") for number in range(100)]
ROOT = hash_text(root_of(sorted(map(pair, RECORDS))))


def archive(records, *, withheld=(), root=ROOT):
    output = io.BytesIO()
    manifest = ArchiveManifest(baseline_id="bl_1", generation=1, manifest_hash=root)
    header = ArchiveHeader(kind="export", created_by="test", manifest=manifest, partial=bool(withheld))
    with ArchiveWriter(output, header) as writer:
        for one in records:
            writer.write(one)
        for key, descriptor in sorted(map(pair, withheld)):
            writer.withhold(WithheldRecord(key_hash=hash_text(key), descriptor_hash=hash_text(descriptor)))
    output.seek(0)
    return ArchiveReader(output)


@pytest.mark.parametrize("carried", [0, 1, 50, 100])
def test_the_records_and_the_hashes_of_the_others_lead_to_the_root(carried):
    told = []
    verified = verify(archive(RECORDS[:carried], withheld=RECORDS[carried:]), root=ROOT, progress=told.append)
    assert (verified.trailer.records, verified.trailer.withheld) == (carried, 100 - carried)
    assert verified.scopes == (("shared",) if carried else ())


@pytest.mark.parametrize(
    "changes",
    [
        {"revision": 6},
        {"scope": "team/red"},
        {"key": "key-0500"},
        {"body": b'"other"', "content_hash": ArchiveRecord.of(key="k", scope="s", content="other").content_hash},
        {
            "tombstone": True,
            "body": b"null",
            "content_hash": ArchiveRecord.of(key="k", scope="s", content=None).content_hash,
        },
    ],
)
def test_a_record_that_was_altered_leads_elsewhere(changes):
    altered = [*RECORDS[:50], RECORDS[50]._replace(**changes), *RECORDS[51:]]
    with pytest.raises(ArchiveDigestError, match="lead to the root"):
        verify(archive(altered))


@pytest.mark.parametrize(
    "changes",
    [
        {"source_locators": ("git:repo@1111111111111111111111111111111111111111:a",)},
        {"origin_runs": ()},
        {"supersedes": ()},
        {"validated_at": "2026-01-01T00:00:00Z"},
    ],
)
def test_sources_that_were_altered_are_not_what_their_hash_says(changes):
    with pytest.raises(ArchiveDigestError, match="fact_hash"):
        verify(archive([RECORDS[0]._replace(**changes), *RECORDS[1:]]))


def test_a_record_that_is_left_out_is_missed():
    with pytest.raises(ArchiveDigestError, match="lead to the root"):
        verify(archive(RECORDS[1:]))


def test_a_record_cannot_be_carried_and_withheld():
    with pytest.raises(ArchiveDigestError, match="at once"):
        verify(archive(RECORDS, withheld=RECORDS[:1]))


def test_another_manifest_than_the_trusted_one_is_refused_before_anything_is_read():
    with pytest.raises(ArchiveDigestError, match="not sha256:"):
        verify(archive(RECORDS), root=hash_text(b"\0" * 32))
