"""Dr. GRPO: centered rewards, because dividing by the deviation of a group favours problems that are nearly always or nearly
never solved ("Understanding R1-Zero-Like Training", arXiv:2503.20783, section 3.1).

Combine with `loss.aggregation: fixed_length`: dividing token losses by the length of the answer favours short right answers
and long wrong ones.
"""

from collections.abc import Sequence

from components.algorithms.grouping import Advantages, Rewards
from components.algorithms.grpo import compare_siblings
from components.config import AlgorithmConfig
from components.schema import Episode


def dr_grpo_advantages(episodes: Sequence[Episode], rewards_E_N_K: Rewards, algorithm: AlgorithmConfig) -> Advantages:
    """Advantages with the axes of the rewards.

    **Example** candidates that earn (1, 0, 0, 0): (.75, -.25, -.25, -.25).
    """
    assert not algorithm.normalize_std, f"dr_grpo divides by no deviation: {algorithm}"
    return compare_siblings(episodes, rewards_E_N_K, algorithm)
