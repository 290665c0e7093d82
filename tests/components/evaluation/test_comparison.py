"""avg@k and pass@k, paired comparison, the smallest difference, and the gate of non-inferiority."""

import itertools
from dataclasses import replace
from statistics import fmean
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.evaluation.comparison import compare_pairs, non_inferiority, payoff_differences, smallest_difference
from components.evaluation.pass_at_k import pass_at_k
from components.evaluation.statistics import compute_paired_interval
from components.schema import EvalReport
from tests.components.tracking.reports import evaluation


def outcomes(solved_P_K: list[list[int]], *, agent: str = "a", **values: Any) -> EvalReport:
    """The report of so many answers to each problem."""
    num_solved_P = tuple(map(sum, solved_P_K))
    n, num_samples = len(solved_P_K), len(solved_P_K[0])
    shown = replace(evaluation(0), agent=agent, n=n, num_samples=num_samples, num_solved_P=num_solved_P)
    return replace(shown, success_rate=sum(num_solved_P) / (n * num_samples), **values)


def kinds(both: int, lost: int, won: int, neither: int) -> tuple[EvalReport, EvalReport]:
    """Two subjects over so many problems of each kind, with one answer each."""
    pairs = [(1, 1)] * both + [(1, 0)] * lost + [(0, 1)] * won + [(0, 0)] * neither
    return outcomes([[one] for one, _ in pairs], agent="base"), outcomes([[two] for _, two in pairs], agent="other")


@given(st.integers(1, 6).flatmap(lambda n: st.lists(st.lists(st.integers(0, 1), min_size=n, max_size=n), min_size=1)))
def test_pass_at_k_is_the_mean_over_all_choices_of_k_answers(solved_P_K: list[list[int]]) -> None:
    for k in range(1, len(solved_P_K[0]) + 1):
        chosen = [fmean(any(each) for each in itertools.combinations(solved_K, k)) for solved_K in solved_P_K]
        found = pass_at_k(outcomes(solved_P_K), k)
        assert found.value == pytest.approx(fmean(chosen))
        assert -1e-9 <= found.interval[0] <= found.value + 1e-9 <= found.interval[1] + 2e-9 <= 1 + 3e-9
    assert pass_at_k(outcomes(solved_P_K), 1).value == pytest.approx(outcomes(solved_P_K).success_rate)
    with pytest.raises(ValueError, match="choose 1 to"):
        pass_at_k(outcomes(solved_P_K), len(solved_P_K[0]) + 1)


def test_a_comparison_counts_pairs() -> None:
    found = compare_pairs(*kinds(36, 2, 12, 0))
    assert (found.num_won, found.num_lost, found.num_problems) == (12, 2, 50)
    assert found.difference == pytest.approx(0.2)
    assert found.interval == pytest.approx((0.057, 0.340), abs=6e-4)
    assert found.smallest_difference == pytest.approx(smallest_difference(50, 15 / 52))


def test_several_samples_are_compared_by_problem() -> None:
    found = compare_pairs(outcomes([[0, 0], [1, 0], [1, 1]]), outcomes([[1, 0], [1, 1], [1, 1]], agent="b"))
    assert (found.num_won, found.num_lost, found.num_samples) == (2, 0, 2)
    assert found.difference == pytest.approx(1 / 3)


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (outcomes([[1], [0]], seed=1), "the seed is 0 and 1"),
        (outcomes([[1, 1], [0, 0]]), "the number of samples is 1 and 2"),
        (outcomes([[1]]), "the number of problems is 2 and 1"),
        (outcomes([[1], [0]], suite_digest="00"), "the suite is plan_path/test 5f0c00aa11bb and plan_path/test 00"),
        (outcomes([[1], [0]], sampling="sample"), "the sampling is greedy and sample"),
    ],
)
def test_what_is_no_pair_is_refused(other: EvalReport, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        compare_pairs(outcomes([[1], [0]]), other)


def test_a_script_pairs_with_any_sampling() -> None:
    drawn, script = outcomes([[1], [0]], sampling="sample"), outcomes([[1], [1]], sampling="scripted")
    assert compare_pairs(drawn, script).num_won == compare_pairs(script, drawn).num_lost == 1


def repeat_comparison(
    n: int, differing: float, difference: float, num_repetitions: int = 500
) -> list[tuple[float, float]]:
    """The intervals of repeated comparisons of two subjects with this true difference."""
    draws = np.random.default_rng(1)
    chances = [(1 - differing) / 2, (differing - difference) / 2, (differing + difference) / 2, (1 - differing) / 2]
    found = []
    for _ in range(num_repetitions):
        base, other = kinds(*draws.multinomial(n, chances).tolist())
        found.append(compute_paired_interval(base.rates_P, other.rates_P))
    return found


@pytest.mark.parametrize(("n", "differing"), [(200, 0.15), (500, 0.2), (60, 0.4)])
def test_the_smallest_difference_is_shown_four_times_in_five(n: int, differing: float) -> None:
    difference = smallest_difference(n, differing)
    assert fmean(low > 0 for low, _ in repeat_comparison(n, differing, difference)) == pytest.approx(0.8, abs=0.06)
    assert fmean(low > 0 for low, _ in repeat_comparison(n, differing, difference / 2)) < 0.4


def test_too_few_problems_show_nothing() -> None:
    assert smallest_difference(3, 0.5) == 1.0


def test_the_gate_reads_the_lower_bound() -> None:
    even = non_inferiority(compare_pairs(*kinds(40, 5, 5, 50)), 0.02)
    assert not even.passes, "equal success on 100 problems shows no margin of 0.02"
    assert "here are 100" in even.sentence
    large = compare_pairs(*kinds(4000, 150, 150, 5700))
    assert non_inferiority(large, 0.02).passes
    assert non_inferiority(large, 0.02).sentence.startswith("passes: the difference may be as low as -0.00")
    assert not non_inferiority(compare_pairs(*kinds(4000, 450, 150, 5400)), 0.02).passes


@pytest.mark.parametrize("differing", [0.06, 0.15])
def test_an_equal_subject_passes_four_times_in_five_with_the_problems_that_it_needs(differing: float) -> None:
    n, margin = 1000, 0.05
    half = int(n * differing / 2)
    needed = non_inferiority(compare_pairs(*kinds(400, half, half, n - 400 - 2 * half)), margin).num_problems_needed
    passed = fmean(low >= -margin for low, _ in repeat_comparison(needed, differing, 0.0))
    assert passed == pytest.approx(0.8, abs=0.06)


@pytest.mark.parametrize("margin", [-0.02, 0.0, 2.0])
def test_a_margin_is_a_loss_between_0_and_1(margin: float) -> None:
    with pytest.raises(ValueError, match="margin"):
        non_inferiority(compare_pairs(*kinds(1, 1, 1, 1)), margin)


def test_payoffs_are_compared_by_problem() -> None:
    base, other = (
        replace(outcomes([[1], [1], [1]]), payoffs_P={"ann": earned, "bob": (0.0, 0.0, 0.0)})
        for earned in ((1.0, 0.0, 1.0), (1.0, 1.0, 1.0))
    )
    ann, bob = payoff_differences(base, other)
    assert (ann.agent, ann.difference, bob.difference) == ("ann", pytest.approx(1 / 3), 0.0)
    half = 1.96 * np.std([0, 1, 0], ddof=1) / np.sqrt(3)
    assert ann.interval == pytest.approx((1 / 3 - half, 1 / 3 + half), abs=1e-4)
    assert bob.interval == (0.0, 0.0)
    assert payoff_differences(base, outcomes([[1], [1], [1]])) == ()
