"""Advantages inside one group: closed forms first, then laws."""

import itertools
import math
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.algorithms.normalisation import advantages, center, group_advantages
from tests.sections import choose_algorithm

rewards = st.lists(st.floats(-10, 10), min_size=1, max_size=12)


def test_closed_form_with_the_population_deviation() -> None:
    assert group_advantages((1.0, 0.0, 0.0, 1.0), normalize_std=True, epsilon=1e-4) == pytest.approx(
        [0.5 / 0.5001, -0.5 / 0.5001, -0.5 / 0.5001, 0.5 / 0.5001]
    )
    assert group_advantages((1.0, 0.0, 0.0, 0.0), normalize_std=False, epsilon=1e-4) == (0.75, -0.25, -0.25, -0.25)


@given(rewards, st.booleans())
def test_they_are_the_textbook_formula(rewards_K: list[float], normalize_std: bool) -> None:
    advantages = group_advantages(rewards_K, normalize_std=normalize_std, epsilon=0.01)
    scale = statistics.pstdev(rewards_K) + 0.01 if normalize_std else 1.0
    expected = [(reward - statistics.fmean(rewards_K)) / scale for reward in rewards_K]
    assert advantages == pytest.approx(expected, abs=1e-9)
    assert math.fsum(advantages) == pytest.approx(0.0, abs=1e-9)


@given(st.floats(-1e6, 1e6), st.integers(1, 16), st.booleans())
def test_singletons_and_equal_rewards_are_exact_zeros(reward: float, num: int, normalize_std: bool) -> None:
    assert group_advantages([reward] * num, normalize_std=normalize_std, epsilon=1e-12) == (0.0,) * num


@given(rewards, st.integers(0, 4), st.randoms(use_true_random=False))
def test_a_missing_reward_leaves_the_baseline_and_has_no_advantage(
    rewards_K: list[float], num_missing: int, rng: object
) -> None:
    mixed: list[float | None] = [*rewards_K, *[None] * num_missing]
    rng.shuffle(mixed)  # type: ignore[attr-defined]
    known = [reward for reward in mixed if reward is not None]
    advantages = group_advantages(mixed, normalize_std=True, epsilon=0.01)
    alone = group_advantages(known, normalize_std=True, epsilon=0.01)
    assert [a for a, r in zip(advantages, mixed, strict=True) if r is not None] == list(alone)
    assert all(a is None for a, r in zip(advantages, mixed, strict=True) if r is None)


@given(rewards, st.floats(-5, 5))
def test_shifting_rewards_changes_nothing_and_order_is_kept(
    rewards_K: list[float],
    shift: float,
) -> None:
    plain = group_advantages(rewards_K, normalize_std=True, epsilon=0.01)
    shifted = group_advantages([r + shift for r in rewards_K], normalize_std=True, epsilon=0.01)
    assert shifted == pytest.approx(plain, abs=1e-6)
    ranked = sorted(range(len(rewards_K)), key=rewards_K.__getitem__)
    assert all(plain[a] <= plain[b] for a, b in itertools.pairwise(ranked))


def test_nobody_scored_has_no_advantages() -> None:
    assert group_advantages((None, None), normalize_std=True, epsilon=1e-4) == (None, None)
    assert group_advantages((), normalize_std=True, epsilon=1e-4) == ()


def test_leaving_one_out_compares_with_the_others_alone() -> None:
    assert center((1.0, 0.0, None, 0.0), leave_one_out=True) == [1.0, -0.5, None, -0.5]
    assert center((1.0, 0.0, None, 0.0), leave_one_out=False) == pytest.approx([2 / 3, -1 / 3, None, -1 / 3])
    assert center((5.0, None), leave_one_out=True) == [0.0, None]


@given(rewards)
def test_leaving_one_out_is_its_definition(rewards_K: list[float]) -> None:
    found = center(rewards_K, leave_one_out=True)
    if min(rewards_K) == max(rewards_K):
        assert found == [0.0] * len(rewards_K)
        return
    for index, value in enumerate(found):
        others = [*rewards_K[:index], *rewards_K[index + 1 :]]
        assert value == pytest.approx(rewards_K[index] - statistics.fmean(others), abs=1e-9)


groups = st.lists(st.lists(st.none() | st.floats(-10, 10), max_size=6), max_size=6)


@given(groups, st.booleans())
def test_over_the_batch_is_one_deviation_of_all_centred_rewards(groups_G_K: list, leave_one_out: bool) -> None:
    algorithm = choose_algorithm(normalize_over="batch", leave_one_out=leave_one_out, epsilon=0.01)
    found = advantages(groups_G_K, algorithm)
    centred_G_K = [center(group, leave_one_out=leave_one_out) for group in groups_G_K]
    known = [value for group in centred_G_K for value in group if value is not None]
    scale = (statistics.pstdev(known) if known else 0.0) + 0.01
    for group, values in zip(centred_G_K, found, strict=True):
        assert values == pytest.approx([None if value is None else value / scale for value in group], abs=1e-6)


def test_over_the_batch_a_group_of_small_differences_stays_small() -> None:
    groups_G_K = [(1.0, 0.0), (0.01, 0.0)]
    by_group = advantages(groups_G_K, choose_algorithm(epsilon=1e-9))
    by_batch = advantages(groups_G_K, choose_algorithm(epsilon=1e-9, normalize_over="batch"))
    assert by_group == [pytest.approx((1, -1)), pytest.approx((1, -1))]
    deviation = math.sqrt((2 * 0.5**2 + 2 * 0.005**2) / 4)
    assert by_batch == [
        pytest.approx((0.5 / deviation, -0.5 / deviation)),
        pytest.approx((0.005 / deviation, -0.005 / deviation)),
    ]


def test_the_sample_deviation_of_other_systems_gives_less_by_a_constant() -> None:
    rewards_K = (1.0, 0.0, 0.0, 0.5, 1.0, 0.0, 0.0, 0.0)
    deviation = statistics.stdev(rewards_K)
    theirs = [(reward - statistics.fmean(rewards_K)) / (deviation + 1e-4) for reward in rewards_K]
    ours = group_advantages(rewards_K, normalize_std=True, epsilon=1e-4)
    assert [t / o for t, o in zip(theirs, ours, strict=True)] == pytest.approx([math.sqrt(7 / 8)] * 8, rel=1e-4)
