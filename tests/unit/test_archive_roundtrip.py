"""What is written is read: the same records, the same bytes, in bounded memory."""

from __future__ import annotations

import io
import itertools
import json
import tracemalloc

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from anabranch.archive import (
    ArchiveHeader,
    ArchiveLimits,
    ArchiveManifest,
    ArchiveReader,
    ArchiveRecord,
    ArchiveTooLargeError,
    ArchiveWriter,
    WithheldRecord,
)
from anabranch.archive.record import encode_record
from anabranch.model.canonical import canonical_bytes, content_hash
from anabranch.model.errors import InvalidInputError

IMPORT = ArchiveHeader(kind="import", created_by="test/1")
EXPORT = ArchiveHeader(
    kind="export",
    created_by="test/1",
    manifest=ArchiveManifest(line="ln_x", baseline_id="bl_x", generation=7, manifest_hash="sha256:" + "7" * 64),
    partial=True,
    withheld_scopes=("team/build",),
)
SOURCE = "import:a.md@sha256:" + "a" * 64


def archive(records, *, header=IMPORT, withheld=(), limits=None):
    output = io.BytesIO()
    with ArchiveWriter(output, header, limits=limits) as writer:
        for record in records:
            writer.write(record)
        for pair in withheld:
            writer.withhold(pair)
    return output.getvalue(), writer.summary


def record(key, content="x"):
    return ArchiveRecord.of(key=key, scope="shared", content=content, source_locators=(SOURCE,))


