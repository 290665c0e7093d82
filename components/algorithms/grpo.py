"""Plain GRPO on a team: whole episodes of one problem are compared; every action of an episode gets its advantage."""

from collections.abc import Sequence

from components.algorithms.at_grpo import at_grpo_advantages
from components.algorithms.grouping import (
    Advantages,
    Rewards,
    compare_equal_keys,
    episode_returns,
    is_tree,
    to_every_action,
)
from components.config import AlgorithmConfig
from components.schema import Episode


def grpo_advantages(episodes: Sequence[Episode], rewards_E_N_K: Rewards, algorithm: AlgorithmConfig) -> Advantages:
    """Advantages with the axes of the rewards. A group is all episodes of a problem, whatever their lengths.

    **Example** two episodes of a problem end with 1.3 and .3: every action of the first gets +1, of the second -1.
    """
    problems = [episode.problem.problem_id for episode in episodes]
    returns_E = episode_returns(episodes, rewards_E_N_K)
    return to_every_action(compare_equal_keys(returns_E, problems, algorithm), rewards_E_N_K)


def compare_siblings(episodes: Sequence[Episode], rewards_E_N_K: Rewards, algorithm: AlgorithmConfig) -> Advantages:
    """Advantages with the axes of the rewards: nodes are compared in a tree, else episodes."""
    compare = at_grpo_advantages if is_tree(episodes) else grpo_advantages
    return compare(episodes, rewards_E_N_K, algorithm)
