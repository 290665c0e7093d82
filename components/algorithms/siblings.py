"""What the rollout mode repeated is what is compared: the candidates of a node in a tree, else the episodes of a problem."""

from collections.abc import Sequence

from components.algorithms.at_grpo import compare_nodes
from components.algorithms.grouping import Advantages, Rewards, is_tree
from components.algorithms.grpo import compare_episodes
from components.config import AlgorithmConfig
from components.schema import Episode


def compare_siblings(episodes: Sequence[Episode], rewards_E_N_K: Rewards, algorithm: AlgorithmConfig) -> Advantages:
    """Advantages with the axes of the rewards."""
    compare = compare_nodes if is_tree(episodes) else compare_episodes
    return compare(episodes, rewards_E_N_K, algorithm)