HASHES = st.binary(min_size=32, max_size=32).map(lambda digest: f"sha256:{digest.hex()}")
KEYS = st.text('ab#/é\U0001f600"\\ ', min_size=1, max_size=8)
CONTENTS = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.text(max_size=20) | st.floats(-1e9, 1e9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@st.composite
def exported(draw):
    tombstone = draw(st.booleans())
    plain = ArchiveRecord.of(key=draw(KEYS), scope="team/build", content=None if tombstone else draw(CONTENTS))
    revision = draw(st.integers(1, 2**63 - 1))
    earlier = st.lists(st.integers(1, revision - 1), max_size=2) if revision > 1 else st.just([])
    return plain._replace(
        source_locators=tuple(draw(st.lists(st.sampled_from([SOURCE, 'https://example.com/ä?q="\\']), max_size=2))),
        origin_runs=tuple(draw(st.lists(st.text(max_size=6), max_size=2))),
        revision=revision,
        supersedes=tuple(draw(earlier)),
        validated_at=draw(st.sampled_from([None, "2025-03-01T09:30:00Z", "2025-03-01T09:30:00.123456Z"])),
        fact_hash=draw(HASHES),
        tombstone=tombstone,
    )


@given(
    st.lists(exported(), max_size=8, unique_by=lambda entry: entry.key),
    st.dictionaries(HASHES, HASHES, max_size=4),
    st.integers(1, 400),
)
def test_an_export_reads_back_whatever_the_chunks(records, pairs, chunk):
    records.sort(key=lambda entry: entry.key)
    withheld = [WithheldRecord(key_hash=key, descriptor_hash=pairs[key]) for key in sorted(pairs)]
    data, summary = archive(records, header=EXPORT, withheld=withheld)
    reader = ArchiveReader((data[i : i + chunk] for i in range(0, len(data), chunk)), expected_digest=summary.digest)
    assert reader.header == EXPORT
    assert list(reader) == [*records, *withheld]
    assert (reader.trailer.records, reader.trailer.withheld) == (len(records), len(withheld))
    assert reader.trailer.records_digest == summary.records_digest


@given(exported())
def test_a_line_is_the_canonical_form_of_its_members(entry):
    members = {
        "content": entry.content,
        "content_hash": entry.content_hash,
        "fact_hash": entry.fact_hash,
        "key": entry.key,
        "origin_runs": list(entry.origin_runs),
        "revision": str(entry.revision),
        "scope": entry.scope,
        "source_locators": list(entry.source_locators),
        "supersedes": [str(revision) for revision in entry.supersedes],
        "tombstone": entry.tombstone,
        "validated_at": entry.validated_at,
    }
    kept = ("content", "source_locators")
    present = {name: value for name, value in members.items() if name in kept or value not in (None, False, [])}
    assert encode_record(entry) == canonical_bytes(present)


def test_keys_sort_by_their_utf8_bytes():
    keys = ["a", "a#b", "a/b", "aa", "é", "\uff41", "\U0001f600"]
    assert sorted(keys) == sorted(keys, key=str.encode) == keys
    data, _ = archive(map(record, keys))
    assert [entry.key for entry in ArchiveReader(io.BytesIO(data))] == keys


def test_the_same_records_are_the_same_bytes():
    records = [record(f"k{n:05}", {"n": n, "text": "word " * 30}) for n in range(5_000)]
    assert archive(records)[0] == archive(records)[0]


def test_the_lines_are_as_the_specification_shows_them():
    data, summary = archive([record("a", {"title": "A"})])
    lines = zstandard.ZstdDecompressor().decompressobj().decompress(data).decode().split("\n")
    header = '{"created_by":"test/1","format":"anabranch.archive","kind":"import","partial":false,"version":1'
    content = f'{{"content":{{"title":"A"}},"content_hash":"{content_hash({"title": "A"})}","key":"a"'
    assert lines == [
        f'{header},"withheld_scopes":[]}}',
        f'{content},"scope":"shared","source_locators":["{SOURCE}"]}}',
        f'{{"records":1,"records_digest":"{summary.records_digest}","withheld":0}}',
        "",
    ]


@pytest.mark.parametrize("keys", [("a", "a"), ("b", "a")])
def test_a_writer_refuses_a_key_twice_or_out_of_order(keys):
    with pytest.raises(InvalidInputError, match="does not come after"):
        archive(map(record, keys))


def test_a_writer_refuses_to_withhold_unless_the_archive_is_partial():
    pair = WithheldRecord(key_hash="sha256:" + "1" * 64, descriptor_hash="sha256:" + "2" * 64)
    with pytest.raises(InvalidInputError, match="cannot be withheld"):
        archive([], withheld=[pair])
    with pytest.raises(InvalidInputError, match="cannot be withheld"):
        archive([], header=EXPORT, withheld=[pair, pair])


def test_a_writer_refuses_history_in_an_import_and_its_absence_in_an_export():
    with pytest.raises(InvalidInputError, match="has a history, in an import"):
        archive([record("a")._replace(revision=1)])
    with pytest.raises(InvalidInputError, match="lacks revision or fact_hash"):
        archive([record("a")], header=EXPORT)


def test_a_writer_that_failed_leaves_no_summary():
    writer = ArchiveWriter(io.BytesIO(), IMPORT)
    with pytest.raises(ZeroDivisionError), writer:
        raise ZeroDivisionError
    with pytest.raises(RuntimeError, match="not complete"):
        _ = writer.summary


def test_a_writer_writes_nothing_that_a_reader_would_refuse():
    with pytest.raises(ArchiveTooLargeError) as caught:
        archive([record("a"), record("b")], limits=ArchiveLimits(records=1))
    assert caught.value.extra == {"limit": "records"}
    with pytest.raises(ArchiveTooLargeError) as caught:
        archive([record(f"{n:04}", "a" * 900_000) for n in range(20)])
    assert caught.value.extra == {"limit": "ratio"}
    with pytest.raises(ArchiveTooLargeError) as caught:
        archive([record("a")], limits=ArchiveLimits(compressed=20))
    assert caught.value.extra == {"limit": "compressed"}


def test_content_beyond_a_mebibyte_is_refused():
    assert record("a", "x" * ((1 << 20) - 2)).body
    with pytest.raises(InvalidInputError, match=r"1,048,577 bytes in canonical form, the limit is 1,048,576"):
        record("a", "x" * ((1 << 20) - 1))


def test_reading_holds_a_few_lines_whatever_the_size():
    content = json.loads(json.dumps({"text": "word " * 100}))
    data, _ = archive(record(f"k{n:06}", {**content, "n": n}) for n in range(30_000))
    tracemalloc.start()
    try:
        assert sum(1 for _ in ArchiveReader(data[i : i + 4096] for i in range(0, len(data), 4096))) == 30_000
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()


def test_records_are_handed_out_before_the_source_ends():
    data, _ = archive(record(f"k{n:06}", {"n": n, "noise": str(hash(str(n)))}) for n in range(20_000))
    served = itertools.count()
    reader = ArchiveReader(data[i : i + 4096] for i in range(0, len(data), 4096) if next(served) >= 0)
    next(iter(reader))
    assert next(served) < len(data) / 4096 / 2
