"""Plain GRPO on a team: whole episodes of one problem are compared, and every action of an episode shares its advantage."""

from collections.abc import Sequence

from components.algorithms.at_grpo import at_grpo_advantages
from components.config import AlgorithmConfig
from components.schema import Episode


def episode_return(episode: Episode, rewards_N_K: Sequence[Sequence[float | None]]) -> float | None:
    """What an episode earned: the reward of its final action, team and local share as the rubric mixes them.

    The final action is the one that solved, or the last agent's in the last turn, so this is the outcome's reward; rewards
    on the way are left out, or longer episodes would earn more. None for a failed episode and for one without a turn: its
    outcome is not known.
    """
    if episode.error is not None or not episode.turns:
        return None
    return rewards_N_K[-1][episode.turns[-1].chosen]


def compare_episodes(
    episodes: Sequence[Episode],
    rewards_E_N_K: Sequence[Sequence[Sequence[float | None]]],
    algorithm: AlgorithmConfig,
) -> list[tuple[tuple[float, ...], ...]]:
    """Advantages with the axes of the rewards. The group is all episodes of a problem, however long each was.

    **Example** two episodes of a problem end with 1.3 and .3: every action of the first gets +1, of the second -1.
    """
    siblings: dict[str, list[int]] = {}
    for index, episode in enumerate(episodes):
        siblings.setdefault(episode.problem.problem_id, []).append(index)
    advantages_E = [0.0] * len(episodes)
    for indices in siblings.values():
        returns = [episode_return(episodes[index], rewards_E_N_K[index]) for index in indices]
        compared = at_grpo_advantages(returns, normalize_std=algorithm.normalize_std, epsilon=algorithm.epsilon)
        for index, advantage in zip(indices, compared, strict=True):
            advantages_E[index] = advantage
    return [
        tuple((advantage,) * len(rewards_K) for rewards_K in rewards_N_K)
        for advantage, rewards_N_K in zip(advantages_E, rewards_E_N_K, strict=True)
    ]
