"""Advantages inside one group: closed forms first, then laws."""

import itertools
import math
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.algorithms.at_grpo import at_grpo_advantages

rewards = st.lists(st.floats(-10, 10), min_size=1, max_size=12)


def test_closed_form_with_the_population_deviation() -> None:
    assert at_grpo_advantages((1.0, 0.0, 0.0, 1.0), normalize_std=True, epsilon=1e-4) == pytest.approx(
        [0.5 / 0.5001, -0.5 / 0.5001, -0.5 / 0.5001, 0.5 / 0.5001]
    )
    assert at_grpo_advantages((1.0, 0.0, 0.0, 0.0), normalize_std=False, epsilon=1e-4) == (0.75, -0.25, -0.25, -0.25)


@given(rewards, st.booleans())
def test_they_are_the_textbook_formula(rewards_K: list[float], normalize_std: bool) -> None:
    advantages = at_grpo_advantages(rewards_K, normalize_std=normalize_std, epsilon=0.01)
    scale = statistics.pstdev(rewards_K) + 0.01 if normalize_std else 1.0
    expected = [(reward - statistics.fmean(rewards_K)) / scale for reward in rewards_K]
    assert advantages == pytest.approx(expected, abs=1e-9)
    assert math.fsum(advantages) == pytest.approx(0.0, abs=1e-9)


@given(st.floats(-1e6, 1e6), st.integers(1, 16), st.booleans())
def test_singletons_and_equal_rewards_are_exact_zeros(reward: float, num: int, normalize_std: bool) -> None:
    assert at_grpo_advantages([reward] * num, normalize_std=normalize_std, epsilon=1e-12) == (0.0,) * num


@given(rewards, st.integers(0, 4), st.randoms(use_true_random=False))
def test_a_missing_reward_leaves_the_baseline_and_gets_zero(
    rewards_K: list[float], num_missing: int, rng: object
) -> None:
    mixed: list[float | None] = [*rewards_K, *[None] * num_missing]
    rng.shuffle(mixed)  # type: ignore[attr-defined]
    known = [reward for reward in mixed if reward is not None]
    advantages = at_grpo_advantages(mixed, normalize_std=True, epsilon=0.01)
    alone = at_grpo_advantages(known, normalize_std=True, epsilon=0.01)
    assert [a for a, r in zip(advantages, mixed, strict=True) if r is not None] == list(alone)
    assert all(a == 0.0 for a, r in zip(advantages, mixed, strict=True) if r is None)


@given(rewards, st.floats(-5, 5))
def test_shifting_rewards_changes_nothing_and_order_is_kept(
    rewards_K: list[float],
    shift: float,
) -> None:
    plain = at_grpo_advantages(rewards_K, normalize_std=True, epsilon=0.01)
    shifted = at_grpo_advantages([r + shift for r in rewards_K], normalize_std=True, epsilon=0.01)
    assert shifted == pytest.approx(plain, abs=1e-6)
    ranked = sorted(range(len(rewards_K)), key=rewards_K.__getitem__)
    assert all(plain[a] <= plain[b] for a, b in itertools.pairwise(ranked))


def test_nobody_scored_is_all_zeros() -> None:
    assert at_grpo_advantages((None, None), normalize_std=True, epsilon=1e-4) == (0.0, 0.0)
    assert at_grpo_advantages((), normalize_std=True, epsilon=1e-4) == ()
