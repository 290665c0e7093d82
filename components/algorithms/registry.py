"""Advantage estimators by their name in the configuration: the built-in ones, and one's own as `module:function`."""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from numbers import Real
from typing import Any

from components.algorithms.at_grpo import compare_nodes
from components.algorithms.dr_grpo import centre_alone
from components.algorithms.dr_mas import compare_agents
from components.algorithms.grouping import Advantages, Rewards
from components.algorithms.grpo import compare_episodes
from components.algorithms.reinforce_pp import compare_with_batch
from components.algorithms.rloo import leave_one_out
from components.config import AlgorithmConfig
from components.errors import ConfigurationError
from components.nearest import meant
from components.own_code import is_own, own_function, place_of, told_in_one_line
from components.schema import Episode

Estimator = Callable[[Sequence[Episode], Rewards, AlgorithmConfig], Advantages]
"""From a step's episodes and their rewards (axes E, N, K) to advantages with the same axes."""

ESTIMATORS: Mapping[str, Estimator] = {
    "at_grpo": compare_nodes,
    "grpo": compare_episodes,
    "dr_mas": compare_agents,
    "rloo": leave_one_out,
    "reinforce_pp": compare_with_batch,
    "dr_grpo": centre_alone,
}
TAKES = ("episodes", "rewards", "algorithm")
"""What an estimator of one's own is called with. A reward of None is of a candidate that could not be scored."""


def estimator(name: str, *, source: str | None = None) -> Estimator:
    """The estimator called `name`; one's own is held to `source`, the digest that the run works with.

    Raises ConfigurationError for any other name, and where own code cannot be used.
    """
    if is_own(name):
        return _own(name, source)
    if name not in ESTIMATORS:
        names = ", ".join(sorted(ESTIMATORS))
        raise ConfigurationError(f"algorithm.advantage {name!r}: {meant(name, ESTIMATORS)}use one of {names}")
    return ESTIMATORS[name]


@cache
def _own(name: str, source: str | None) -> Estimator:
    function = own_function("algorithm.advantage", name, takes=TAKES, source=source)
    what = f"algorithm.advantage {name!r}"

    def estimate(episodes: Sequence[Episode], rewards_E_N_K: Rewards, algorithm: AlgorithmConfig) -> Advantages:
        with told_in_one_line(what):
            found = function(episodes, rewards_E_N_K, algorithm)
        try:
            return _checked(found, episodes, rewards_E_N_K)
        except ValueError as error:
            raise ConfigurationError(f"{what}: {place_of(function)}: {error}") from error

    return estimate


def _checked(found: Any, episodes: Sequence[Episode], rewards_E_N_K: Rewards) -> Advantages:
    """What own code returned, as advantages. Raises ValueError where it is none."""
    advantages: Advantages = []
    _check_axis(found, len(rewards_E_N_K), "the advantages", "episode")
    for episode, found_N_K, rewards_N_K in zip(episodes, found, rewards_E_N_K, strict=True):
        where = f"{episode.problem.problem_id}, episode {episode.episode}"
        _check_axis(found_N_K, len(rewards_N_K), where, "node")
        nodes = []
        for n, (found_K, rewards_K) in enumerate(zip(found_N_K, rewards_N_K, strict=True)):
            _check_axis(found_K, len(rewards_K), f"{where}, node {n}", "candidate")
            nodes.append(
                tuple(
                    _advantage(value, reward, f"{where}, node {n}, candidate {k}")
                    for k, (value, reward) in enumerate(zip(found_K, rewards_K, strict=True))
                )
            )
        advantages.append(tuple(nodes))
    return advantages


def _check_axis(values: Any, num_wanted: int, where: str, of_what: str) -> None:
    if not hasattr(values, "__len__") or isinstance(values, str | bytes | Mapping):
        raise ValueError(f"{where}: {type(values).__name__} instead of a list with an entry for each {of_what}")
    if len(values) != num_wanted:
        raise ValueError(f"{where}: {len(values)} entries; return one for each {of_what}, {num_wanted}")


def _advantage(value: Any, reward: float | None, where: str) -> float:
    """One advantage. Of a candidate that could not be scored nothing is learned: its advantage is 0, or None."""
    if value is None and reward is None:
        return 0.0
    if not isinstance(value, Real):
        raise ValueError(f"{where}: {type(value).__name__} instead of a number")
    if not math.isfinite(value):
        raise ValueError(f"{where}: {value} is not finite")
    if reward is None and value != 0:
        raise ValueError(f"{where}: {value}, and its reward is None because it could not be scored; return 0 for it")
    return float(value)
