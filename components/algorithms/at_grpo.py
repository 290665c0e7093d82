"""Advantages of the candidates of one node, compared with each other: AT-GRPO, and the normalisation of GRPO.

`A_k = (r_k - mean) / (std + epsilon)` over one group (DeepSeekMath, arXiv:2402.03300, eq. 3.2 before the clip; "Stronger
Together", arXiv:2510.11062, algorithm 1). Candidates of a node saw identical prompt tokens, so that the mean is a baseline of
the state that they acted in.
"""

from collections.abc import Sequence

from components.algorithms.grouping import Advantages, Rewards, nodes, to_nodes
from components.algorithms.normalisation import advantages
from components.config import AlgorithmConfig
from components.schema import Episode


def compare_nodes(episodes: Sequence[Episode], rewards_E_N_K: Rewards, algorithm: AlgorithmConfig) -> Advantages:
    """Advantages with the axes of the rewards: each node is a group of its own.

    **Example** one node with rewards (1, 0, 0, None, 1): (1, -1, -1, 0, 1) up to epsilon.
    """
    return to_nodes(advantages(nodes(rewards_E_N_K), algorithm), rewards_E_N_K)
