"""Recall as a number: what a task counts for, what a change is worth, and which sets are none."""

import itertools

import pytest

from anabranch.domain.recall import Hit, change, interval, judge, parse, report
from anabranch.model.errors import InvalidInputError
from anabranch.model.recall import RecallTask


def task(name="t", **members):
    return RecallTask(id=name, query="what", **members)


def judged(one, *keys, texts=None, best=1.0):
    hits = [Hit(key, best - place / 100) for place, key in enumerate(keys)]
    return judge(one, hits, texts=texts or {})


def test_recall_is_the_share_of_the_answers_among_the_first_k():
    outcome = judged(task(answers=["a", "b"]), "x", "a", "y", "b")
    assert [outcome.recall(k) for k in (1, 2, 3, 4)] == [0.0, 0.5, 0.5, 1.0]
    assert [outcome.reciprocal_rank(k) for k in (1, 2)] == [0.0, 0.5]


def test_an_answer_that_says_something_else_is_none():
    wanted = task(answers=["a"], says="Port 8443")
    assert judged(wanted, "a", texts={"a": "the port 8442"}).recall(10) == 0
    assert judged(wanted, "a", texts={"a": "it is PORT 8443 now"}).recall(10) == 1
    assert judged(wanted, "a").recall(10) == 0, "nobody has looked at what it says"


def test_a_record_that_must_not_be_there_spoils_a_task_only_among_the_first_k():
    gone = judged(task(absent=["old"]), "x", "old")
    assert (gone.recall(1), gone.recall(2)) == (1.0, 0.0)
    both = judged(task(answers=["a"], absent=["old"]), "a", "x", "old")
    assert (both.recall(2), both.recall(3)) == (1.0, 0.0)


def test_a_report_leaves_abstentions_out_of_recall_and_tells_how_well_scores_separate_them():
    outcomes = [
        judged(task("a", answers=["a"]), "a", best=9.0),
        judged(task("b", kind="update", answers=["b"]), "x", "b", best=4.0),
        judged(task("g", kind="tombstone", absent=["g"])),
        judged(task("n", kind="abstention"), "x", best=4.0),
        judged(task("m", kind="abstention")),
    ]
    told = report(outcomes, k=10)
    assert (told.all.tasks, told.all.recall, told.all.recall_at_1) == (3, 1.0, pytest.approx(2 / 3))
    assert told.all.mrr == pytest.approx(0.75), "of the two that have answers"
    assert sorted(told.kinds) == ["fact", "tombstone", "update"]
    assert told.kinds["tombstone"].mrr is None
    assert (told.abstention.tasks, told.abstention.silent) == (2, 0.5)
    # 9 beats both, 4 beats the silent one and half of the other.
    assert told.abstention.separation == pytest.approx((2 + 1.5) / 4)


def test_a_set_of_abstentions_alone_has_no_recall():
    told = report([judged(task("n"), "x")], k=10)
    assert told.all is None
    assert told.abstention.separation is None


def test_a_change_is_told_task_by_task_with_an_interval_that_holds_it():
    wanted = [task(f"t{number}", answers=["a"]) for number in range(40)]
    before = [judged(one, "a" if number < 30 else "x") for number, one in enumerate(wanted)]
    after = [judged(one, "a" if number >= 4 else "x") for number, one in enumerate(wanted)]
    told = change(before, after, k=10)
    assert told.mean == pytest.approx((10 - 4) / 40)
    assert told.low < told.mean < told.high
    assert told.worse == ("t0", "t1", "t2", "t3")
    assert told.better == tuple(f"t{number}" for number in range(30, 40))
    assert told == change(before, after, k=10), "the same each time"


def test_a_change_compares_only_what_is_on_both_sides():
    old, new = task("old", answers=["a"]), task("new", answers=["a"])
    assert change([judged(old, "a")], [judged(new, "x")], k=10) is None
    both = change([judged(old, "a")], [judged(old, "a"), judged(new, "x")], k=10)
    assert (both.mean, both.worse) == (0.0, ())


def test_the_interval_holds_the_true_mean_about_as_often_as_it_says():
    import random

    chance, held = random.Random(3), 0
    for _ in range(200):
        low, high = interval([float(chance.random() < 0.3) for _ in range(60)], resamples=400)
        held += low <= 0.3 <= high
    assert 180 <= held <= 199


