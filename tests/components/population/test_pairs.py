"""The learners of two actions: gradients by autograd, the benchmark's bars, and a comparison that cannot favour one side."""

from math import exp, log
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from components.environments.social.coop_compete import PairGame
from components.errors import ConfigurationError
from components.population.pairs import (
    EPSILON,
    OurMethodPolicy,
    SimplePG,
    pair_exploitability,
    pair_value,
    play_pair,
)

STEPS = st.lists(st.tuples(st.integers(0, 1), st.floats(-1, 1)), min_size=2, max_size=20)


@given(STEPS, st.floats(-3, 3))
def test_the_step_is_the_gradient_that_autograd_finds(steps: list[tuple[int, float]], theta: float) -> None:
    policy = SimplePG(lr=0.5)
    policy.theta = theta
    rewards = torch.tensor([reward for _, reward in steps], dtype=torch.float64)
    advantages = (rewards - rewards.mean()) / (rewards.std(correction=0) + EPSILON)
    logit = torch.tensor(theta, dtype=torch.float64, requires_grad=True)
    actions = torch.tensor([float(action) for action, _ in steps], dtype=torch.float64)
    logprobs = torch.distributions.Bernoulli(logits=logit).log_prob(actions)
    (logprobs * advantages).mean().backward()
    policy.update([(action, policy.log_probability(action), reward) for action, reward in steps])
    assert logit.grad is not None
    assert policy.theta - theta == pytest.approx(0.5 * logit.grad.item(), abs=1e-6)


def test_steps_of_another_policy_count_by_their_ratio_up_to_two() -> None:
    def move(drawn_at: float) -> float:
        policy = SimplePG(lr=1.0)
        policy.update([(1, log(drawn_at), 1.0), (0, log(0.5), 0.0)])
        return policy.theta

    plain = move(0.5)
    assert move(0.8) == pytest.approx(plain * (0.5 / 0.8 + 1) / 2)
    assert move(0.01) == pytest.approx(plain * (2 + 1) / 2)


def test_knowing_the_opponent_scales_the_step_and_nothing_else() -> None:
    steps = [(1, log(0.5), 1.0), (0, log(0.5), 0.0)]
    plain, aware = SimplePG(lr=0.5), OurMethodPolicy(lr=0.5, momentum=0.5)
    for action in (1, 1):
        aware.observe_opponent(action)
    assert aware.opp_coop_est == pytest.approx(0.875)
    plain.update(steps)
    aware.update(steps, PairGame(cooperation_level=0.2))
    assert aware.theta == pytest.approx(plain.theta * (1 + 0.5 * -0.6 * 0.75))


@pytest.mark.parametrize("bad", [(2, 0.0, 1.0), (1, float("nan"), 1.0), (0, 0.0, float("inf")), (1, 0.0)])
def test_a_step_that_is_no_number_is_refused_and_changes_nothing(bad: Any) -> None:
    policy = SimplePG()
    with pytest.raises(ConfigurationError, match="trajectories"):
        policy.update([bad, (0, 0.0, 0.5)])
    assert policy.theta == 0
    for make in (lambda: SimplePG(0), lambda: OurMethodPolicy(momentum=2), lambda: OurMethodPolicy().update([])):
        with pytest.raises(ConfigurationError, match=r"lr 0|momentum 2|env None"):
            make()


def test_log_probabilities_are_finite_at_any_logit() -> None:
    policy = SimplePG()
    policy.theta = 800.0
    assert policy.log_probability(1) == pytest.approx(0.0)
    assert policy.log_probability(0) == pytest.approx(-800.0)
    policy.theta = -1.0
    assert exp(policy.log_probability(1)) + exp(policy.log_probability(0)) == pytest.approx(1.0)


def test_values_and_exploitability_by_hand() -> None:
    game = PairGame(cooperation_level=0.6)
    assert pair_value(game, 0.5, 0.5) == pytest.approx(0.7125)
    assert pair_exploitability(game, 0.5, 0.5) == pytest.approx(0.0125)
    assert pair_exploitability(game, 1, 1) == pair_exploitability(game, 0, 0) == 0
    assert pair_exploitability(game, 4 / 9, 4 / 9) == pytest.approx(0, abs=1e-12), "where both actions earn the same"


@pytest.mark.parametrize(("level", "bar"), [(0.2, 0.89), (0.6, 0.84), (0.8, 0.89)])
def test_the_policy_gradient_reaches_the_bar_on_every_seed(level: float, bar: float) -> None:
    for seed in range(4):
        run = play_pair(PairGame(cooperation_level=level), "PG", episodes=150, seed=seed, lr=0.5)
        assert run.last_mean() >= bar
        assert run.episodes_to_target is not None
        assert run.exploitability < 0.002


def test_at_the_level_where_knowing_says_nothing_both_learners_are_one() -> None:
    game = PairGame(cooperation_level=0.5)
    one, other = (play_pair(game, kind, episodes=30, seed=3, lr=0.5) for kind in ("PG", "OUR"))
    assert (one.rewards_A, one.rewards_B) == (other.rewards_A, other.rewards_B)
