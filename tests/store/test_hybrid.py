"""Records that say much the same in other words are found, within the same bounds as those that have the words."""

from __future__ import annotations

import asyncio
import importlib.util
from datetime import timedelta

import numpy as np
import pytest
from safetensors.numpy import save_file
from tests.store import building, retaining, served
from tests.store.building import version
from tests.store.indexes import indexed, small_segments
from tests.store.world import AUTOMATIC, TEAM, World
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace

from anabranch.branches import private
from anabranch.domain import vectors as domain
from anabranch.model.errors import InvalidInputError, UnavailableError
from anabranch.search import embedding, meaning, vectorizing
from anabranch.search.asking import Search, Searcher, search
from anabranch.store import indexing, restoring, vectors

QUESTION = "who looks after the payment service"
ANSWER = "The owner of billing is team ledger."
SCOPES = ("shared",)


@pytest.fixture(scope="session")
def embedder():
    return embedding.load(embedding.PACKAGED)


class Away:
    """An embedder that made the vectors, and cannot be reached by now."""

    def __init__(self, embedder):
        self.name, self.dimensions = embedder.name, embedder.dimensions

    async def embed(self, _texts):
        raise UnavailableError("The embedder does not answer.")


async def embedded(db, line, embedder):
    await indexed(db, line)
    while await vectorizing.turn(db, embedder):
        pass


async def ask(db, line, embedder, text=QUESTION, *, ref="current", mode="hybrid", scopes=SCOPES, branch=None, **page):
    asked = Search(line=line, ref=ref, scopes=scopes, text=text, mode=mode, branch=branch)
    asking = Searcher(db, meaning=None if embedder is None else meaning.Meaning(embedder))
    return await asking.search(asked, **{"offset": 0, "limit": 10, **page})


def keys(found):
    return [hit.key for hit in found.hits]


async def services(db):
    line = await building.new_line(db)
    told = {
        "a/owner": ANSWER,
        "a/port": "Billing listens on port 8080.",
        "b/oven": "The oven of the canteen is cleaned on Fridays.",
        "c/after": "After the release, look at the dashboards.",
    }
    await building.import_records(db, line, told)
    return line


async def test_a_record_without_the_words_is_found_by_its_meaning_and_says_so(db, embedder):
    line = await services(db)
    await embedded(db, line, embedder)
    by_words = await ask(db, line, embedder, "team that pays invoices", mode="words")
    assert (by_words.mode, by_words.words_alone) == ("words", "asked")
    found = await ask(db, line, embedder, "billing maintainer")
    assert (found.mode, found.words_alone, found.without_vector, found.complete) == ("hybrid", None, 0, True)
    assert keys(found)[0] == "a/owner"
    assert found.hits[0].found_by == ("words", "meaning")
    assert "b/oven" not in keys(found), "what has nothing to do with it is not found"
    other = await ask(db, line, embedder, "kitchen stove washing schedule")
    assert [(hit.key, hit.found_by) for hit in other.hits] == [("b/oven", ("meaning",))]
    assert (await ask(db, line, embedder, "kitchen stove washing schedule", mode="words")).hits == []


async def test_scores_do_not_depend_on_the_page_and_pages_follow_each_other(db, embedder):
    line = await services(db)
    await embedded(db, line, embedder)
    whole = await ask(db, line, embedder, "billing port owner after oven")
    assert len(whole.hits) == 4
    pages = [await ask(db, line, embedder, "billing port owner after oven", offset=at, limit=2) for at in (0, 2)]
    assert [hit for page in pages for hit in page.hits] == whole.hits
    assert [page.more for page in pages] == [True, False]
    assert all(0 < hit.score <= 1 for hit in whole.hits)


async def test_without_an_embedder_or_with_one_that_is_away_words_do_and_the_answer_says_so(db, embedder):
    line = await services(db)
    await embedded(db, line, embedder)
    for which, why in ((None, "off"), (Away(embedder), "unavailable")):
        found = await ask(db, line, which, "billing owner")
        assert (found.mode, found.words_alone, keys(found)[0]) == ("words", why, "a/owner")


