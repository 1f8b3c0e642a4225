from hypothesis import given
from hypothesis import strategies as st

from anabranch.domain.backoff import delay


def test_it_doubles_up_to_the_limit():
    assert [delay(attempt, chance=1.0, base=1, limit=30) for attempt in range(1, 8)] == [1, 2, 4, 8, 16, 30, 30]


@given(attempt=st.integers(-1, 10**9), chance=st.floats(0, 1))
def test_it_is_never_at_once_and_never_beyond_the_limit(attempt, chance):
    assert 0.5 <= delay(attempt, chance=chance, base=1, limit=300) <= 300


def test_chance_spreads_the_upper_half():
    assert delay(5, chance=0.0) * 2 == delay(5, chance=1.0) == 16
