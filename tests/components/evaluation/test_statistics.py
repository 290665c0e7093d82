"""The Wilson interval, and that of paired differences."""

import itertools
from math import comb, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.evaluation.statistics import compute_paired_interval, rate_interval
from components.mathematics.intervals import wilson_interval


def pairs(both: int, lost: int, won: int, neither: int) -> tuple[list[bool], list[bool]]:
    """Success before and after, of so many problems of each kind."""
    kinds = [(True, True)] * both + [(True, False)] * lost + [(False, True)] * won + [(False, False)] * neither
    return [before for before, _ in kinds], [after for _, after in kinds]


@pytest.mark.parametrize(
    ("counts", "low", "high"),
    [
        # D. G. Altman et al., Statistics with Confidence (2000), table 6.2
        ((14, 0, 5, 22), 0.011, 0.226),
        # R. G. Newcombe, Statistics in Medicine 17 (1998), method 10
        ((36, 2, 12, 0), 0.057, 0.340),
        # M. W. Fagerland et al., Statistics in Medicine 33 (2014), airway hyper-responsiveness
        ((1, 7, 1, 12), -0.507, -0.026),
    ],
)
def test_published_paired_intervals(counts: tuple[int, int, int, int], low: float, high: float) -> None:
    assert compute_paired_interval(*pairs(*counts)) == pytest.approx((low, high), abs=6e-4)


def test_without_a_discordant_pair_the_interval_is_not_empty() -> None:
    """Both rates are 0, or both are .5 with a correlation of 1 - 2 / n after the correction."""
    edge = 1.959963984540054**2 / (100 + 1.959963984540054**2)
    assert compute_paired_interval(*pairs(0, 0, 0, 100)) == pytest.approx((-edge, edge))
    low, high = wilson_interval(50, 100)
    half = sqrt(2 * (0.5 - low) ** 2 * (2 / 100))
    assert high - 0.5 == pytest.approx(0.5 - low)
    assert compute_paired_interval(*pairs(50, 0, 0, 50)) == pytest.approx((-half, half))


def test_where_all_pairs_are_won_the_interval_ends_at_one() -> None:
    edge = 1.959963984540054**2 / (100 + 1.959963984540054**2)
    assert compute_paired_interval(*pairs(0, 0, 100, 0)) == pytest.approx((1 - sqrt(2) * edge, 1.0))
    assert compute_paired_interval(*pairs(0, 100, 0, 0)) == pytest.approx((-1.0, sqrt(2) * edge - 1))


def test_no_pairs_say_nothing_and_pairs_need_partners() -> None:
    assert compute_paired_interval([], []) == (-1.0, 1.0)
    with pytest.raises(AssertionError, match="1 problems before, 2 after"):
        compute_paired_interval([True], [True, False])


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=60))
def test_the_paired_interval_holds_the_difference_and_turns_with_it(found: list[tuple[bool, bool]]) -> None:
    before, after = [one for one, _ in found], [other for _, other in found]
    low, high = compute_paired_interval(before, after)
    assert -1.0 <= low <= (sum(after) - sum(before)) / len(found) <= high <= 1.0
    assert compute_paired_interval(after, before) == pytest.approx((-high, -low))
    assert compute_paired_interval([not each for each in before], [not each for each in after]) == pytest.approx(
        (-high, -low)
    )


@pytest.mark.parametrize(
    ("both", "lost", "won"),
    [(0.0, 0.0, 0.9), (0.05, 0.0, 0.3), (0.3, 0.1, 0.1), (0.1, 0.05, 0.5), (0.45, 0.05, 0.05), (0.0, 0.02, 0.02)],
)
def test_the_paired_interval_covers_the_truth_as_often_as_it_says(both: float, lost: float, won: float) -> None:
    """Exactly, over all outcomes of 25 problems: never far below 95%."""
    n, covered = 25, 0.0
    chances = (both, lost, won, 1 - both - lost - won)
    for one, two, three in itertools.product(range(n + 1), repeat=3):
        counts = (one, two, three, n - one - two - three)
        if counts[3] < 0:
            continue
        chance = float(comb(n, one) * comb(n - one, two) * comb(n - one - two, three))
        for probability, count in zip(chances, counts, strict=True):
            chance *= probability**count
        if chance > 1e-9:
            low, high = compute_paired_interval(*pairs(*counts))
            covered += chance * (low <= won - lost <= high)
    assert covered > 0.93


def test_answers_that_agree_within_problems_count_as_one_each() -> None:
    assert rate_interval([0.0, 1.0] * 25, num_samples=4) == pytest.approx(wilson_interval(25, 50), abs=0.002)
    assert rate_interval([0.5] * 50, num_samples=4) == pytest.approx(wilson_interval(100, 200))
    assert rate_interval([0.0] * 50, num_samples=4) == wilson_interval(0, 50)
    assert rate_interval([0.0, 1.0, 1.0], num_samples=1) == wilson_interval(2, 3)
    assert rate_interval([], num_samples=4) == (0.0, 1.0)


@pytest.mark.parametrize(("n", "num_samples", "shift"), [(12, 4, 0.0), (40, 4, 0.1), (30, 8, -0.05)])
def test_the_paired_interval_of_several_samples_covers_the_truth(n: int, num_samples: int, shift: float) -> None:
    """Problems of all difficulties, which the second subject finds `shift` easier and a little different."""
    draws, num_repetitions = np.random.default_rng(0), 1500

    def subjects(count: int) -> tuple[np.ndarray, np.ndarray]:
        before_P = draws.beta(0.8, 0.8, count)
        return before_P, np.clip(before_P + shift + draws.normal(0, 0.1, count), 0, 1)

    before_P, after_P = subjects(400_000)
    truth = float((after_P - before_P).mean())
    covered = 0
    for _ in range(num_repetitions):
        rates = [(draws.binomial(num_samples, chance_P) / num_samples).tolist() for chance_P in subjects(n)]
        low, high = compute_paired_interval(*rates, num_samples=num_samples)
        covered += low <= truth <= high
    assert 0.935 < covered / num_repetitions < 0.985