async def test_what_has_no_vector_yet_is_found_by_its_words_and_counted(db, embedder):
    line = await services(db)
    await indexed(db, line)
    found = await ask(db, line, embedder, "billing owner")
    assert (found.mode, found.without_vector) == ("hybrid", 4)
    assert (found.hits[0].key, found.hits[0].found_by) == ("a/owner", ("words",))
    # What is not even in the index has its vector made by the search.
    await building.publish_versions(db, line, version("d", "Kitchen stove: washing schedule."))
    found = await ask(db, line, embedder, "when is the oven cleaned")
    assert ("d", ("meaning",)) in [(hit.key, hit.found_by) for hit in found.hits]


async def test_vectors_of_another_model_are_not_compared_and_are_made_anew(db, embedder):
    line = await services(db)
    await embedded(db, line, embedder)
    other = embedding.Table(embedder._tokenizer, embedder._table, name="other")
    assert (await ask(db, line, other, "billing owner")).without_vector == 4
    while await vectorizing.turn(db, other):
        pass
    assert (await ask(db, line, other, "billing owner")).without_vector == 0
    assert (await ask(db, line, embedder, "billing owner")).without_vector == 4


async def test_a_generation_shows_what_it_had_and_no_other(db, embedder):
    line = await building.new_line(db)
    await building.import_records(db, line, {"x": "The oven of the canteen is cleaned on Fridays."})
    await building.publish_versions(db, line, version("x", "Income tax returns are due in April."))
    await building.publish_versions(db, line, version("x"))
    await embedded(db, line, embedder)
    for ref, oven, tax in ((1, True, False), (2, False, True), (3, False, False)):
        assert bool((await ask(db, line, embedder, "kitchen stove washing", ref=ref)).hits) == oven
        assert bool((await ask(db, line, embedder, "deadline for taxes", ref=ref)).hits) == tax


async def test_scopes_that_may_not_be_read_are_not_looked_at(db, embedder):
    line = await building.new_line(db)
    await building.import_records(db, line, {})
    await building.publish_versions(
        db,
        line,
        version("open", "The oven of the canteen is cleaned on Fridays."),
        version("closed", "The oven of the canteen is cleaned on Mondays.", scope="team/a"),
    )
    await embedded(db, line, embedder)
    text = "kitchen stove washing"
    assert keys(await ask(db, line, embedder, text)) == ["open"]
    assert sorted(keys(await ask(db, line, embedder, text, scopes=("shared", "team/a")))) == ["closed", "open"]
    assert keys(await ask(db, line, embedder, text, scopes=())) == []


async def test_a_branch_finds_its_private_records_by_meaning_in_the_place_of_what_is_published(db, embedder):
    world = World(db)
    await world.import_documents(
        {"oven": "The oven of the canteen is cleaned on Fridays.", "tax": "Taxes."}, **AUTOMATIC
    )
    run = await world.apply_branch("run")
    await embedded(db, run.line, embedder)
    text = "kitchen stove washing"

    async def note(key, content):
        await private.put(
            db, branch=run, key=key, content=content, scope="shared", visibility=None, expected=None, readable=SCOPES
        )

    async def found():
        hits = (await ask(db, run.line, embedder, text, ref=run.parent_generation, branch=run)).hits
        return {hit.key: (hit.layer, hit.found_by) for hit in hits}

    assert await found() == {"oven": ("base", ("meaning",))}
    await note("oven", "Nothing of that sort any more.")
    assert await found() == {}
    await note("own", "Clean all stoves in our kitchens on Tuesdays.")
    assert await found() == {"own": ("private", ("meaning",))}


async def test_segments_that_are_put_together_lose_no_vector_for_good(db, embedder, monkeypatch):
    small_segments(monkeypatch, documents=40)
    line = await building.new_line(db)
    await building.import_records(db, line, {})
    for number in range(9):
        await building.publish_versions(db, line, version(f"k{number}", f"Oven {number} is cleaned on Fridays."))
        await embedded(db, line, embedder)
    async with db.connection() as conn:
        assert len(await indexing.sizes(conn, line=line)) < 9
    found = await ask(db, line, embedder, "kitchen stove washing")
    assert (len(found.hits), found.without_vector) == (9, 0)


