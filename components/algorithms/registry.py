"""Advantage estimators by their name in the configuration: built-in, or custom as `module:function`."""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from numbers import Real
from typing import Any

from components.algorithms.at_grpo import at_grpo_advantages
from components.algorithms.c3 import c3_advantages
from components.algorithms.dr_grpo import dr_grpo_advantages
from components.algorithms.dr_mas import compare_agents
from components.algorithms.gigpo import gigpo_advantages
from components.algorithms.grouping import Advantages, Rewards, flatten, select_compared_rewards, unflatten
from components.algorithms.grpo import grpo_advantages
from components.algorithms.reinforce_pp import reinforce_pp_advantages
from components.algorithms.rloo import leave_one_out
from components.algorithms.role_returns import keep_returns, less_replica_mean, less_role_mean
from components.algorithms.solver_value import solver_advantages
from components.config import AlgorithmConfig
from components.errors import ConfigurationError
from components.schema import Episode
from components.user_code import as_config_error, is_custom, load_function, source_location

Estimator = Callable[[Sequence[Episode], Rewards, AlgorithmConfig], Advantages]
"""(episodes of a step, rewards with axes E, N, K, algorithm) -> advantages with the same axes.

A reward is None if its candidate could not be scored, or only continues another; then its advantage is None too.
"""

ESTIMATORS: Mapping[str, Estimator] = {
    "at_grpo": at_grpo_advantages,
    "grpo": grpo_advantages,
    "dr_mas": compare_agents,
    "rloo": leave_one_out,
    "reinforce_pp": reinforce_pp_advantages,
    "dr_grpo": dr_grpo_advantages,
    "c3": c3_advantages,
    "role_baseline": keep_returns,
    "role_mean": less_role_mean,
    "role_group": less_replica_mean,
    "gae": keep_returns,
    "gigpo": gigpo_advantages,
    "solver_value": solver_advantages,
}
_INNER_AXES = ("node", "candidate")
TAKES = ("episodes", "rewards", "algorithm")
"""The parameters of a custom estimator. For a reward None it returns None or 0."""


def find_estimator(name: str, *, source: str | None = None) -> Estimator:
    """The estimator called `name`. Raises ConfigurationError if custom code cannot be used, or its digest is not `source`."""
    chosen = _own(name, source) if is_custom(name) else ESTIMATORS[name]

    def estimate(episodes: Sequence[Episode], rewards_E_N_K: Rewards, algorithm: AlgorithmConfig) -> Advantages:
        known = select_compared_rewards(episodes, rewards_E_N_K)
        found = flatten(chosen(episodes, known, algorithm))
        pairs = zip(found, flatten(known), strict=True)
        # An episode may have a return although one of its actions could not be scored.
        return unflatten((None if reward is None else advantage for advantage, reward in pairs), known)

    return estimate


@cache
def _own(name: str, source: str | None) -> Estimator:
    function = load_function("algorithm.advantage", name, takes=TAKES, source=source)
    what = f"algorithm.advantage {name!r}"

    def estimate(episodes: Sequence[Episode], rewards_E_N_K: Rewards, algorithm: AlgorithmConfig) -> Advantages:
        with as_config_error(what):
            found = function(episodes, rewards_E_N_K, algorithm)
        try:
            return [
                _check_custom_advantages(
                    found_N_K, rewards_N_K, f"{episode.problem.problem_id}, episode {episode.episode}", _INNER_AXES
                )
                for episode, rewards_N_K, found_N_K in zip(
                    episodes, rewards_E_N_K, _list(found, len(episodes), "the advantages", "episode"), strict=True
                )
            ]
        except ValueError as error:
            raise ConfigurationError(f"{what}: {source_location(function)}: {error}") from error

    return estimate


def _check_custom_advantages(found: Any, rewards: Any, where: str, axes: Sequence[str]) -> Any:
    """Own code's advantages along `axes`, with the shape of the rewards. Raises ValueError where they are none."""
    if not axes:
        return _advantage(found, rewards, where)
    listed = _list(found, len(rewards), where, axes[0])
    return tuple(
        _check_custom_advantages(each, reward, f"{where}, {axes[0]} {index}", axes[1:])
        for index, (each, reward) in enumerate(zip(listed, rewards, strict=True))
    )


def _list(values: Any, num_wanted: int, where: str, of_what: str) -> Sequence[Any]:
    if not hasattr(values, "__len__") or isinstance(values, str | bytes | Mapping):
        raise ValueError(f"{where}: {type(values).__name__} instead of a list with an entry for each {of_what}")
    if len(values) != num_wanted:
        raise ValueError(f"{where}: {len(values)} entries; return one for each {of_what}, {num_wanted}")
    listed: Sequence[Any] = values
    return listed


def _advantage(value: Any, reward: float | None, where: str) -> float | None:
    """One advantage; that of a candidate without a reward must be 0 or None, and is None."""
    if value is None and reward is None:
        return None
    if not isinstance(value, Real):
        raise ValueError(f"{where}: {type(value).__name__} instead of a number")
    if not math.isfinite(value):
        raise ValueError(f"{where}: {value} is not finite")
    if reward is None and value != 0:
        raise ValueError(f"{where}: {value}, and its reward is None, so that it is no row; return None for it")
    return None if reward is None else float(value)
