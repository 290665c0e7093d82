"""The learning signal of one problem, for dynamic sampling."""

from collections.abc import Sequence

from components.algorithms.grouping import Rewards
from components.algorithms.registry import find_estimator
from components.config import AlgorithmConfig
from components.schema import Episode


def has_signal(
    episodes: Sequence[Episode], algorithm: AlgorithmConfig, *, rewards_E_N_K: Rewards | None = None
) -> bool:
    """Whether any action of one problem's `episodes` gets an advantage other than 0.

    The rewards are those of the sampler unless given, before any length penalty: differences in length alone do not keep a
    problem.

    **Example** a tree whose candidates all earned 1.3: False.
    """
    if rewards_E_N_K is None:
        rewards_E_N_K = [
            tuple(
                tuple(None if c.outcome.unscorable is not None else c.reward for c in node.candidates)
                for node in episode.nodes
            )
            for episode in episodes
        ]
    advantages_E_N_K = find_estimator(algorithm.advantage, source=algorithm.source)(episodes, rewards_E_N_K, algorithm)
    return any(a for advantages_N_K in advantages_E_N_K for advantages_K in advantages_N_K for a in advantages_K)