async def test_what_retention_removed_is_passed_over(db, embedder):
    line = await building.new_line(db)
    await building.import_records(db, line, {"x": "The oven of the canteen is cleaned on Fridays.", "y": "Taxes."})
    await building.publish_versions(db, line, version("x", "The oven is cleaned on Mondays."))
    await indexed(db, line)
    await retaining.retain(db, line, generations=1, age=timedelta(), events=timedelta())
    await embedded(db, line, embedder)
    found = await ask(db, line, embedder, "kitchen stove washing")
    assert [(hit.key, hit.revision) for hit in found.hits] == [("x", "2")]


async def test_no_segment_is_claimed_twice_at_a_time_and_a_claim_of_the_dead_runs_out(db, embedder):
    line = await building.new_line(db)
    await building.import_records(db, line, {})
    for number in range(6):
        await building.publish_versions(db, line, version(f"k{number}", f"text {number}"))
        await indexed(db, line)

    async def claim(lease):
        async with db.transaction() as conn:
            return await vectors.claim(conn, model=embedder.name, lease=timedelta(seconds=lease))

    claimed = [one for one in await asyncio.gather(*(claim(60) for _ in range(8))) if one is not None]
    while (one := await claim(60)) is not None:
        claimed.append(one)
    assert len(claimed) == len(set(claimed)) == 6
    assert not await vectorizing.turn(db, embedder)
    async with db.connection() as conn:
        await conn.execute("UPDATE search_vectors SET claimed_until = now() - interval '1s'")
    assert [await vectorizing.turn(db, embedder) for _ in range(7)] == [True] * 6 + [False]
    assert (await ask(db, line, embedder, "text")).without_vector == 0


async def test_a_segment_that_goes_while_its_vectors_are_made_leaves_nothing(db, embedder):
    line = await services(db)
    await indexed(db, line)

    class Slow(Away):
        async def embed(self, texts):
            async with db.transaction() as conn:
                await indexing.drop_segments(conn, line=line, segments=[1])
            return await embedder.embed(texts)

    assert await vectorizing.turn(db, Slow(embedder))
    async with db.connection() as conn:
        assert await conn.fetchval("SELECT count(*) FROM search_vectors") == 0


async def test_an_embedder_that_fails_leaves_the_segment_for_later(db, embedder):
    line = await services(db)
    await indexed(db, line)
    with pytest.raises(UnavailableError):
        await vectorizing.turn(db, Away(embedder))
    assert not await vectorizing.turn(db, embedder), "it is claimed for a while"
    async with db.connection() as conn:
        await conn.execute("UPDATE search_vectors SET claimed_until = now() - interval '1s'")
    await embedded(db, line, embedder)
    assert (await ask(db, line, embedder, "billing owner")).without_vector == 0


async def test_a_restore_brings_back_what_is_found(db, embedder):
    line = await services(db)
    await building.publish_versions(db, line, version("b/oven"))
    await restoring.restore(db, line=line, generation=1, restore_id="back")
    await embedded(db, line, embedder)
    assert keys(await ask(db, line, embedder, "kitchen stove washing", ref=2)) == []
    assert keys(await ask(db, line, embedder, "kitchen stove washing", ref=3)) == ["b/oven"]


async def test_search_without_meaning_is_what_it_was(db, embedder):
    line = await services(db)
    await embedded(db, line, embedder)
    asked = Search(line=line, ref="current", scopes=SCOPES, text="owner of billing")
    found = await search(db, asked, offset=0, limit=10)
    assert (found.mode, found.words_alone) == ("words", "asked")
    assert all(hit.found_by == ("words",) for hit in found.hits)


