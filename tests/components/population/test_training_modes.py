"""A training mode is a matrix: closed forms, and what each mode keeps whatever the returns."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.config.population import Competitive, Cooperative, Mixed
from components.mathematics.returns import discount_returns
from components.population.training_modes import (
    flat_matrix,
    hierarchical_matrix,
    make_mode_matrix,
    mix_strengths,
    team_means,
)
from tests.sections import choose_training_mode

MODES = ("cooperative", "competitive", "mixed", "hierarchical")
RETURNS = st.lists(st.floats(-10, 10), min_size=2, max_size=6)
SHARE = st.floats(0, 1)


def test_the_four_modes_of_two_members() -> None:
    first_rows = {mode: make_mode_matrix(choose_training_mode(mode), 2)[0] for mode in MODES}
    assert first_rows["cooperative"] == pytest.approx([0.7, 0.3])
    assert first_rows["competitive"] == pytest.approx([1.0, -0.4])
    assert first_rows["mixed"] == pytest.approx([0.85, -0.05])
    assert first_rows["hierarchical"] == pytest.approx([0.5, 0.5])


@given(RETURNS, SHARE)
def test_cooperation_keeps_the_sum_and_is_the_blend_by_hand(returns: list[float], beta: float) -> None:
    found = flat_matrix(len(returns), beta=beta, kappa=0.0) @ returns
    assert found == pytest.approx([(1 - beta) * r + beta * np.mean(returns) for r in returns], abs=1e-9)
    assert found.sum() == pytest.approx(sum(returns), abs=1e-9)


@given(RETURNS, SHARE)
def test_competition_is_the_difference_by_hand_and_zero_sum_at_full_intensity(
    returns: list[float], kappa: float
) -> None:
    found = flat_matrix(len(returns), beta=0.0, kappa=kappa) @ returns
    others = [np.mean(returns[:i] + returns[i + 1 :]) for i in range(len(returns))]
    assert found == pytest.approx([r - kappa * other for r, other in zip(returns, others, strict=True)], abs=1e-9)
    assert found.sum() == pytest.approx((1 - kappa) * sum(returns), abs=1e-9)


@given(st.integers(2, 5), SHARE, SHARE, st.floats(-1, 1))
def test_the_mixed_mode_lies_between_cooperation_and_competition(
    num: int, beta: float, kappa: float, rho: float
) -> None:
    cooperative = make_mode_matrix(Cooperative(cooperation_strength=beta), num)
    competitive = make_mode_matrix(Competitive(competition_intensity=kappa), num)
    mixed = Mixed(cooperation_strength=beta, competition_intensity=kappa)
    together, apart = (1 + rho) / 2, (1 - rho) / 2
    wanted = together * cooperative + apart * competitive
    assert make_mode_matrix(mixed, num, correlation=rho) == pytest.approx(wanted, abs=1e-12)
    assert sum(mix_strengths(beta, kappa, rho)) <= max(beta, kappa) + 1e-12


def test_teams_are_blocks() -> None:
    assert (team_means(4, 2) @ [4.0, 0.0, 1.0, 1.0]).tolist() == [2.0, 2.0, 1.0, 1.0]
    assert team_means(3, 1).tolist() == np.eye(3).tolist()


def test_a_leader_earns_by_its_followers() -> None:
    raw = [1.0, 0.0, 0.5]
    assert (hierarchical_matrix(3, 0) @ raw).tolist() == [0.625, 0.0, 0.5]


@given(st.lists(st.tuples(st.floats(-9, 9), st.floats(-9, 9)), min_size=1, max_size=8), SHARE)
def test_discounted_returns_are_the_sums_by_definition(rewards_T_N: list[tuple[float, float]], discount: float) -> None:
    rewards = np.array(rewards_T_N)
    wanted = [sum(discount ** (t - s) * rewards[t] for t in range(s, len(rewards))) for s in range(len(rewards))]
    assert discount_returns(rewards_T_N, discount) == pytest.approx(np.array(wanted), abs=1e-9)
    assert rewards.tolist() == [list(row) for row in rewards_T_N]
