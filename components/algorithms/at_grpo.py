"""AT-GRPO: the candidates of one node are compared with each other, with the normalisation of GRPO.

`A_k = (r_k - mean) / (std + epsilon)` over one group (DeepSeekMath, arXiv:2402.03300, eq. 3.2 before the clip; "Stronger
Together", arXiv:2510.11062, algorithm 1). The candidates of a node share their prompt tokens, so that the mean is a baseline of
their state.
"""

from collections.abc import Sequence

from components.algorithms.grouping import Advantages, Rewards
from components.algorithms.normalisation import advantages
from components.config import AlgorithmConfig
from components.schema import Episode


def at_grpo_advantages(episodes: Sequence[Episode], rewards_E_N_K: Rewards, algorithm: AlgorithmConfig) -> Advantages:
    """Advantages with the axes of the rewards; each node is a group.

    **Example** one node with rewards (1, 0, 0, None, 1): (1, -1, -1, None, 1) up to epsilon.
    """
    groups = iter(advantages([rewards_K for rewards_N_K in rewards_E_N_K for rewards_K in rewards_N_K], algorithm))
    return [tuple(next(groups) for _ in rewards_N_K) for rewards_N_K in rewards_E_N_K]
