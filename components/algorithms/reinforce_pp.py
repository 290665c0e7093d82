"""REINFORCE++: every return less the mean of the whole batch, over its deviation (arXiv:2501.03262).

`A = (R - mean_batch) / (std_batch + epsilon)`. There is no group, so that one answer per problem is enough; a problem whose
answers all earned the same still teaches. What is counted once is what was drawn: the candidate of a tree, else the episode.
OpenRLHF weighs each by its number of tokens and adds 1e-8. The paper's variant with a group baseline is at_grpo or grpo with
`normalize_over: batch`.
"""

from collections.abc import Sequence

from components.algorithms.grouping import (
    Advantages,
    Rewards,
    episode_returns,
    is_tree,
    nodes,
    to_every_action,
    to_nodes,
)
from components.algorithms.normalisation import group_advantages
from components.config import AlgorithmConfig
from components.schema import Episode


def compare_with_batch(episodes: Sequence[Episode], rewards_E_N_K: Rewards, algorithm: AlgorithmConfig) -> Advantages:
    """Advantages with the axes of the rewards.

    **Example** nodes that earn (1, 1) and (0, 0): (1, 1) and (-1, -1) up to epsilon.
    """
    if not is_tree(episodes):
        returns_E = episode_returns(episodes, rewards_E_N_K)
        return to_every_action(
            group_advantages(returns_E, normalize_std=True, epsilon=algorithm.epsilon), rewards_E_N_K
        )
    groups = nodes(rewards_E_N_K)
    together = [reward for rewards_K in groups for reward in rewards_K]
    flat = iter(group_advantages(together, normalize_std=True, epsilon=algorithm.epsilon))
    return to_nodes([tuple(next(flat) for _ in rewards_K) for rewards_K in groups], rewards_E_N_K)
