"""Plain GRPO on a team: whole episodes of one problem are compared, and every action of an episode shares its advantage."""

from collections.abc import Sequence

from components.algorithms.grouping import Advantages, Rewards, compared, episode_returns, to_every_action
from components.config import AlgorithmConfig
from components.schema import Episode


def compare_episodes(episodes: Sequence[Episode], rewards_E_N_K: Rewards, algorithm: AlgorithmConfig) -> Advantages:
    """Advantages with the axes of the rewards. The group is all episodes of a problem, however long each was.

    **Example** two episodes of a problem end with 1.3 and .3: every action of the first gets +1, of the second -1.
    """
    problems = [episode.problem.problem_id for episode in episodes]
    returns_E = episode_returns(episodes, rewards_E_N_K)
    return to_every_action(compared(returns_E, problems, algorithm), rewards_E_N_K)
