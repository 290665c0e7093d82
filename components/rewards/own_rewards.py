"""Custom reward functions, which value the candidates of a node and see the whole recorded episode.

The sampler ignores them when it chooses a candidate, so that a new function needs no new rollouts.
"""

import math
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from numbers import Real
from typing import Any

from components.config import RewardConfig
from components.errors import ConfigurationError
from components.rewards.base import Rubric
from components.schema import Episode, Node
from components.user_code import as_config_error, load_function, source_location

RewardFunction = Callable[[Episode, Node], Sequence[float]]
"""(episode, one of its nodes) -> a value for each of the node's candidates."""
TAKES = ("episode", "node")


@dataclass(frozen=True, slots=True, kw_only=True)
class CustomReward:
    """One component: a pure function of the user and its weight.

    Outcomes, rewards and success in the episode are those of the replay; a candidate's `reward` consists of the environment's
    components alone, before any length penalty and team credit. `episode.nodes` holds all nodes of a tree, and `episode.path`
    those of the selected branch; only nodes whose candidates are compared are asked for.

    **Example** `def brevity(episode, node): return [-len(each.text) / 10 for each in node.candidates]`; a bonus for every node
    of a successful episode is `return [episode.success] * len(node.candidates)`.
    """

    component: str
    name: str
    function: RewardFunction
    weight: float

    def values(self, episode: Episode) -> tuple[tuple[float, ...], ...]:
        """The value of each compared candidate of `episode` (N, K; empty for a node that is not compared). Raises
        ConfigurationError with the function's file and line."""
        return tuple(self._values_K(episode, node) if node.is_trained_on else () for node in episode.nodes)

    def _values_K(self, episode: Episode, node: Node) -> tuple[float, ...]:
        what = f"rewards.functions {self.name!r}"
        with as_config_error(what):
            found = self.function(episode, node)
        if fault := _fault(found, len(node.candidates)):
            raise ConfigurationError(f"{what}: {source_location(self.function)}: {node.group}: {fault}")
        return tuple(float(value) for value in found)


def own_rewards(config: RewardConfig, rubric: Rubric) -> tuple[CustomReward, ...]:
    """The components of `config.functions`, in order. Raises ConfigurationError if custom code cannot be used."""
    return tuple(
        CustomReward(
            component=component,
            name=name,
            function=load_function("rewards.functions", name, takes=TAKES, source=config.sources.get(name)),
            weight=rubric.weights[component],
        )
        for component, name in config.own_components.items()
    )


def _fault(found: Any, num_candidates: int) -> str | None:
    """What is wrong with the returned value; None if it is a finite number for each candidate."""
    try:
        is_listed = len(found) >= 0 and not isinstance(found, str | bytes | Mapping | Set)
    except TypeError:  # also of an array without dimensions
        is_listed = False
    if not is_listed:
        return f"returned {type(found).__name__}; return a list with a number for each of node.candidates"
    if len(found) != num_candidates:
        return f"returned {len(found)} values; return one for each of the {num_candidates} candidates"
    for k, value in enumerate(found):
        if not isinstance(value, Real):
            return f"returned {type(value).__name__} for candidate {k}; return a number"
        if not math.isfinite(value):
            return f"returned {value} for candidate {k}; return a finite number"
    return None
