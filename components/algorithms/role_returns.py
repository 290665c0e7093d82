"""Advantages in a population, whose rewards are already the agents' own returns from each action on.

role_baseline: the stage that mixes returns has subtracted each agent's average, which is state of the run (SPIRAL, arXiv
2506.24119). role_mean: the mean over the step is subtracted here, for each agent and turn (MARSHAL, arXiv 2510.15414, sums
first and compares then), divided by the deviation with `normalize_std`. role_group: the same over the replicas of one problem,
which begin in one state (GRPO, arXiv 2402.03300). gae: returns stay whole until the update, where the
critic is (`gae`).
"""

from collections.abc import Sequence

from components.algorithms.grouping import Advantages, Rewards, compared, flatten, unflatten
from components.config import AlgorithmConfig
from components.schema import Episode


def credited_returns(episodes: Sequence[Episode], rewards_E_N_K: Rewards, algorithm: AlgorithmConfig) -> Advantages:
    """The rewards as they are.

    **Example** credits .4 and -.6: advantages .4 and -.6.
    """
    return unflatten(flatten(rewards_E_N_K), rewards_E_N_K)


def less_role_mean(episodes: Sequence[Episode], rewards_E_N_K: Rewards, algorithm: AlgorithmConfig) -> Advantages:
    """Each return less the mean of the returns of its agent in that turn, over all episodes.

    **Example** ann's returns 1 and 0 in the first turn of two episodes: .5 and -.5.
    """
    keys = [
        (node.group.agent, node.group.turn) for episode in episodes for node in episode.nodes for _ in node.candidates
    ]
    return unflatten(compared(flatten(rewards_E_N_K), keys, algorithm), rewards_E_N_K)


def less_replica_mean(episodes: Sequence[Episode], rewards_E_N_K: Rewards, algorithm: AlgorithmConfig) -> Advantages:
    """Each return less the mean of the returns of its agent in that turn, over the episodes of one problem.

    **Example** ann's first returns are 1 and 0 on one problem, 5 and 5 on another: .5, -.5, 0 and 0.
    """
    keys = [
        (episode.problem.problem_id, node.group.agent, node.group.turn)
        for episode in episodes
        for node in episode.nodes
        for _ in node.candidates
    ]
    return unflatten(compared(flatten(rewards_E_N_K), keys, algorithm), rewards_E_N_K)
