"""Rank correlations within nodes, checked against scipy's and against estimators that are perfect, constant or noise."""

import math
import random

import pytest
from scipy.stats import spearmanr

from benchmarks.fidelity import (
    Ranked,
    mean_correlation,
    noise_ceiling,
    pool_correlations,
    silent_fraction,
)


def nodes(num: int, width: int, *, seed: int = 0) -> list[tuple[float, ...]]:
    rng = random.Random(seed)
    return [tuple(rng.random() for _ in range(width)) for _ in range(num)]


def test_a_perfect_estimator_on_any_scale_gets_one_and_a_reversed_one_minus_one() -> None:
    perfect = [Ranked(advantages_K=tuple(math.exp(n + 3 * v) for v in values), values_K=values)
               for n, values in enumerate(nodes(20, 8))]  # fmt: skip
    reversed_ = [Ranked(advantages_K=tuple(-a for a in n.advantages_K if a), values_K=n.values_K) for n in perfect]
    for statistic in (pool_correlations, mean_correlation):
        for found, wanted in ((statistic(perfect), 1.0), (statistic(reversed_), -1.0)):
            assert found is not None
            assert (found.value, found.low, found.high) == pytest.approx((wanted, wanted, wanted))


def test_a_constant_estimator_is_undefined_and_so_are_values_that_never_differ() -> None:
    constant = [Ranked(advantages_K=(0.5,) * 8, values_K=values) for values in nodes(20, 8)]
    equal = [Ranked(advantages_K=values, values_K=(1.0,) * 8) for values in nodes(20, 8)]
    silent = [Ranked(advantages_K=(None,) * 8, values_K=values) for values in nodes(20, 8)]
    for undefined in (constant, equal, silent, []):
        assert pool_correlations(undefined) is None
        assert mean_correlation(undefined) is None
    assert (silent_fraction(constant), silent_fraction(silent), silent_fraction(equal)) == (1.0, 1.0, 0.0)


def test_shuffled_advantages_are_about_zero_and_their_interval_holds_it() -> None:
    shuffled = [Ranked(advantages_K=a, values_K=v) for a, v in zip(nodes(300, 8, seed=1), nodes(300, 8), strict=True)]
    for statistic in (pool_correlations, mean_correlation):
        found = statistic(shuffled)
        assert found is not None
        assert abs(found.value) < 4 / math.sqrt(300 * 7)
        assert found.low < 0 < found.high


def test_one_node_is_spearmans_correlation_and_the_mean_is_over_nodes_with_different_values() -> None:
    (one, other), values = nodes(2, 6, seed=3), (0.1, 0.4, 0.4, 0.9, 0.2, 0.4)
    first, second = (Ranked(advantages_K=each, values_K=values) for each in (one, other))
    wanted = [float(spearmanr(each, values).statistic) for each in (one, other)]
    alone = pool_correlations([first])
    assert alone is not None
    assert alone.value == pytest.approx(wanted[0])
    flat = Ranked(advantages_K=one, values_K=(1.0,) * 6)
    mean = mean_correlation([first, second, flat])
    assert mean is not None
    assert mean.value == pytest.approx(sum(wanted) / 2)


def test_being_silent_where_values_differ_costs_and_where_they_are_equal_does_not() -> None:
    told, silent = (
        Ranked(advantages_K=(0.0, 1.0), values_K=(0.0, 1.0)),
        Ranked(advantages_K=(1.0, 1.0), values_K=(0.0, 1.0)),
    )
    equal = Ranked(advantages_K=(1.0, 1.0), values_K=(3.0, 3.0))
    costly, free = pool_correlations([told, silent]), pool_correlations([told, equal])
    assert costly is not None
    assert free is not None
    assert (costly.value, free.value) == pytest.approx((math.sqrt(0.5), 1.0))
    mean = mean_correlation([told, silent])
    assert mean is not None
    assert mean.value == 0.5
    assert silent_fraction([told, silent, equal]) == 0.5


def test_candidates_without_an_advantage_share_the_middle_rank() -> None:
    node = Ranked(advantages_K=(None, 1.0, 2.0), values_K=(5.0, 1.0, 2.0))
    found = pool_correlations([node])
    assert found is not None
    assert found.value == pytest.approx((-0.5 * -1 + 0.5 * 0) / math.sqrt(0.5 * 2))


def test_the_interval_covers_the_true_correlation_in_about_nineteen_of_twenty_experiments() -> None:
    rng, num_covered, true = random.Random(7), 0, 0.0
    for experiment in range(60):
        drawn = [
            Ranked(advantages_K=tuple(rng.random() for _ in range(4)), values_K=tuple(rng.random() for _ in range(4)))
            for _ in range(40)
        ]
        found = mean_correlation(drawn, seed=experiment)
        assert found is not None
        num_covered += found.low <= true <= found.high
    assert num_covered >= 51  # of 60; a 95% interval has fewer in one of ten thousand


def test_the_ceiling_is_what_the_true_values_reach() -> None:
    """With values and noise of equal variance the true values correlate with their noisy sums as the ceiling says."""
    rng = random.Random(5)
    halves, truth = [], []
    for _ in range(400):
        true_K = [rng.gauss(0, 1) for _ in range(8)]
        one, other = ([v + rng.gauss(0, 1) for v in true_K] for _ in range(2))
        halves.append((one, other))
        both = tuple((a + b) / 2 for a, b in zip(one, other, strict=True))
        truth.append(Ranked(advantages_K=tuple(true_K), values_K=both))
    ceiling, reached = noise_ceiling(halves), pool_correlations(truth)
    assert ceiling is not None
    assert reached is not None
    assert ceiling == pytest.approx(reached.value, abs=0.05)
    assert noise_ceiling([((0.0, 0.0), (0.0, 1.0))]) is None
