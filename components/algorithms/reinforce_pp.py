"""REINFORCE++: every return less the mean of the whole batch, over its deviation (arXiv:2501.03262).

`A = (R - mean_batch) / (std_batch + epsilon)`. Without groups, one answer per problem is enough, and a problem with equal
rewards still has a signal. Candidates of a tree, else episodes, count equally; OpenRLHF weighs them by their number of tokens
and adds 1e-8. The paper's variant with a group baseline is at_grpo or grpo with `normalize_over: batch`.
"""

from collections.abc import Sequence

from components.algorithms.grouping import (
    Advantages,
    Rewards,
    episode_returns,
    flatten,
    is_tree,
    to_every_action,
    unflatten,
)
from components.algorithms.normalisation import group_advantages
from components.config import AlgorithmConfig
from components.schema import Episode


def reinforce_pp_advantages(
    episodes: Sequence[Episode], rewards_E_N_K: Rewards, algorithm: AlgorithmConfig
) -> Advantages:
    """Advantages with the axes of the rewards.

    **Example** nodes that earn (1, 1) and (0, 0): (1, 1) and (-1, -1) up to epsilon.
    """
    tree = is_tree(episodes)
    earned = flatten(rewards_E_N_K) if tree else episode_returns(episodes, rewards_E_N_K)
    values = group_advantages(earned, normalize_std=True, epsilon=algorithm.epsilon)
    return unflatten(values, rewards_E_N_K) if tree else to_every_action(values, rewards_E_N_K)
