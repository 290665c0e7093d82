"""Groups of a step's actions as lists of rewards, and their advantages with the axes of the rewards.

Axes: E episodes, N nodes of an episode, K candidates of a node.
"""

from collections.abc import Hashable, Iterable, Sequence
from typing import TypeVar

from components.algorithms.normalisation import Group, advantages
from components.config import AlgorithmConfig
from components.schema import Episode, Node

Value = TypeVar("Value", float, float | None)
Rewards = Sequence[Sequence[Sequence[float | None]]]
"""Axes E, N, K."""
Advantages = list[tuple[tuple[float | None, ...], ...]]
"""Axes E, N, K. None: the action is wholly out; it makes no row and counts nowhere."""


def is_tree(episodes: Sequence[Episode]) -> bool:
    """Whether nodes have several candidates; else whole episodes were repeated."""
    return any(len(node.candidates) > 1 for episode in episodes for node in episode.nodes)


def select_compared_rewards(episodes: Sequence[Episode], rewards_E_N_K: Rewards) -> Rewards:
    """The rewards, with None for the answers of a tree that are compared with no other.

    **Example** a tree with nodes that earned (1, 0) and (5,): (1, 0) and (None,).
    """
    tree = is_tree(episodes)
    return [
        tuple(
            (None,) * len(rewards_K) if _is_alone(node, tree=tree) else tuple(rewards_K)
            for node, rewards_K in zip(episode.nodes, rewards_N_K, strict=True)
        )
        for episode, rewards_N_K in zip(episodes, rewards_E_N_K, strict=True)
    ]


def _is_alone(node: Node, *, tree: bool) -> bool:
    return not node.is_trained_on or (tree and len(node.candidates) == 1)


def flatten(values_E_N_K: Rewards) -> list[float | None]:
    """The values of all actions, flattened."""
    return [value for values_N_K in values_E_N_K for values_K in values_N_K for value in values_K]


def unflatten(values: Iterable[float | None], rewards_E_N_K: Rewards) -> Advantages:
    """The inverse of `flatten`."""
    each = iter(values)
    return [tuple(tuple(next(each) for _ in rewards_K) for rewards_K in rewards_N_K) for rewards_N_K in rewards_E_N_K]


def to_every_action(values_E: Sequence[Value], rewards_E_N_K: Rewards) -> list[tuple[tuple[Value, ...], ...]]:
    """Each episode's value repeated for all its actions."""
    return [
        tuple((value,) * len(rewards_K) for rewards_K in rewards_N_K)
        for value, rewards_N_K in zip(values_E, rewards_E_N_K, strict=True)
    ]


def compare_equal_keys(earned: Group, keys: Iterable[Hashable], algorithm: AlgorithmConfig) -> list[float | None]:
    """The advantage of each of `earned` among those with an equal key.

    **Example** earned (1, 0, 5), keys (a, a, b), nothing divided: (.5, -.5, 0).
    """
    members: dict[Hashable, list[int]] = {}
    for index, key in enumerate(keys):
        members.setdefault(key, []).append(index)
    found: list[float | None] = [None] * len(earned)
    groups = [[earned[index] for index in indices] for indices in members.values()]
    for indices, values in zip(members.values(), advantages(groups, algorithm), strict=True):
        for index, value in zip(indices, values, strict=True):
            found[index] = value
    return found


def episode_return(episode: Episode, rewards_N_K: Sequence[Sequence[float | None]]) -> float | None:
    """The return of an episode: the reward of its final action; None for a failed episode and for one without a turn.

    The final action is the one that ended it, or the last agent's in the last turn. Earlier rewards are left out, or longer
    episodes would earn more.
    """
    final = episode.final
    if episode.error is not None or final is None:
        return None
    return rewards_N_K[final][episode.nodes[final].chosen]


def episode_returns(episodes: Sequence[Episode], rewards_E_N_K: Rewards) -> list[float | None]:
    """The return of each episode."""
    return [episode_return(*pair) for pair in zip(episodes, rewards_E_N_K, strict=True)]


def action_rewards(episodes: Sequence[Episode], rewards_E_N_K: Rewards) -> Rewards:
    """The reward of each action: in a tree its own, else its episode's return."""
    if is_tree(episodes):
        return rewards_E_N_K
    return to_every_action(episode_returns(episodes, rewards_E_N_K), rewards_E_N_K)
