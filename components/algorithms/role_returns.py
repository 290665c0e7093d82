"""Advantages in a population, whose rewards are already the agents' own returns from each action on.

role_baseline: the stage that mixes returns has subtracted each agent's average, which is state of the run (SPIRAL, arXiv
2506.24119). role_mean: the mean over the step is subtracted here, for each agent and turn (MARSHAL, arXiv 2510.15414, sums
first and compares then), divided by the deviation with `normalize_std`. role_group: the same over the replicas of one problem,
which begin in one state (GRPO, arXiv 2402.03300). gae: returns stay whole until the update, where the
critic is (`gae`).
"""

from collections.abc import Sequence

from components.algorithms.grouping import Advantages, Rewards, compare_equal_keys, flatten, unflatten
from components.config import AlgorithmConfig
from components.mathematics.returns import discount_returns
from components.schema import Episode


def team_returns(
    episodes: Sequence[Episode], rewards_E_N_K: Rewards, moves_E_N: Sequence[Sequence[int]], discount: float
) -> Advantages:
    """What a team earns from each action on, which all its agents share: `G_m = r_m + discount G_(m+1)`, with the axes of the
    rewards. r_m is the sum of the rewards of those who act in move m. None in an episode that failed or lacks a reward.

    **Example** discount .5: ann's move earns .2, bob's then 1: ann is credited with .7, bob with 1.
    """
    credited: Advantages = []
    for episode, rewards_N_K, moves_N in zip(episodes, rewards_E_N_K, moves_E_N, strict=True):
        earned_N = [rewards_K[node.chosen] for node, rewards_K in zip(episode.nodes, rewards_N_K, strict=True)]
        known = [(move, earned) for move, earned in zip(moves_N, earned_N, strict=True) if move >= 0]
        if episode.error is not None or any(earned is None for _, earned in known):
            credited.append(tuple((None,) * len(rewards_K) for rewards_K in rewards_N_K))
            continue
        num_moves = max((move for move, _ in known), default=-1) + 1
        earned_M = [[sum(earned or 0.0 for at, earned in known if at == move)] for move in range(num_moves)]
        returns_M = [earned for (earned,) in discount_returns(earned_M, discount).tolist()]
        pairs = zip(moves_N, rewards_N_K, strict=True)
        credited.append(tuple((returns_M[move] if move >= 0 else None,) * len(rewards_K) for move, rewards_K in pairs))
    return credited


def keep_returns(episodes: Sequence[Episode], rewards_E_N_K: Rewards, algorithm: AlgorithmConfig) -> Advantages:
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
    return unflatten(compare_equal_keys(flatten(rewards_E_N_K), keys, algorithm), rewards_E_N_K)


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
    return unflatten(compare_equal_keys(flatten(rewards_E_N_K), keys, algorithm), rewards_E_N_K)