async def test_over_http_a_search_is_by_meaning_unless_it_says_otherwise_and_its_cursor_is_its_own(
    db, database, embedder
):
    async with served.serving(db, database.api) as place:
        told = {
            "oven": "The oven of the canteen is cleaned on Fridays.",
            "stove": "The stove is clean.",
            "tax": "Taxes.",
        }
        state = await place.world.import_documents(told, **AUTOMATIC)
        await embedded(db, state.line.line, embedder)
        store = place.parts.stores.default
        store.searcher = Searcher(store.db, meaning=meaning.Meaning(embedder))
        client = await place.client()
        text = "kitchen stove washing"
        page = await client.search(TEAM, state.line.name, text, limit=1)
        assert (page.mode, page.words_alone) == ("hybrid", None)
        assert [(hit.key, hit.found_by) for hit in page.items] == [("stove", ("words", "meaning"))]
        rest = await client.search(TEAM, state.line.name, text, limit=1, cursor=page.next_cursor)
        assert [(hit.key, hit.found_by) for hit in rest.items] == [("oven", ("meaning",))]
        by_words = await client.search(TEAM, state.line.name, text, mode="words")
        assert [hit.key for hit in by_words.items] == ["stove"]
        with pytest.raises(InvalidInputError) as caught:
            await client.search(TEAM, state.line.name, text, mode="words", cursor=page.next_cursor)
        assert caught.value.code == "InvalidCursor"


def test_an_embedder_that_is_not_there_or_no_table_is_refused_with_what_to_do(tmp_path, monkeypatch):
    with pytest.raises(InvalidInputError, match=r"tokenizer\.json is missing") as caught:
        embedding.load(str(tmp_path))
    assert "wordllama" in caught.value.hint
    (tmp_path / "tokenizer.json").write_text("{}")
    (tmp_path / "model.safetensors").write_bytes(b"none")
    with pytest.raises(InvalidInputError, match="cannot be loaded"):
        embedding.load(str(tmp_path))
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    with pytest.raises(InvalidInputError, match="not installed") as caught:
        embedding.load(embedding.PACKAGED)
    assert "anabranch[embeddings]" in caught.value.hint


async def test_another_table_is_taken_from_its_folder_and_its_vectors_are_its_own(tmp_path, embedder):
    table = np.eye(4, 64, dtype=np.float32)
    tokenizer = Tokenizer(WordLevel({"oven": 0, "stove": 1, "tax": 2, "?": 3}, unk_token="?"))
    tokenizer.pre_tokenizer = Whitespace()
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    save_file({"embeddings": table}, tmp_path / "model.safetensors")
    own = embedding.load(str(tmp_path))
    assert (own.dimensions, own.name != embedder.name) == (64, True)
    assert (await own.embed(["tax tax", "oven stove", ""]))[:, :3] == pytest.approx(
        np.array([[0, 0, 1], [0.5**0.5, 0.5**0.5, 0], [0, 0, 0]], dtype=np.float32)
    )
    save_file({"embeddings": table, "weights": table}, tmp_path / "model.safetensors")
    with pytest.raises(InvalidInputError, match="another layout"):
        embedding.load(str(tmp_path))


def test_the_signs_that_most_vectors_share_are_those_of_the_nearest():
    chance = np.random.default_rng(1)
    made = chance.standard_normal((400, 128)).astype(np.float32)
    made /= np.linalg.norm(made, axis=1, keepdims=True)
    query = made[37] + 0.2 * made[38]
    query /= np.linalg.norm(query)
    pack = domain.Pack(128)
    pack.add(made[:150])
    pack.add(made[150:])
    found = domain.most_alike({5: pack.signs}, query, most=20)
    assert found[0].tolist()[1:] == [5, 37]
    assert found[:, 0].tolist() == sorted(found[:, 0].tolist())
    exact = (made > 0) != (query > 0)
    assert found[:, 0].tolist() == sorted(exact.sum(axis=1).tolist())[:20]
    codes = [pack.codes[at * 128 : at * 128 + 128] for at in range(400)]
    assert domain.cosines([*codes, None], query) == pytest.approx([*(made @ query).tolist(), 0.0], abs=0.02)
