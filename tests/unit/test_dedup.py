from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from anabranch.domain.dedup import group
from anabranch.domain.facts import union


@dataclass(frozen=True)
class Statement:
    ordinal: int
    key: str = "build/linker"
    content_hash: bytes = b"a"
    scope: str = "shared"
    op: str = "put"


def test_the_same_statement_twice_is_one_with_two_witnesses():
    first, again = Statement(0), Statement(1)

    (only,) = group([first, again])

    assert only.first is first
    assert only.others == (again,)


def test_another_key_content_scope_or_operation_is_another_statement():
    statements = [
        Statement(0),
        Statement(1, key="build/Linker"),
        Statement(2, content_hash=b"b"),
        Statement(3, scope="team/build"),
        Statement(4, op="tombstone"),
    ]

    assert [g.all for g in group(statements)] == [(s,) for s in statements]


@given(
    st.lists(st.builds(Statement, ordinal=st.integers(0, 99), key=st.sampled_from("abc"), scope=st.sampled_from("xy")))
)
def test_no_candidate_is_lost_and_order_is_that_of_first_mention(statements):
    groups = group(statements)

    assert sorted((s for g in groups for s in g.all), key=repr) == sorted(statements, key=repr)
    assert len({(g.first.key, g.first.scope) for g in groups}) == len(groups)
    places = [next(i for i, s in enumerate(statements) if s is g.first) for g in groups]
    assert places == sorted(places)


def test_a_union_keeps_the_order_of_first_mention_and_its_limit():
    assert union(["b", "a"], ["a", "c"], limit=9) == ("b", "a", "c")
    assert union(["b", "a"], ["a", "c"], limit=2) == ("b", "a")
