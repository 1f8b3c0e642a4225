"""An archive that is torn, altered, ill-formed or a bomb ends with the error that says so."""

from __future__ import annotations

import hashlib
import io
import json

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from anabranch.archive import (
    ArchiveDigestError,
    ArchiveFormatError,
    ArchiveHeader,
    ArchiveLimits,
    ArchiveReader,
    ArchiveRecord,
    ArchiveTooLargeError,
    ArchiveTornError,
    ArchiveWriter,
)
from anabranch.archive.record import encode_record
from anabranch.model.errors import AnabranchError

SOURCE = "import:a.md@sha256:" + "a" * 64
HEADER = ArchiveHeader(kind="import", created_by="test/1").encode()
EXPORT = {
    "created_by": "t",
    "format": "anabranch.archive",
    "kind": "export",
    "manifest": {"baseline_id": "bl_x", "generation": 1, "manifest_hash": "sha256:" + "1" * 64},
    "partial": True,
    "version": 1,
    "withheld_scopes": [],
}


def record(key, content="x"):
    return ArchiveRecord.of(key=key, scope="shared", content=content, source_locators=(SOURCE,))


LINES = [encode_record(record("a", {"n": 1})), encode_record(record("b", {"n": 2}))]


def trailer(lines, *, withheld=0):
    digest = hashlib.sha256(b"".join(line + b"\n" for line in lines)).hexdigest()
    members = {"records": len(lines) - withheld, "records_digest": f"sha256:{digest}", "withheld": withheld}
    return json.dumps(members, separators=(",", ":")).encode()


def compressed(data, **parameters):
    return zstandard.ZstdCompressor(**parameters).compress(data)


def packed(lines, *, header=HEADER, end=None, withheld=0):
    """An archive of these very lines, with a trailer that fits them unless another is given."""
    end = trailer(lines, withheld=withheld) if end is None else end
    return compressed(b"".join(line + b"\n" for line in [header, *lines, *([end] if end else [])]))


def read(data, **options):
    return list(ArchiveReader(io.BytesIO(data), **options))


def test_the_helpers_make_an_archive():
    assert [entry.key for entry in read(packed(LINES))] == ["a", "b"]


def test_an_archive_without_a_trailer_is_torn():
    reader = ArchiveReader(io.BytesIO(packed(LINES, end=b"")))
    with pytest.raises(ArchiveTornError, match="ends before its trailer"):
        list(reader)
    with pytest.raises(RuntimeError, match="not been read to its end"):
        _ = reader.trailer


def test_an_empty_upload_is_torn():
    with pytest.raises(ArchiveTornError):
        read(b"")


def whole():
    output = io.BytesIO()
    with ArchiveWriter(output, ArchiveHeader(kind="import", created_by="test/1")) as writer:
        for n in range(50):
            writer.write(record(f"k{n:03}", {"n": n, "noise": hashlib.sha256(b"%d" % n).hexdigest()}))
    return output.getvalue(), writer.summary.digest


WHOLE, DIGEST = whole()


@given(st.integers(0, len(WHOLE) - 1))
def test_a_cut_at_any_byte_is_never_read_as_complete(cut):
    with pytest.raises((ArchiveTornError, ArchiveFormatError, ArchiveDigestError)):
        read(WHOLE[:cut], expected_digest=DIGEST)


@given(st.integers(0, len(WHOLE) - 1), st.integers(1, 255))
def test_an_altered_byte_is_never_read_as_complete(place, difference):
    altered = bytearray(WHOLE)
    altered[place] ^= difference
    with pytest.raises(AnabranchError):
        read(bytes(altered), expected_digest=DIGEST)


@given(st.binary(max_size=200))
def test_no_bytes_crash_the_reader(data):
    with pytest.raises(AnabranchError):
        read(data)
    with pytest.raises(AnabranchError):
        read(compressed(data))


def test_another_archive_than_the_one_asked_for_is_refused():
    with pytest.raises(ArchiveDigestError, match="not sha256:0000"):
        read(WHOLE, expected_digest="sha256:" + "0" * 64)


def test_content_that_is_not_what_its_hash_names_is_refused():
    altered = [LINES[0].replace(b'{"n":1}', b'{"n":3}'), LINES[1]]
    with pytest.raises(ArchiveDigestError, match="Line 2: the content of 'a'"):
        read(packed(altered))


def test_a_record_more_or_less_than_the_trailer_counts_is_refused():
    with pytest.raises(ArchiveDigestError, match="trailer counts 2 records"):
        read(packed(LINES[:1], end=trailer(LINES)))
    with pytest.raises(ArchiveDigestError, match="trailer counts 1 records"):
        read(packed(LINES, end=trailer(LINES[:1])))


