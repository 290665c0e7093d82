"""The least difference that a paired comparison could have seen."""

import math

import numpy as np
import pytest
from scipy.stats import t

from benchmarks.power import detectable_difference, noncentrality


@pytest.mark.parametrize("num_pairs", [3, 5, 20])
def test_a_paired_t_test_finds_the_detectable_difference_in_four_of_five_simulated_experiments(num_pairs: int) -> None:
    rng, num_experiments = np.random.default_rng(num_pairs), 40_000
    true = noncentrality(num_pairs) / math.sqrt(num_pairs)  # in units of the spread
    differences = rng.normal(true, 1.0, size=(num_experiments, num_pairs))
    statistic = differences.mean(axis=1) / (differences.std(axis=1, ddof=1) / math.sqrt(num_pairs))
    found = np.abs(statistic) > t.ppf(0.975, num_pairs - 1)
    assert found.mean() == pytest.approx(0.8, abs=0.01)  # five standard errors


def test_the_detectable_difference_follows_the_spread_of_the_differences() -> None:
    assert detectable_difference([1.0, 2.0, 3.0]) == pytest.approx(noncentrality(3) / math.sqrt(3))
    assert detectable_difference([10.0, 20.0, 30.0]) == pytest.approx(10 * detectable_difference([1.0, 2.0, 3.0]))
    assert detectable_difference([4.0, 4.0]) == 0.0
    assert math.isnan(detectable_difference([4.0]))


def test_many_pairs_need_the_textbook_normal_sum_of_quantiles() -> None:
    assert noncentrality(2000) == pytest.approx(1.960 + 0.842, abs=0.005)
