"""Candidates of a node are compared with each other and with nobody else."""

import pytest

from components.algorithms.at_grpo import at_grpo_advantages
from tests.components.algorithms.episodes import episode
from tests.sections import choose_algorithm


def test_every_node_is_a_group_of_its_own() -> None:
    episodes = [episode("a", 0, "tp", num=2), episode("a", 1, "t", num=2)]
    rewards = [((1.0, 0.0), (5.0, 9.0)), ((3.0, 3.0),)]
    assert at_grpo_advantages(episodes, rewards, choose_algorithm(normalize_std=False)) == [
        ((0.5, -0.5), (-2.0, 2.0)),
        ((0.0, 0.0),),
    ]


def test_leaving_one_out_and_the_deviation_go_together() -> None:
    (((first, second, third),),) = at_grpo_advantages(
        [episode("a", 0, "t", num=3)], [((1.0, 0.0, 0.0),)], choose_algorithm(leave_one_out=True, epsilon=1e-12)
    )
    deviation = (2 / 9) ** 0.5
    assert (first, second, third) == pytest.approx((1.0 / deviation, -0.5 / deviation, -0.5 / deviation))