def test_records_of_the_right_number_and_the_wrong_digest_are_refused():
    with pytest.raises(ArchiveDigestError, match="with another digest"):
        read(packed(LINES, end=trailer(list(reversed(LINES)))))


@pytest.mark.parametrize("more", [b"more\n", LINES[1] + b"\n"])
def test_nothing_hides_behind_the_trailer(more):
    data = b"".join(line + b"\n" for line in [HEADER, *LINES, trailer(LINES)])
    with pytest.raises(ArchiveFormatError, match="goes on after its trailer"):
        read(compressed(data + more))
    with pytest.raises(ArchiveFormatError, match="goes on after its trailer"):
        read(compressed(data) + compressed(more))
    with pytest.raises(ArchiveFormatError, match="does not decompress"):
        read(compressed(data) + b"garbage")


def test_a_last_line_without_its_end_is_torn():
    data = b"".join(line + b"\n" for line in [HEADER, *LINES, trailer(LINES)])
    for torn in (data[:-1], data + b"more"):
        with pytest.raises(ArchiveTornError):
            read(compressed(torn))


@pytest.mark.parametrize("lines", [[LINES[1], LINES[0]], [LINES[0], LINES[0]]])
def test_a_key_twice_or_out_of_order_is_refused(lines):
    with pytest.raises(ArchiveFormatError, match=r"Line 3: .* stands twice or out of order"):
        read(packed(lines))


def mutated(**members):
    value = {**json.loads(LINES[0]), **members}
    kept = {name: member for name, member in value.items() if member != "absent"}
    return json.dumps(kept, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        (b"", "is not JSON"),
        (b"[1]", "not a JSON object"),
        (b"\xff", "is not JSON"),
        (b'{"key":' + b"[" * 100_000, "is not JSON"),
        (b'{"other":1}', "trailer is ill-formed"),
        (LINES[0].replace(b'"key":"a"', b'"key": "a"'), "not in its canonical form"),
        (LINES[0] + b" ", "not in its canonical form"),
        (LINES[0][:-1] + b',"key":"a"}', "not in its canonical form"),
        (LINES[0].replace(b'{"n":1}', b'{"n":1,"n":1}'), "not in its canonical form"),
        (LINES[0].replace(b'{"n":1}', b'{"n":1.0}'), "not in its canonical form"),
        (LINES[0].replace(b'{"n":1}', b'{"n":NaN}'), "no canonical JSON form"),
        (mutated(extra=1), "no member 'extra'"),
        (mutated(origin_runs=[]), "not in its canonical form"),
        (mutated(tombstone=False), "not in its canonical form"),
        (mutated(scope="absent"), "lacks 'scope'"),
        (mutated(content="absent"), "lacks 'content'"),
        (mutated(key=7), "key is not a text"),
        (mutated(key="a\u0301"), "NFC"),
        (mutated(scope="Shared"), "is no scope"),
        (mutated(source_locators=["ftp:x"]), "is no source locator"),
        (mutated(source_locators=[SOURCE.replace("a.md", "../../a.md")]), "is no source locator"),
        (mutated(source_locators=[SOURCE.replace("a.md", "/etc/passwd")]), "is no source locator"),
        (mutated(source_locators="x"), "not a list of texts"),
        (mutated(source_locators=[1]), "not a list of texts"),
        (mutated(revision=1), "not a decimal string"),
        (mutated(revision="01"), "not a decimal string"),
        (mutated(revision="9223372036854775808"), "not a decimal string"),
        (mutated(revision="1"), "has a history, in an import"),
        (mutated(validated_at="2025-13-01T00:00:00Z"), "no instant"),
        (mutated(validated_at="2025-01-01"), "no instant"),
        (mutated(fact_hash="sha256:X"), "is no hash"),
        (mutated(tombstone=True), "a tombstone carries content"),
    ],
)
def test_a_line_that_is_not_as_the_format_demands_is_refused(line, complaint):
    with pytest.raises((ArchiveFormatError, ArchiveDigestError), match=complaint):
        read(packed([line]))


@pytest.mark.parametrize("supersedes", [["5"], ["1", "9"]])
def test_a_record_that_supersedes_itself_or_a_later_one_is_refused_so_there_are_no_cycles(supersedes):
    line = mutated(revision="5", fact_hash="sha256:" + "2" * 64, supersedes=supersedes)
    header = json.dumps(EXPORT, sort_keys=True, separators=(",", ":")).encode()
    with pytest.raises(ArchiveFormatError, match=rf"Line 2: 'a' supersedes revision {supersedes[-1]}, and is at 5"):
        read(packed([line], header=header))
    read(packed([line.replace(f'"{supersedes[-1]}"]'.encode(), b'"4"]')], header=header))


