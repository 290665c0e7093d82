"""Wilson's interval against published values and the equation that defines it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.mathematics.intervals import wilson_interval


@pytest.mark.parametrize(
    ("num_successes", "n", "low", "high"),
    [(8, 10, 0.49016, 0.94332), (0, 100, 0.0, 0.03699), (1, 10, 0.01788, 0.40415), (50, 100, 0.40383, 0.59617)],
)
def test_published_values(num_successes: int, n: int, low: float, high: float) -> None:
    assert wilson_interval(num_successes, n) == pytest.approx((low, high), abs=1e-5)


@given(st.integers(1, 500).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))), st.floats(0.5, 6))
def test_both_ends_solve_the_score_equation(trial: tuple[int, int], z: float) -> None:
    num_successes, n = trial
    low, high = wilson_interval(num_successes, n, z)
    rate = num_successes / n
    assert 0.0 <= low <= rate <= high <= 1.0
    for end in (low, high):
        if 0.0 < end < 1.0:
            assert (rate - end) ** 2 == pytest.approx(z * z * end * (1 - end) / n, abs=1e-9)


def test_no_trials_say_nothing() -> None:
    assert wilson_interval(0, 0) == (0.0, 1.0)


def test_more_successes_than_trials_break_an_invariant() -> None:
    with pytest.raises(AssertionError):
        wilson_interval(3, 2)
