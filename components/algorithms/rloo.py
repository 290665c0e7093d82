"""RLOO: each reward's baseline is the mean of its siblings ("Back to Basics", arXiv:2402.14740).

`A_k = r_k - 1/(n - 1) sum_{j != k} r_j = n/(n - 1) (r_k - mean)`. The baseline does not depend on the action, so that the
estimate is unbiased; GRPO's mean shrinks it by (n - 1) / n. The paper does not normalise; TRL's RLOOTrainer can normalise over
the batch, which is `normalize_std` with `normalize_over` batch here.
"""

from collections.abc import Sequence

from components.algorithms.grouping import Advantages, Rewards
from components.algorithms.grpo import compare_siblings
from components.config import AlgorithmConfig
from components.schema import Episode


def leave_one_out(episodes: Sequence[Episode], rewards_E_N_K: Rewards, algorithm: AlgorithmConfig) -> Advantages:
    """Advantages with the axes of the rewards.

    **Example** candidates that earn (1, 0, 0): (1, -.5, -.5).
    """
    assert algorithm.leave_one_out, f"rloo without its baseline: {algorithm}"
    return compare_siblings(episodes, rewards_E_N_K, algorithm)