def test_content_nested_too_deeply_is_refused():
    deep = json.loads("[" * 65 + "1" + "]" * 65)
    line = encode_record(record("a", "x")._replace(body=json.dumps(deep, separators=(",", ":")).encode()))
    with pytest.raises(ArchiveFormatError, match="nested deeper than 64"):
        read(packed([line]))


@pytest.mark.parametrize(
    ("header", "complaint"),
    [
        (b"{}", "no archive header"),
        (b"[]", "not a JSON object"),
        (HEADER.replace(b'"version":1', b'"version":2'), "format version 2, this program reads 1"),
        (HEADER.replace(b"import", b"backup"), "header is ill-formed: kind"),
        (HEADER.replace(b'"kind"', b'"extra":1,"kind"'), "header is ill-formed: extra"),
        (HEADER.replace(b'"import"', b'"export"'), "names its manifest"),
        (HEADER + b" ", "header is not in canonical form"),
        (HEADER.replace(b"[]", b'["team/build"]'), "only a partial archive withholds"),
    ],
)
def test_a_header_that_is_not_understood_is_refused_before_any_record(header, complaint):
    with pytest.raises(ArchiveFormatError, match=complaint):
        ArchiveReader(io.BytesIO(packed(LINES, header=header)))


PAIRS = [
    json.dumps(
        {"descriptor_hash": "sha256:" + "d" * 64, "key_hash": "sha256:" + digit * 64}, separators=(",", ":")
    ).encode()
    for digit in "12"
]


@pytest.mark.parametrize(
    ("lines", "complaint"),
    [
        ([PAIRS[1], PAIRS[0]], "withheld out of order"),
        ([PAIRS[0], PAIRS[0]], "withheld out of order"),
        ([PAIRS[0][:-1] + b',"key":null}'], "lacks 'content'"),
        ([PAIRS[0].replace(b"sha256:d", b"sha256:D")], "not two hashes"),
        ([b'{"key_hash":1}'], "not two hashes"),
    ],
)
def test_withheld_records_are_checked_too(lines, complaint):
    header = json.dumps(EXPORT, separators=(",", ":")).encode()
    with pytest.raises(ArchiveFormatError, match=complaint):
        read(packed(lines, header=header, withheld=len(lines)))
    assert len(read(packed(PAIRS, header=header, withheld=2))) == 2


def test_withheld_records_need_an_archive_that_says_so():
    with pytest.raises(ArchiveFormatError, match="unannounced"):
        read(packed(PAIRS, withheld=2))


def limit_of(data, **limits):
    with pytest.raises(ArchiveTooLargeError) as caught:
        read(data, limits=ArchiveLimits(**limits))
    assert caught.value.hint
    return caught.value.extra["limit"]


def test_each_limit_is_named():
    assert limit_of(packed(LINES), records=1) == "records"
    assert limit_of(packed(LINES), line=100) == "line"
    assert limit_of(packed(LINES), compressed=100) == "compressed"
    wide = zstandard.ZstdCompressionParameters.from_level(3, window_log=24)
    stream = zstandard.ZstdCompressor(compression_params=wide).compressobj()
    assert limit_of(stream.compress(b"x" * 100) + stream.flush()) == "window"


def test_a_bomb_of_one_line_is_refused_long_before_it_is_expanded():
    data = compressed(HEADER + b"\n" + b"a" * (32 << 20))
    assert len(data) < 10_000
    assert limit_of(data) == "line"
    assert limit_of(data, line=64 << 20) == "ratio"


def test_a_bomb_of_good_records_is_refused():
    bomb = packed([encode_record(record(f"k{n:02}", "a" * 1_000_000)) for n in range(12)])
    assert limit_of(bomb) == "ratio"


def test_repetition_within_eight_mebibytes_is_no_bomb():
    output = io.BytesIO()
    with ArchiveWriter(output, ArchiveHeader(kind="import", created_by="test/1")) as writer:
        writer.write(record("a", "a" * 1_000_000))
    assert len(output.getvalue()) < 2_000
    assert len(read(output.getvalue())) == 1


def test_chunks_may_be_empty_or_single_bytes():
    chunks = [b"", *(WHOLE[i : i + 1] for i in range(len(WHOLE))), b""]
    assert len(list(ArchiveReader(chunks, expected_digest=DIGEST))) == 50
