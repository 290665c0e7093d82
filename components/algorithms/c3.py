"""C3: a candidate is worth what becomes of it, less what becomes of its siblings (arXiv:2603.06859).

`A_k = Q_k - 1/(n - 1) sum_{j != k} Q_j`. Q_k, the mean reward of the episodes below candidate k, is the candidate's reward in
rollout mode nested; in mode tree with `rewards.team_credit` it comes from one continuation. Siblings share their state, so that
the others' mean is a baseline that does not depend on the candidate. Nothing is divided by a deviation.
"""

from collections.abc import Sequence

from components.algorithms.at_grpo import at_grpo_advantages
from components.algorithms.grouping import Advantages, Rewards
from components.config import AlgorithmConfig
from components.schema import Episode


def c3_advantages(episodes: Sequence[Episode], rewards_E_N_K: Rewards, algorithm: AlgorithmConfig) -> Advantages:
    """Advantages with the axes of the rewards; each node is a group.

    **Example** two candidates below which episodes earn (1, 0) and (0, 0), so that their Q are (.5, 0): (.5, -.5).
    """
    assert algorithm.leave_one_out, f"c3 without its baseline: {algorithm}"
    assert not algorithm.normalize_std, f"c3 divides by no deviation: {algorithm}"
    return at_grpo_advantages(episodes, rewards_E_N_K, algorithm)
