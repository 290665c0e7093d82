"""Which actions of a step are compared with each other, as lists of rewards; and advantages put back where they belong.

Axes: E episodes, N nodes of an episode, K candidates of a node.
"""

from collections.abc import Iterator, Sequence

from components.algorithms.normalisation import Group
from components.schema import Episode

Rewards = Sequence[Sequence[Sequence[float | None]]]
"""Axes E, N, K."""
Advantages = list[tuple[tuple[float, ...], ...]]
"""Axes E, N, K."""


def is_tree(episodes: Sequence[Episode]) -> bool:
    """Whether nodes were sampled with several candidates; else whole episodes are what was repeated."""
    return any(len(node.candidates) > 1 for episode in episodes for node in episode.nodes)


def nodes(rewards_E_N_K: Rewards) -> list[Group]:
    """Every node as a group, in order."""
    return [rewards_K for rewards_N_K in rewards_E_N_K for rewards_K in rewards_N_K]


def to_nodes(advantages_G_K: Sequence[tuple[float, ...]], rewards_E_N_K: Rewards) -> Advantages:
    """The inverse of `nodes`."""
    flat = iter(advantages_G_K)
    return [tuple(next(flat) for _ in rewards_N_K) for rewards_N_K in rewards_E_N_K]


def problems(episodes: Sequence[Episode]) -> list[list[int]]:
    """The indices of each problem's episodes, problems in the order in which they come first."""
    indices: dict[str, list[int]] = {}
    for index, episode in enumerate(episodes):
        indices.setdefault(episode.problem.problem_id, []).append(index)
    return list(indices.values())


def to_every_action(advantages_E: Sequence[float], rewards_E_N_K: Rewards) -> Advantages:
    """Each episode's advantage for all its actions."""
    return [
        tuple((advantage,) * len(rewards_K) for rewards_K in rewards_N_K)
        for advantage, rewards_N_K in zip(advantages_E, rewards_E_N_K, strict=True)
    ]


def episode_return(episode: Episode, rewards_N_K: Sequence[Sequence[float | None]]) -> float | None:
    """What an episode earned: the reward of its final action, team and local share as the rubric mixes them.

    The final action is the one that ended it, or the last agent's in the last turn, so this is the outcome's reward; rewards
    on the way are left out, or longer episodes would earn more. None for a failed episode and for one without a turn: its
    outcome is not known.
    """
    final = episode.final
    if episode.error is not None or final is None:
        return None
    return rewards_N_K[final][episode.nodes[final].chosen]


def episode_returns(episodes: Sequence[Episode], rewards_E_N_K: Rewards) -> list[float | None]:
    """The return of each episode."""
    return [episode_return(*pair) for pair in zip(episodes, rewards_E_N_K, strict=True)]


def action_rewards(episodes: Sequence[Episode], rewards_E_N_K: Rewards) -> Rewards:
    """What each action earned: its own reward in a tree, where siblings differ in it alone, else its episode's return."""
    if is_tree(episodes):
        return rewards_E_N_K
    return [
        tuple((earned,) * len(rewards_K) for rewards_K in rewards_N_K)
        for earned, rewards_N_K in zip(episode_returns(episodes, rewards_E_N_K), rewards_E_N_K, strict=True)
    ]


def places(episodes: Sequence[Episode]) -> Iterator[tuple[int, int, int, str, str]]:
    """Every action as (episode, node, candidate, problem_id, agent)."""
    for e, episode in enumerate(episodes):
        for n, node in enumerate(episode.nodes):
            for k in range(len(node.candidates)):
                yield e, n, k, episode.problem.problem_id, node.group.agent
