"""What the API reads of baselines: pages that fit into memory, within the reader's scopes, with proofs that hold."""

from __future__ import annotations

import json

import pytest
from tests.store import building
from tests.store.building import version

from anabranch.baselines import read, records
from anabranch.model.canonical import hash_text
from anabranch.model.errors import NotFoundError
from anabranch.model.limits import CONTENT_BYTES, PAGE_BYTES
from anabranch.model.objects import PublishedFact
from anabranch.store.reader import Reader


@pytest.fixture
async def line(db):
    line = await building.new_line(db)
    contents = {f"k{number:03}": {"n": number} for number in range(150)}
    await building.import_records(db, line, contents, scopes={"k001": "team"})
    return line


async def page(db, line, *, generation=1, after="", limit=100, scopes=("shared", "team"), **options):
    found, more = await records.page(
        db,
        line=line,
        manifest=read.ref(await read.manifest(db, line=line, ref=generation)),
        scopes=scopes,
        after_key=after,
        limit=limit,
        **{"prefix": "", "tombstones": False, **options},
    )
    return [record.key for record in found], more


async def test_a_page_has_what_was_asked_for_and_says_whether_there_may_be_more(api_db, line):
    keys, more = await page(api_db, line)
    assert (len(keys), keys[0], keys[-1], more) == (100, "k000", "k099", True)
    keys, more = await page(api_db, line, after="k099")
    assert (len(keys), more) == (50, False)
    keys, more = await page(api_db, line, limit=1)
    assert (keys, more) == (["k000"], True)
    assert await page(api_db, line, prefix="none") == ([], False)


async def test_a_page_of_large_records_ends_early_and_the_next_one_goes_on(db, api_db, line):
    large = "x" * 900_000
    await building.publish_versions(db, line, *(version(f"large/{number:02}", large) for number in range(20)))
    read_keys, more = [], True
    while more:  # small ones come first, and say nothing of what is behind them
        keys, more = await page(api_db, line, generation=2, after=read_keys[-1] if read_keys else "", limit=1_000)
        assert sum(key.startswith("large/") for key in keys) * len(large) < PAGE_BYTES + CONTENT_BYTES
        read_keys += keys
    assert read_keys == [f"k{number:03}" for number in range(150)] + [f"large/{number:02}" for number in range(20)]


async def test_a_page_never_holds_a_hidden_record(api_db, line):
    keys, more = await page(api_db, line, limit=3, scopes=["shared"])
    assert (keys, more) == (["k000", "k002", "k003"], True)
    assert await page(api_db, line, scopes=[]) == ([], False)


async def test_a_deleted_key_is_listed_only_where_it_is_asked_for(db, api_db, line):
    await building.publish_versions(db, line, version("k000"))
    assert (await page(api_db, line, generation=2, limit=1))[0] == ["k001"]
    assert (await page(api_db, line, generation=2, limit=1, tombstones=True))[0] == ["k000"]
    gone = await records.one(Reader(api_db), line=line, generation=2, key="k000", scopes=["shared"])
    assert (gone.tombstone, gone.body, gone.revision) == (True, None, 2)


async def test_a_record_travels_in_the_same_json_whether_it_is_put_together_or_taken_apart(db, api_db, line):
    texts = ["plain", "\u00fcn\u00ef \u2028 \U0001f600", '"\\\b\t', {"n": [1, -0.5, 1e30, None, {"\u00e4": "\u001f"}]}]
    named = {f'notes/"quoted" \\ \u00e9 \u2028 {number}': text for number, text in enumerate(texts)}
    await building.publish_versions(
        db, line, version("k000"), *(version(key, text, run='run "1"') for key, text in named.items())
    )
    for key in ("k000", "k002", *named):
        row = await records.one(Reader(api_db), line=line, generation=2, key=key, scopes=["shared"])
        assert PublishedFact.model_validate_json(records.fact_json(row)) == records.fact(key, row)
        assert set(json.loads(records.fact_json(row))) == set(PublishedFact.model_fields)


async def test_a_proof_holds_for_a_record_that_may_be_read_and_is_not_given_for_another(api_db, line):
    manifest = read.ref(await read.manifest(api_db, line=line, ref="current"))
    proven = await records.proven(Reader(api_db), line=line, manifest=manifest, key="k002", scopes=["shared"])
    proven.check(manifest.manifest_hash)
    for key in ("k001", "absent"):
        with pytest.raises(NotFoundError):
            await records.proven(Reader(api_db), line=line, manifest=manifest, key=key, scopes=["shared"])


async def test_baselines_are_described_in_the_order_they_were_asked_for(db, api_db, line):
    other = await building.new_line(db, name="other", uid="uid-2")
    states = await read.describe(api_db, [other, line])
    assert [state.name for state in states] == ["other", "facts"]
    assert (states[0].current, states[1].current.generation) == (None, 1)
    manifest = await read.manifest(api_db, line=line, ref=1)
    assert states[1].current.manifest_hash == hash_text(manifest.manifest_hash)
