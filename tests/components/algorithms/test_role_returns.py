"""Advantages of a population's returns: as they are, or less the mean of the agent's returns in that turn."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from components.algorithms.role_returns import credited_returns, less_replica_mean, less_role_mean
from components.schema import Episode
from tests.components.algorithms.episodes import episode
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
    assert credited_returns(games(1), given_credits, config) == [*given_credits]
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
