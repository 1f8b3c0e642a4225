"""How alike texts are, which of them make a group, and what a decision on a group names."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anabranch.domain.likeness import (
    ALIKE,
    FEWEST,
    NEAR,
    WINDOW,
    Shelf,
    Sketch,
    group_digest,
    groups,
    likeness,
)

SENTENCE = "The flaky build fails with exit code 137 because the linker runs out of memory; use thin linking."
OTHER = "Deploys are rolled back with helm rollback within five minutes of the first alert."


def alike(one, other):
    return likeness(Sketch.of(one), Sketch.of(other))


def entries(*texts, kind="shared"):
    return [(f"c{place}", kind, Sketch.of(text)) for place, text in enumerate(texts)]


def test_the_same_words_are_the_same_whatever_their_case_blanks_and_members():
    assert alike(SENTENCE, f"  {SENTENCE.upper()}\n") == 1
    assert alike({"text": SENTENCE}, {"lesson": [SENTENCE]}) == 1


@pytest.mark.parametrize(
    ("other", "least", "most"),
    [
        (SENTENCE.replace("137", "139"), NEAR, 1),  # one digit: near, and perhaps a correction
        (SENTENCE.replace("thin linking", "a larger pool"), ALIKE, NEAR),
        (OTHER, 0, 0.1),
        ("", 0, 0),
    ],
)
def test_how_much_of_a_sentence_is_another_tells_how_alike_they_are(other, least, most):
    assert least <= alike(SENTENCE, other) <= most


@pytest.mark.parametrize(("one", "other"), [("yes", "no"), ({"limit": 250}, {"limit": 300}), (True, False)])
def test_short_values_that_differ_are_not_alike_for_the_names_of_their_members(one, other):
    assert alike(one, other) == 0


@settings(max_examples=30)
@given(st.text(max_size=200), st.text(max_size=200))
def test_likeness_is_symmetric_and_outlives_being_kept(one, other):
    left, right = Sketch.of(one), Sketch.of(other)
    assert 0 <= likeness(left, right) <= 1
    assert likeness(left, right) == likeness(right, left)
    assert Sketch.parse(left.packed()) == left


def test_the_estimate_of_long_texts_is_near_the_truth():
    letters = random.Random(7)
    base = "".join(letters.choices("abcdefghijklm ", k=WINDOW - 100))

    def pieces(text):
        text = " ".join(text.split())
        return {text[at : at + 5] for at in range(len(text) - 4)}

    for changed in (50, 150, 400):
        other = base[:-changed] + "".join(letters.choices("nopqrstuvwxyz", k=changed))
        truth = len(pieces(base) & pieces(other)) / len(pieces(base) | pieces(other))
        assert alike(base, other) == pytest.approx(truth, abs=0.15)


def test_long_texts_with_the_same_beginning_and_end_are_not_near_when_one_is_much_longer():
    begin, end = "a beginning " * 60, " the end" * 80
    assert alike(begin + "x " * 2_000 + end, begin + "x " * 200 + end) < NEAR


def test_near_identical_texts_make_a_group_and_two_are_too_few():
    flood = [SENTENCE.replace("137", str(code)) for code in range(137, 137 + FEWEST)]
    assert groups(entries(OTHER, *flood)) == [["c1", "c2", "c3"]]
    assert groups(entries(OTHER, *flood[:2])) == []


def test_texts_of_another_scope_are_in_another_group():
    flood = [SENTENCE.replace("137", str(code)) for code in range(100, 106)]
    here, there = entries(*flood[:3]), entries(*flood[3:], kind="team/build")
    assert groups([*here, *((f"t{name}", kind, sketch) for name, kind, sketch in there)]) == [
        ["c0", "c1", "c2"],
        ["tc0", "tc1", "tc2"],
    ]


def test_each_member_of_a_group_is_near_its_first_one():
    """Else a chain of small steps would put together what nobody would take for the same."""
    steps = [SENTENCE[:place] + "#" * place + SENTENCE[place:] for place in range(0, 90, 3)]
    sketches = {name: sketch for name, _, sketch in entries(*steps)}
    for first, *others in groups(entries(*steps)):
        assert all(likeness(sketches[first], sketches[other]) >= NEAR for other in others)


def test_a_flood_is_gathered_in_one_group_in_little_time():
    flood = [f"{SENTENCE} Seen in run {number}." for number in range(2_000)]
    (group,) = groups(entries(*flood))
    assert len(group) == len(flood)


def test_the_most_alike_comes_first():
    shelf = Shelf()
    for name, text in {"near": SENTENCE.replace("137", "9"), "other": OTHER, "same": SENTENCE}.items():
        shelf.put(name, Sketch.of(text))
    assert [match.name for match in shelf.like(Sketch.of(SENTENCE), least=ALIKE)] == ["same", "near"]


MEMBERS = [("cand_b", "sha256:bb", "0"), ("cand_a", "sha256:aa", "7")]


def test_a_groups_digest_can_be_made_anew_from_the_page_alone():
    # printf 'cand_a sha256:aa 7\ncand_b sha256:bb 0\n' | sha256sum
    assert group_digest(MEMBERS) == "sha256:c88cc49b95e40def970e08057ec672d004d8c9cdf56f01e28f141bfd26e7eefa"
    assert group_digest(reversed(MEMBERS)) == group_digest(MEMBERS)


@pytest.mark.parametrize(
    "others",
    [MEMBERS[:1], [*MEMBERS, ("cand_c", "sha256:cc", "0")], [MEMBERS[0], ("cand_a", "sha256:aa", "8")]],
)
def test_another_member_content_or_record_is_another_digest(others):
    assert group_digest(others) != group_digest(MEMBERS)
