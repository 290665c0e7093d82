"""Advantages of a population's returns: as they are, or less the mean of the agent's returns in that turn."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.algorithms.batching import train_batches
from components.algorithms.role_returns import keep_returns, less_replica_mean, less_role_mean, team_returns
from components.schema import Episode
from tests.components.algorithms.episodes import episode, scores, shard
from tests.sections import choose_algorithm

MEAN = choose_algorithm(advantage="role_mean")
RETURNS = st.lists(st.lists(st.floats(-3, 3), min_size=4, max_size=4), min_size=1, max_size=5)


def games(num: int) -> list[Episode]:
    """Two turns of both agents each."""
    return [episode("p", number, "tptp") for number in range(num)]


def rewards(returns: list[list[float]]) -> tuple[tuple[tuple[float, ...], ...], ...]:
    return tuple(tuple((each,) for each in of_episode) for of_episode in returns)


def test_credits_are_advantages_and_what_is_not_trained_on_stays_out() -> None:
    given_credits = (((0.4,), (-0.6,), (None,), (1.0,)),)
    config = choose_algorithm(advantage="role_baseline")
    assert keep_returns(games(1), given_credits, config) == [*given_credits]
    with_gap = less_role_mean(games(2), (((1.0,), (5.0,), (2.0,), (0.0,)), ((0.0,), (None,), (2.0,), (1.0,))), MEAN)
    assert with_gap == [((0.5,), (0.0,), (0.0,), (-0.5,)), ((-0.5,), (None,), (0.0,), (0.5,))]


@given(RETURNS, st.booleans())
def test_each_agent_and_turn_has_its_own_mean_by_numpy(returns: list[list[float]], std: bool) -> None:
    config = choose_algorithm(advantage="role_mean", normalize_std=std)
    found = np.array(less_role_mean(games(len(returns)), rewards(returns), config))[..., 0]
    centered = np.array(returns) - np.mean(returns, axis=0)
    assert np.allclose(found.sum(axis=0), 0, atol=1e-6)
    if not std:
        assert np.allclose(found, centered, atol=1e-9)
        return
    assert config.normalize_over == "batch"
    scale = np.sqrt(np.mean(centered**2)) + config.epsilon
    assert np.allclose(found, centered / scale, atol=1e-6)


@given(RETURNS, RETURNS)
def test_replicas_are_compared_problem_by_problem(first: list[list[float]], second: list[list[float]]) -> None:
    config = choose_algorithm(advantage="role_group", normalize_std=False)
    played = [
        episode(name, number, "tptp") for name, each in (("p", first), ("q", second)) for number in range(len(each))
    ]
    found = np.array(less_replica_mean(played, rewards(first + second), config))[..., 0]
    wanted = np.concatenate([np.array(each) - np.mean(each, axis=0) for each in (first, second)])
    assert np.allclose(found, wanted, atol=1e-9)


@given(RETURNS, st.floats(0, 1))
def test_a_team_shares_what_is_earned_from_each_move_on(earned: list[list[float]], discount: float) -> None:
    """Nodes of one move share its sum; by the definition as a double sum."""
    moves = [[0, 1, 1, 2]] * len(earned)
    found = np.array(team_returns(games(len(earned)), rewards(earned), moves, discount))[..., 0]
    of_move = np.stack([np.array(earned)[:, 0], np.array(earned)[:, 1:3].sum(axis=1), np.array(earned)[:, 3]], axis=1)
    wanted = np.stack([sum(discount ** (m - k) * of_move[:, m] for m in range(k, 3)) for k in range(3)], axis=1)
    assert np.allclose(found, wanted[:, [0, 1, 1, 2]], atol=1e-9)


def test_an_episode_without_a_reward_or_that_failed_credits_nobody() -> None:
    played = [*games(1), episode("p", 1, "tptp", error="the sandbox is gone")]
    gap = (((1.0,), (None,), (0.0,), (0.0,)), ((1.0,), (1.0,), (1.0,), (1.0,)))
    assert team_returns(played, gap, [[0, 1, 2, 3]] * 2, 1.0) == [((None,),) * 4] * 2


def test_a_team_trains_on_what_it_earns_together_where_an_advantage_takes_returns() -> None:
    played = shard(episode("p", 0, "tp"), episode("p", 1, "tp"))
    scored = scores(((0.2,), (1.0,)), ((0.0,), (0.0,)))
    gae = choose_algorithm(advantage="gae", discount=0.5)
    batches, _ = train_batches(
        [played], [scored], algorithm=gae, policies=["small"], with_silent_groups=True,
        moves_E_N=[[0, 1], [0, 1]], shares_returns=True,
    )  # fmt: skip
    rows = [row for group in batches["small"].groups for row in zip(group.advantages_K, group.moves_K, strict=True)]
    assert sorted(rows) == [(0.0, (1, 0)), (pytest.approx(0.7), (0, 0))]