def test_a_set_is_read_a_task_a_line():
    data = b'{"id": "a", "query": "one", "answers": ["k"]}\n\n{"id": "b", "kind": "update", "query": "two"}\n'
    assert [(one.id, one.kind, one.counts) for one in parse(data, name="set.jsonl")] == [
        ("a", "fact", True),
        ("b", "update", False),
    ]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b"{", "not JSON"),
        (b"[]", "must be a JSON object"),
        (b'{"id": "a"}', "query"),
        (b'{"id": "a", "query": "x", "answer": ["k"]}', "no such field"),
        (b'{"id": "a b", "query": "x"}', "id"),
        (b'{"id": "a", "query": "x", "says": "y"}', "no answer|there is none"),
        (b'{"id": "a", "query": "x", "answers": ["k"], "absent": ["k"]}', "both"),
        (b'{"id": "a", "query": "x", "answers": ["\\u0007"]}', "answers"),
        (b'{"id": "ok", "query": "x"}', "twice"),
        (b"\xff", "UTF-8"),
    ],
)
def test_what_is_wrong_with_a_set_is_told_with_its_line(line, words):
    with pytest.raises(InvalidInputError, match=f"set.jsonl:2: .*({words})"):
        parse(b'{"id": "ok", "query": "x"}\n' + line, name="set.jsonl")


def test_a_set_that_is_empty_or_too_large_is_none():
    with pytest.raises(InvalidInputError, match="0 tasks"):
        parse(b"\n", name="s")
    lines = b"\n".join(b'{"id": "t%d", "query": "x"}' % number for number in range(501))
    with pytest.raises(InvalidInputError, match="501 tasks"):
        parse(lines, name="s")
    with pytest.raises(InvalidInputError, match="bytes"):
        parse(b" " * ((1 << 20) + 1), name="s")


def test_the_projects_own_set_is_the_same_each_time_and_has_every_kind():
    from anabranch.domain import evaluation_set

    made, again = evaluation_set.make(), evaluation_set.make()
    assert (made.records, made.findings, made.tasks) == (again.records, again.findings, again.tasks)
    assert evaluation_set.make(seed=8).tasks != made.tasks
    assert {one.kind for one in made.tasks} == {
        "fact", "update", "new", "contradiction", "tombstone", "paraphrase", "abstention",
    }  # fmt: skip
    assert len({one.id for one in made.tasks}) == len(made.tasks)
    assert len({one.key for one in made.records}) == len(made.records)


def test_the_projects_own_set_can_be_answered_in_full_only_once_its_findings_are_facts():
    """A reader who knows the records by heart: what the set asks is what they say, before and after."""
    from anabranch.domain import evaluation_set

    made = evaluation_set.make()
    before = {record.key: record.text for record in made.records}
    after = {record.key: record.text for record in made.afterwards()}

    def share(texts, kind):
        asked = [one for one in made.tasks if one.kind == kind]
        outcomes = [
            judged(one, *(key for key in itertools.chain(one.answers, one.absent) if key in texts), texts=texts)
            for one in asked
        ]
        return sum(outcome.recall(10) for outcome in outcomes) / len(outcomes)

    counted = {one.kind for one in made.tasks if one.counts}
    assert {kind: share(after, kind) for kind in counted} == dict.fromkeys(counted, 1.0)
    assert {kind for kind in counted if share(before, kind) == 1.0} == {"fact", "paraphrase"}
    assert {kind for kind in counted if share(before, kind) == 0.0} == counted - {"fact", "paraphrase"}


def test_no_answer_of_the_projects_own_set_is_said_by_what_it_replaces():
    from anabranch.domain import evaluation_set

    for seed in range(200):
        made = evaluation_set.make(seed=seed, services=30)
        texts = {record.key: record.text for record in made.records}
        wrong = [(one.key, one.text) for one in made.findings if not one.right]
        for one in made.tasks:
            if one.says and one.kind != "new":
                assert one.says not in texts[one.answers[0]]
                assert not [text for key, text in wrong if key in one.answers and one.says in text]


def test_a_paraphrase_shares_no_word_with_its_record_but_the_services_name():
    from anabranch.domain import evaluation_set
    from anabranch.domain.words import words

    made = evaluation_set.make(services=120)
    texts = {record.key: record.text for record in made.records}
    common = {"of", "is", "the", "to", "a", "on"}
    for one in made.tasks:
        if one.kind == "paraphrase":
            (key,) = one.answers
            name = set(words(key.split("/")[1]))
            assert not (set(words(one.query)) & set(words(texts[key]))) - name - common
