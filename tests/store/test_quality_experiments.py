"""The two experiments of docs/quality.md: one where consolidation helps recall, and one where it does not.

`make experiments` runs them and shows what they find. They are deterministic, so the page's tables are held to them.
"""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pytest
from tests.store.indexes import indexed
from tests.store.world import AUTOMATIC, World

from anabranch.consolidation import review
from anabranch.domain import evaluation_set, recall
from anabranch.domain.words import text_of
from anabranch.identity import Caller
from anabranch.model.canonical import hash_text, parse_json
from anabranch.model.requests import DecisionRequest
from anabranch.quality import counting, reading
from anabranch.search import embedding, meaning, vectorizing
from anabranch.search.asking import Search, search
from anabranch.store import contents, records

pytestmark = pytest.mark.long

PAGE = Path(__file__).parents[2] / "docs" / "quality.md"
KINDS = ("fact", "update", "new", "contradiction", "tombstone", "paraphrase")
K = 3
NOTES = 600


@pytest.fixture
def world(db):
    return World(db)


async def imported(world, statements):
    """Import statements; the line."""
    text = "".join(json.dumps({"key": one.key, "content": one.text}) + "\n" for one in statements)
    world.kube.config_maps["facts"] = {"services.jsonl": text}
    state = await world.apply_baseline(**AUTOMATIC, **{"import": {"configMap": {"name": "facts"}}})
    return state.line.line


@pytest.fixture(scope="session")
def embedder():
    return embedding.load(embedding.PACKAGED)


async def asked(world, line, tasks, *, embedder=None):
    """What the current generation answers, by meaning too if there is an embedder, and what can be counted of it."""
    await indexed(world.db, line)
    while embedder is not None and await vectorizing.turn(world.db, embedder):
        pass
    by_meaning = None if embedder is None else meaning.Meaning(embedder)
    mode = "words" if embedder is None else "hybrid"
    while await counting.turn(world.db, every=timedelta()):
        pass
    outcomes = []
    for task in tasks:
        wanted = Search(line=line, ref="current", scopes=["shared"], text=task.query, mode=mode)
        found = await search(world.db, wanted, offset=0, limit=10, meaning=by_meaning)
        assert (found.complete, found.mode, found.without_vector) == (True, mode, 0)
        hits = [recall.Hit(hit.key, hit.score) for hit in found.hits]
        async with world.db.connection() as conn:
            generation = found.manifest.generation
            shown = await records.current_of(conn, line=line, generation=generation, keys=task.answers)
            bodies = await contents.get_many(conn, line=line, hashes=[one.content_hash for one in shown.values()])
        texts = {key: text_of(parse_json(bodies[one.content_hash])) for key, one in shown.items()}
        outcomes.append(recall.judge(task, hits, texts=texts))
    return outcomes, await reading.tell(world.db, line=line, ref="current", scopes=[], history=0)


def row(name, outcomes, counted):
    told = recall.report(outcomes, k=K)
    cells = [f"{told.kinds[kind].recall:.2f}" for kind in KINDS]
    return (
        f"| {name} | {counted.total.records} | {counted.total.verified} | **{told.all.recall:.3f}** | "
        f"{told.all.recall_at_1:.3f} | {' | '.join(cells)} |"
    )


def changed(before, after):
    found = recall.change(before, after, k=K)
    return f"{found.mean:+.3f} ({found.low:+.3f} to {found.high:+.3f})", found


def told(*lines):
    """Show what was found, and hold the page to it."""
    print("", *lines, sep="\n")  # noqa: T201  (what the command is for)
    page = PAGE.read_text()
    missing = [line for line in lines if line not in page]
    assert not missing, "docs/quality.md tells something else: copy these lines there"


async def test_findings_that_were_reviewed_make_a_memory_answer_more(world, embedder):
    made = evaluation_set.make()
    line = await imported(world, made.records)
    before, counted = await asked(world, line, made.tasks)
    rows = [row("as imported", before, counted)]

    # Two runs, which know nothing of each other. Where both say something of a record, they disagree.
    first, second = [await world.apply_branch(name) for name in ("first", "second")]
    said = {}
    for finding in made.findings:
        who = second if finding.kind == "contradiction" and finding.right else first
        change = {"key": finding.key, "base": 0 if finding.kind == "new" else 1}
        change |= {"op": "tombstone"} if finding.text is None else {"content": finding.text}
        said.setdefault(who.name, []).append(change)
    for branch in (first, second):
        await world.submit(branch, 1, *said[branch.name])
        await world.work()
    unreviewed, counted = await asked(world, line, made.tasks)
    rows.append(row("what policy accepts", unreviewed, counted))

    # Whoever reviews has read the evidence: what waits here is right.
    for job in await world.jobs():
        if job.state == "awaiting_review":
            wanted = [
                DecisionRequest(
                    candidate_id=one.candidate_id,
                    content_hash=hash_text(one.content_hash),
                    base_revision=str(one.canonical_revision or 0),
                    action="accept",
                )
                for one in await world.candidates(job)
            ]
            reviewer = Caller.for_service_account("people", "rita")
            await review.decide(world.db, job=job, caller=reviewer, decisions=wanted)
    await world.work()
    after, counted = await asked(world, line, made.tasks)
    rows.append(row("what a reviewer accepts, too", after, counted))

    change, found = changed(before, after)
    assert found.low > 0
    assert not found.worse
    told(*rows, f"Change of recall@{K}: {change}.")

    both, _ = await asked(world, line, made.tasks, embedder=embedder)
    change, found = changed(after, both)
    assert found.low >= 0
    kinds = [recall.report(outcomes, k=K).kinds["paraphrase"].recall for outcomes in (after, both)]
    assert kinds[1] > kinds[0]
    told(row("the last, by words and meaning", both, counted), f"Change of recall@{K} from words alone: {change}.")


async def test_true_verified_notes_that_nobody_asks_for_make_it_answer_less(world, embedder):
    made = evaluation_set.make()
    line = await imported(world, made.afterwards())
    before, counted = await asked(world, line, made.tasks)
    rows = [row("as it was", before, counted)]
    run = await world.apply_branch("diarist")
    notes = evaluation_set.notes(made.afterwards(), count=NOTES)
    await world.submit(run, 1, *({"key": one.key, "content": one.text} for one in notes))
    await world.work()
    after, counted = await asked(world, line, made.tasks)
    rows.append(row(f"with {NOTES} notes", after, counted))
    assert counted.total.verified == counted.total.records == len(made.afterwards()) + NOTES

    change, found = changed(before, after)
    assert found.high < 0
    assert not found.better
    told(*rows, f"Change of recall@{K}: {change}.")

    # Meaning is little help against this: the notes mean what they repeat.
    both, _ = await asked(world, line, made.tasks, embedder=embedder)
    assert changed(before, both)[1].high < 0
    change, _ = changed(after, both)
    told(row("with them, by words and meaning", both, counted), f"Change of recall@{K} from words alone: {change}.")
