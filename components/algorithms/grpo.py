"""Plain GRPO on a team: whole episodes of one problem are compared, and every action of an episode shares its advantage."""

from collections.abc import Sequence

from components.algorithms.grouping import Advantages, Rewards, episode_returns, problems, to_every_action
from components.algorithms.normalisation import advantages
from components.config import AlgorithmConfig
from components.schema import Episode


def compare_episodes(episodes: Sequence[Episode], rewards_E_N_K: Rewards, algorithm: AlgorithmConfig) -> Advantages:
    """Advantages with the axes of the rewards. The group is all episodes of a problem, however long each was.

    **Example** two episodes of a problem end with 1.3 and .3: every action of the first gets +1, of the second -1.
    """
    returns_E = episode_returns(episodes, rewards_E_N_K)
    siblings = problems(episodes)
    compared = advantages([[returns_E[index] for index in indices] for indices in siblings], algorithm)
    advantages_E = [0.0] * len(episodes)
    for indices, values in zip(siblings, compared, strict=True):
        for index, value in zip(indices, values, strict=True):
            advantages_E[index] = value
    return to_every_action(advantages_E, rewards_E_N_K)
