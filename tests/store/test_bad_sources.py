"""Sources and batches at their limits and beyond: refused with place and words for it, and nothing is half-written."""

from __future__ import annotations

import json

import pytest
import zstandard
from tests.store.world import AUTOMATIC, World

from anabranch.archive import ArchiveHeader, ArchiveRecord
from anabranch.archive.record import encode_record
from anabranch.model.canonical import hash_text, sha256
from anabranch.store import archives, records

FROM_MAP = {"import": {"configMap": {"name": "facts"}}}


@pytest.fixture
async def world(db):
    return World(db)


async def count(world, line, generation=1):
    async with world.db.connection() as conn:
        return await records.count(conn, line=line, generation=generation, scopes=None)


def stalled(state):
    """Reason and message of what stalls a Baseline that has nothing."""
    assert state.head.head_generation == 0
    (condition,) = state.line.conditions
    assert condition["type"] == "Stalled"
    return condition["reason"], condition["message"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"key": "a\\u0007b", "content": 1}', "key 'a\\x07b' holds a control character. Remove it."),
        ('{"key": "e\\u0301", "content": 1}', "is not in Unicode normalization form NFC. Normalize it"),
        ('{"key": "k", "content": NaN}', "The body has NaN, which JSON lacks."),
        ('{"key": "k", "content": 9007199254740993}', "beyond 2^53-1. In content, send it as a string"),
        ('{"key": "k", "content": "\\ud800"}', "$.content has a lone surrogate."),
        ('{"key": "k", "content": ' + "[" * 70 + "]" * 70 + "}", "nested deeper than 64. Flatten the value."),
        ('{"key": "k", "content": 1, "nonsense": 1}', "a record has no member 'nonsense'. Use content, key,"),
        ('{"key": "good", "content": 2}', "the key 'good' stands in facts.jsonl:1 too."),
    ],
)
async def test_a_source_with_one_bad_record_says_where_and_imports_nothing(world, text, words):
    world.kube.config_maps["facts"] = {"facts.jsonl": f'{{"key": "good", "content": 1}}\n{text}\n'}
    state = await world.apply_baseline(**FROM_MAP)
    reason, message = stalled(state)
    assert reason == "InvalidInput"
    assert message.startswith("facts.jsonl:2: ")
    assert words in message
    assert await world.contents_of_table(state.line.line) == 0


async def test_a_config_map_of_900_kib_is_imported_whole(world):
    text = "\n".join(json.dumps({"key": f"k/{number:05}", "content": "x" * 400}) for number in range(2_150))
    assert 900 << 10 < len(text) < 1 << 20
    world.kube.config_maps["facts"] = {"facts.jsonl": text}
    state = await world.apply_baseline(**FROM_MAP)
    assert (state.line.conditions, await count(world, state.line.line)) == ([], 2_150)


def packed(*lines, more=b""):
    header = ArchiveHeader(kind="import", created_by="a test").encode()
    return zstandard.ZstdCompressor().compress(b"".join(line + b"\n" for line in (header, *lines)) + more)


def archived(key, content, path="a.md"):
    locators = (f"import:a.md@sha256:{'a' * 64}",)
    made = ArchiveRecord.of(key=key, scope="shared", content=content, source_locators=locators)
    return encode_record(made).replace(b"import:a.md", f"import:{path}".encode())


@pytest.mark.parametrize(
    ("make", "reason", "words"),
    [
        (lambda: packed(archived("k", 1, "../../passwd")), "ArchiveMalformed", "Line 2: 'import:../../passwd@sha256:"),
        (lambda: packed(more=b"[" * (64 << 20)), "ArchiveTooLarge", "Line 2 of the archive is longer than 2,097,152"),
        (
            lambda: packed(*[archived(f"k{number:04}", "x" * 20_000) for number in range(1_000)]),
            "ArchiveTooLarge",
            "expands to more than 100 times its size.",
        ),
        (lambda: packed(archived("k", 1)), "ArchiveTorn", "ends before its trailer. It was cut off; send it again"),
        (lambda: b"PK\x03\x04 no archive", "ArchiveMalformed", "The bytes are no zstd frame."),
    ],
    ids=["path", "bomb of one line", "bomb of records", "torn", "zip"],
)
async def test_an_archive_that_is_none_stalls_its_baseline_and_imports_nothing(world, make, reason, words):
    body = make()
    spec = {"import": {"archive": {"digest": hash_text(sha256(body))}}}
    line = (await world.apply_baseline(**spec)).line.line

    async def pieces():
        yield body

    await archives.save(world.db, line=line, digest=sha256(body), uploaded_by="ada", chunks=pieces())
    told, message = stalled(await world.apply_baseline(**spec))
    assert told == reason
    assert words in message
    assert await world.contents_of_table(line) == 0


async def test_ten_thousand_changes_are_one_batch_and_one_generation(world):
    line = (await world.import_documents({"a": "first"}, **AUTOMATIC)).line.line
    branch = await world.apply_branch("run")
    await world.submit(branch, 1, *[{"key": f"many/{number:05}", "content": "x"} for number in range(10_000)])
    await world.work()
    assert await count(world, line, 2) == 10_001
    await world.check_roots(line)
