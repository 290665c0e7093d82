"""Advantages of the candidates of one node, compared with each other: AT-GRPO, and the normalisation of GRPO.

`A_k = (r_k - mean) / (std + epsilon)` over one group (DeepSeekMath, arXiv:2402.03300, eq. 3.2 before the clip; "Stronger
Together", arXiv:2510.11062, algorithm 1). Candidates of a node saw identical prompt tokens, so that the mean is a baseline of
the state that they acted in.
"""

from collections.abc import Sequence

from components.algorithms.grouping import Advantages, Rewards, actions, compared, to_actions
from components.config import AlgorithmConfig
from components.schema import Episode


def compare_nodes(episodes: Sequence[Episode], rewards_E_N_K: Rewards, algorithm: AlgorithmConfig) -> Advantages:
    """Advantages with the axes of the rewards: each node is a group of its own.

    **Example** one node with rewards (1, 0, 0, None, 1): (1, -1, -1, 0, 1) up to epsilon.
    """
    nodes = [
        (e, n)
        for e, rewards_N_K in enumerate(rewards_E_N_K)
        for n, rewards_K in enumerate(rewards_N_K)
        for _ in rewards_K
    ]
    return to_actions(compared(actions(rewards_E_N_K), nodes, algorithm), rewards_E_N_K)
