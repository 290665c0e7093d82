"""Advantages of the candidates of one node, compared with each other: AT-GRPO, and the normalisation of GRPO.

`A_k = (r_k - mean) / (std + epsilon)` over one group (DeepSeekMath, arXiv:2402.03300, eq. 3.2 before the clip; "Stronger
Together", arXiv:2510.11062, algorithm 1). The standard deviation is the population's (n in the denominator): the candidates
are all there is to compare with, and a group of two then gives +1 and -1.
"""

import math
from collections.abc import Sequence

from components.config import AlgorithmConfig
from components.metrics import population_std
from components.schema import Episode


def at_grpo_advantages(rewards_K: Sequence[float | None], *, normalize_std: bool, epsilon: float) -> tuple[float, ...]:
    """One advantage a candidate; they sum to 0.

    A candidate without a reward (None) stays out of the mean and the deviation and gets 0. Fewer than two rewards, or equal
    ones, give exact zeros. Without `normalize_std` the centred reward is not divided (Dr. GRPO, arXiv:2503.20783).

    **Example** rewards (1, 0, 0, None, 1): mean .5, std .5, advantages (1, -1, -1, 0, 1) up to epsilon.
    """
    known = [reward for reward in rewards_K if reward is not None]
    if not known or min(known) == max(known):
        return (0.0,) * len(rewards_K)
    center = math.fsum(known) / len(known)
    scale = population_std(known) + epsilon if normalize_std else 1.0
    return tuple(0.0 if reward is None else (reward - center) / scale for reward in rewards_K)


def compare_nodes(
    episodes: Sequence[Episode],
    rewards_E_N_K: Sequence[Sequence[Sequence[float | None]]],
    algorithm: AlgorithmConfig,
) -> list[tuple[tuple[float, ...], ...]]:
    """Advantages with the axes of the rewards: each node is a group of its own."""
    return [
        tuple(
            at_grpo_advantages(rewards_K, normalize_std=algorithm.normalize_std, epsilon=algorithm.epsilon)
            for rewards_K in rewards_N_K
        )
        for rewards_N_K in rewards_E_N_K
    ]
