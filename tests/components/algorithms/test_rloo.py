"""RLOO against the paper's formula, in a tree and over whole episodes, and against TRL's RLOOTrainer."""

import pytest

from components.algorithms.rloo import leave_one_out
from tests.components.algorithms.episodes import episode
from tests.sections import choose_algorithm

RLOO = choose_algorithm(advantage="rloo")


def test_candidates_of_a_node_are_compared_with_the_others() -> None:
    found = leave_one_out([episode("a", 0, "t", num=3)], [((1.0, 0.0, 0.0),)], RLOO)
    assert found == [((1.0, -0.5, -0.5),)]


def test_episodes_of_a_problem_are_compared_where_nodes_hold_one_candidate() -> None:
    episodes = [episode("a", number, "tp") for number in range(3)]
    rewards = [((9.0,), (3.0,)), ((9.0,), (0.0,)), ((9.0,), (0.0,))]
    assert leave_one_out(episodes, rewards, RLOO) == [((3.0,), (3.0,)), ((-1.5,), (-1.5,)), ((-1.5,), (-1.5,))]


def test_a_missing_reward_is_nobodys_baseline() -> None:
    found = leave_one_out([episode("a", 0, "t", num=4)], [((1.0, None, 0.0, 0.0),)], RLOO)
    assert found == [((1.0, None, -0.5, -0.5),)]


def test_over_the_batch_it_is_trls_normalisation_up_to_its_sample_deviation() -> None:
    import torch

    rewards_G_K = [(1.0, 0.0, 0.0, 0.5), (0.2, 0.9, 0.1, 0.0)]
    rewards = torch.tensor(rewards_G_K, dtype=torch.float64)
    # RLOOTrainer: baselines = (sum - reward) / (n - 1), then (A - mean) / (std + 1e-4) over the batch.
    raw = (rewards - (rewards.sum(1, keepdim=True) - rewards) / 3).view(-1)
    theirs = ((raw - raw.mean()) / (raw.std() + 1e-4)).tolist()
    algorithm = choose_algorithm(advantage="rloo", normalize_std=True, normalize_over="batch")
    episodes = [episode("a", 0, "t", num=4), episode("b", 0, "t", num=4)]
    ours = [
        value
        for advantages_N_K in leave_one_out(episodes, [(group,) for group in rewards_G_K], algorithm)
        for advantages_K in advantages_N_K
        for value in advantages_K
    ]
    assert [t / o for t, o in zip(theirs, ours, strict=True)] == pytest.approx([(7 / 8) ** 0.5] * 8, rel=1e-4)
