"""Wilson's bounds and the exact test against definitions by brute force."""

from fractions import Fraction
from math import comb

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.hybrid.significance import chance_of_at_least, wilson_bounds


@given(st.integers(0, 60), st.data())
def test_the_tail_is_the_sum_of_the_hypergeometric_distribution(population: int, data: st.DataObject) -> None:
    drawn = data.draw(st.integers(0, population))
    successes = data.draw(st.integers(0, population))
    wanted = data.draw(st.integers(0, drawn))
    ways = sum(comb(successes, x) * comb(population - successes, drawn - x) for x in range(wanted, drawn + 1))
    exact = Fraction(ways, comb(population, drawn))
    assert chance_of_at_least(wanted, drawn, successes, population) == pytest.approx(float(exact), rel=1e-9, abs=1e-15)


def test_the_tail_of_a_large_history_neither_overflows_nor_vanishes() -> None:
    assert chance_of_at_least(60, 100, 300_000, 1_000_000) == pytest.approx(5.119e-10, rel=1e-3)
    assert chance_of_at_least(0, 5, 3, 10) == 1.0
    assert chance_of_at_least(4, 5, 3, 10) == 0.0


@given(st.integers(1, 500), st.data(), st.floats(0.5, 6))
def test_wilsons_bounds_are_the_rates_that_are_z_deviations_away(trials: int, data: st.DataObject, z: float) -> None:
    successes = data.draw(st.integers(0, trials))
    low, high = wilson_bounds(successes, trials, z)
    assert 0 <= low <= successes / trials + 1e-12
    assert successes / trials <= high + 1e-12 <= 1 + 2e-12
    for bound in (low, high):
        assert (successes / trials - bound) ** 2 == pytest.approx(z * z * bound * (1 - bound) / trials, abs=1e-9)


def test_no_trials_bound_nothing() -> None:
    assert wilson_bounds(0, 0, 2.0) == (0.0, 1.0)
    assert wilson_bounds(8, 10, 1.959964) == pytest.approx((0.490, 0.943), abs=1e-3)
